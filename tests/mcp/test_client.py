"""The HTTP side against a scripted service (DEV-04, DEV-05, DEV-06): one request, one answer."""

import gzip
import json
import re
import socket
from typing import Any
from urllib.parse import unquote

import anyio
import httpx
import pytest

from shomei_memory_mcp import client, settings
from shomei_memory_mcp.answers import Answer
from shomei_memory_mcp.client import Service
from shomei_memory_mcp.settings import Settings
from shomei_memory_mcp.tools import Relay, call_tool
from tests.mcp.calls import BY_NAME, NAMES_AN_ID, VALID, WRITES, call
from tests.mcp.host import KEY
from tests.mcp.stub import ADDED, Exchange, Play, Stub, closed_port

REMOTE = [name for name in VALID if name != "verify_receipt"]
MARK = "ZQ7-51d9"
FOREIGN = [MARK, KEY, "<html", "Traceback", "/srv/", "127.0.0.1", "httpx", "Error("]
MAYBE = "The operation may have been applied."


def played(play: Play, name: str = "add_memory", **settings: Any) -> tuple[Answer, Stub]:
    with Stub(play) as stub:
        answer = call(stub.url, name, **settings)
    assert not any(word in answer.text for word in FOREIGN), answer.text
    return answer, stub


def test_each_tool_is_one_request() -> None:
    with Stub(lambda exchange: exchange.answer(200, {"ok": True})) as stub:
        for name in REMOTE:
            assert not call(stub.url, name).is_error
        call(stub.url, "restrict_memory", {"memory_id": "lm_1", "restricted": False, "reason": "x"})
    assert stub.targets == [
        "POST /v1/memories",
        "POST /v1/search",
        "PUT /v1/memories/lm_1",
        "DELETE /v1/memories/lm_1",
        "POST /v1/forget",
        "POST /v1/memories/lm_1/restrict",
        "GET /v1/memories/lm_1/verify",
        "GET /v1/memories/lm_1/lineage/neighbors?direction=out&limit=50",
        "GET /v1/memories/lm_1/lineage/graph?direction=out&limit=50",
        "DELETE /v1/memories/lm_1/restrict",
    ]
    bodies = [request.json() if request.body else None for request in stub.requests]
    assert bodies == [
        {"messages": "text", "semantic_type": "GENERIC"},
        {"query": "text", "limit": 10},
        {"data": "text"},
        None,
        {"user_id": "alice"},
        {"reason": "art18_request"},
        None,
        None,
        None,
        None,
    ]
    keyed = ["idempotency-key" in request.headers for request in stub.requests]
    assert keyed == [True, False, True, True, True, True, False, False, False, True]
    assert len({request.headers.get("idempotency-key") for request in stub.requests}) == 7
    for request in stub.requests:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["accept-encoding"] == "identity"
        assert "cookie" not in request.headers


@pytest.mark.parametrize(
    ("status", "detail", "text"),
    [
        (
            401,
            "unauthenticated",
            "refused (401): the service does not accept SHOMEI_MCP_API_KEY. unauthenticated",
        ),
        (
            403,
            "this action requires an admin-scoped key",
            "refused (403): this action requires an admin-scoped key",
        ),
        (403, None, "refused (403): this action requires an admin-scoped key"),
        (404, None, "refused (404): no such memory, or already erased"),
        (409, "blocked", "refused (409): not possible in the memory's current state. blocked"),
        (413, None, "refused (413): too large"),
        (422, "user_id is too long", "refused (422): the service refused the input. user_id is too long"),
        (423, None, "refused (423): a legal hold forbids this"),
        (429, None, "refused (429): too many requests; wait, then try again"),
        (501, None, "refused (501): this deployment does not support it"),
        (503, None, "refused (503): the service cannot do this now; try again later"),
    ],
)
def test_refusals_in_fixed_words(status: int, detail: str | None, text: str) -> None:
    body = {"code": "x", "request_id": "r"} | ({"detail": detail} if detail else {})
    answer, stub = played(lambda exchange: exchange.answer(status, body), "update_memory")
    assert (answer.is_error, answer.text, answer.structured, len(stub.requests)) == (True, text, None, 1)


@pytest.mark.parametrize(
    "detail",
    [
        f'Traceback (most recent call last):\n  File "/srv/app.py", line 1 {MARK} {KEY} ' + "x" * 5_000,
        f"<html><b>{MARK}</b>",
        f"see /srv/data/{MARK}/memory.db",
        f"C:\\data\\{MARK}",
        {"nested": MARK},
        [MARK],
        7,
    ],
)
def test_details_that_are_no_sentence_of_the_service_are_dropped(detail: Any) -> None:
    answer, _ = played(lambda exchange: exchange.answer(422, {"detail": detail}))
    assert answer.text == "refused (422): the service refused the input"


def test_details_are_cut_cleaned_and_free_of_the_key() -> None:
    detail = f"a\x1b[31mb\x00c\u2028d \ud800 {KEY} " + "x" * 5_000
    answer, _ = played(lambda exchange: exchange.answer(409, {"detail": detail}))
    shown = answer.text.removeprefix("refused (409): not possible in the memory's current state. ")
    assert len(shown) == client.MAX_DETAIL_CHARACTERS
    assert shown.startswith("a [31mb c d ? [redacted] xxx")


def html(status: int) -> Play:
    return lambda exchange: exchange.send(
        status, f"<html>{MARK} Traceback".encode(), Content_Type="text/html"
    )


def cut(exchange: Exchange) -> None:
    exchange.raw(
        b'HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"results": ['
    )
    exchange.reset()


def silent(exchange: Exchange) -> None:
    exchange.hang()


def garbage(exchange: Exchange) -> None:
    exchange.raw(b"SSH-2.0-" + MARK.encode() + b"\r\n\r\n")
    exchange.reset()


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        (html(502), "bad answer: HTTP 502, not an answer of the service."),
        (html(200), "bad answer: a body that is not JSON."),
        (lambda exchange: exchange.answer(500, {"detail": f"{MARK} {KEY} /srv/x/y"}), "bad answer: HTTP 500"),
        (
            lambda exchange: exchange.answer(200, [MARK]),
            "bad answer: a body that is withheld: it is not a JSON object.",
        ),
        (lambda exchange: exchange.answer(200, MARK.encode()), "bad answer: a body that is withheld"),
        (lambda exchange: exchange.send(204, b""), "bad answer: a body that is not JSON."),
        (lambda exchange: exchange.answer(418, {}), "bad answer: HTTP 418, not an answer of the service."),
        (cut, "outcome unknown: the connection broke before the answer."),
        (Exchange.reset, "outcome unknown: the connection broke before the answer."),
        (garbage, "outcome unknown: the connection broke before the answer."),
        (silent, "outcome unknown: no answer in time."),
    ],
    ids=[
        "html-502",
        "html-200",
        "json-500",
        "list",
        "no-json",
        "204",
        "418",
        "cut",
        "reset",
        "garbage",
        "silent",
    ],
)
def test_a_write_without_an_answer_says_what_happened_and_is_sent_once(play: Play, kind: str) -> None:
    answer, stub = played(play, timeout_s=2.0 if play is silent else 60.0)
    assert answer.is_error
    assert answer.text.startswith(kind)
    assert MAYBE in answer.text
    assert stub.targets == ["POST /v1/memories"]


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        (cut, "unreachable: the connection broke before the answer."),
        (silent, "unreachable: no answer in time."),
        (html(200), "bad answer: a body that is not JSON."),
    ],
)
def test_a_read_without_an_answer_claims_no_effect(play: Play, kind: str) -> None:
    answer, stub = played(play, "search_memory", timeout_s=2.0 if play is silent else 60.0)
    assert (answer.text, len(stub.requests)) == (kind, 1)


@pytest.mark.parametrize("name", REMOTE)
def test_nobody_listening(name: str) -> None:
    with closed_port() as url:
        answer = call(url, name)
    assert answer.text == "unreachable: no connection to SHOMEI_MCP_BASE_URL; nothing was sent."


class FirstRefused(httpx.AsyncBaseTransport):
    """A network on which the first `refusals` connections cannot be made."""

    def __init__(self, error: type[httpx.TransportError], refusals: int) -> None:
        self.error, self.refusals = error, refusals
        self.keys: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers["Idempotency-Key"])
        if len(self.keys) <= self.refusals:
            raise self.error("no")
        content = httpx.ByteStream(json.dumps(ADDED).encode())
        return httpx.Response(200, headers={"Content-Type": "application/json"}, stream=content)


@pytest.mark.parametrize(
    ("error", "refusals", "attempts", "text"),
    [
        (httpx.ConnectError, 1, 2, None),
        (httpx.ConnectTimeout, 1, 2, None),
        (httpx.ConnectError, 2, 2, "unreachable: no connection to SHOMEI_MCP_BASE_URL; nothing was sent."),
        (httpx.PoolTimeout, 1, 1, "unreachable: no connection to SHOMEI_MCP_BASE_URL; nothing was sent."),
        (
            httpx.ReadError,
            1,
            1,
            f"outcome unknown: the connection broke before the answer. {MAYBE} Check before trying again.",
        ),
        (httpx.WriteTimeout, 1, 1, f"outcome unknown: no answer in time. {MAYBE} Check before trying again."),
    ],
)
def test_only_a_connection_that_was_not_made_is_tried_once_more(
    error: type[httpx.TransportError], refusals: int, attempts: int, text: str | None
) -> None:
    network = FirstRefused(error, refusals)
    given = Settings(api_key=KEY)

    async def run() -> Answer:
        service = Service(given, KEY, opener=lambda *_: httpx.AsyncClient(transport=network))
        answer = await call_tool(Relay(given, service), BY_NAME["add_memory"], {"params": {"messages": "a"}})
        await service.aclose()
        return answer

    answer = anyio.run(run)
    assert (answer.structured, answer.is_error) == ((ADDED, False) if text is None else (None, True))
    assert text is None or answer.text == text
    assert (len(network.keys), len(set(network.keys))) == (attempts, 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_never_followed(status: int) -> None:
    with Stub() as elsewhere:
        where = f"{elsewhere.url}/v1/memories"
        answer, stub = played(lambda exchange: exchange.answer(status, {}, Location=where))
        assert not elsewhere.requests
    assert answer.text == f"bad answer: HTTP {status}, a redirect, which is never followed. {MAYBE}"
    assert len(stub.requests) == 1


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "identity, gzip"])
def test_compressed_bodies_are_refused_unread(encoding: str) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    answer, _ = played(lambda exchange: exchange.answer(200, bomb, Content_Encoding=encoding))
    assert answer.text == f"bad answer: a compressed body, which was not asked for. {MAYBE}"


def endless(exchange: Exchange) -> None:
    exchange.raw(b'HTTP/1.1 200 X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"a": "')
    while True:
        exchange.raw(b"x" * 1_000_000)


@pytest.mark.parametrize("name", ["search_memory", "get_receipt"])
def test_endless_bodies_are_cut(name: str) -> None:
    answer, _ = played(endless, name)
    assert answer.text == "bad answer: a body larger than 32 MiB."


def test_an_applied_write_with_an_endless_body_is_no_error() -> None:
    answer, _ = played(endless, "forget_subject")
    assert (answer.is_error, answer.structured) == (
        False,
        {"applied": True, "answer_omitted": "larger than 32 MiB"},
    )


def test_endless_refusals_are_cut() -> None:
    def refused(exchange: Exchange) -> None:
        exchange.raw(
            b'HTTP/1.1 409 X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"detail": "'
        )
        while True:
            exchange.raw(b"x" * 1_000_000)

    answer, _ = played(refused)
    assert answer.text == "refused (409): not possible in the memory's current state"


def test_a_body_that_drips_is_timed_out() -> None:
    def drip(exchange: Exchange) -> None:
        exchange.raw(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n")
        while not exchange.released.wait(0.1):
            exchange.raw(b" ")

    answer, _ = played(drip, timeout_s=2.0)
    assert answer.text == f"outcome unknown: no answer in time. {MAYBE} Check before trying again."


IDS = [
    "../memories",
    "a/../b",
    "%2e%2e",
    "x?limit=1",
    "x#y",
    "x/restrict",
    "a//b",
    "\u00e9",
    "x\ny",
    "x\x00",
    "a b",
    "a;b",
    "...",
]


@pytest.mark.parametrize("name", NAMES_AN_ID)
def test_an_id_is_exactly_one_encoded_segment(name: str) -> None:
    with Stub(lambda exchange: exchange.answer(200, {"ok": True})) as stub:
        for given in ["lm_1", *IDS]:
            call(stub.url, name, VALID[name] | {"memory_id": given})
    plain, *others = [request.target for request in stub.requests]
    before, after = plain.split("lm_1")
    for given, target in zip(IDS, others, strict=True):
        segment = target.removeprefix(before).removesuffix(after)
        assert target == before + segment + after
        assert re.fullmatch(r"([A-Za-z0-9_.~-]|%[0-9A-F]{2})+", segment)
        assert unquote(segment) == given


@pytest.mark.parametrize("name", NAMES_AN_ID)
@pytest.mark.parametrize("given", [".", "..", " .. ", "\t.\n"])
def test_dot_segments_never_leave_the_relay(name: str, given: str) -> None:
    answer, stub = played(lambda exchange: exchange.answer(200, {}), name)
    assert len(stub.requests) == 1
    with Stub() as stub:
        answer = call(stub.url, name, VALID[name] | {"memory_id": given})
        assert (answer.text, stub.connections) == (
            "refused: memory_id: Opaque memory id, at most 512 bytes.",
            0,
        )


@pytest.mark.parametrize("prefix", ["", "/", "//", "/shomei", "/shomei/"])
def test_the_base_path_is_kept_once(prefix: str) -> None:
    with Stub() as stub:
        base = settings.read({"SHOMEI_MCP_BASE_URL": stub.url + prefix}).base_url
        call(base, "add_memory")
        call(base, "delete_memory")
    path = prefix.rstrip("/")
    assert stub.targets == [f"POST {path}/v1/memories", f"DELETE {path}/v1/memories/lm_1"]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_localhost_is_found_on_either_family(family: socket.AddressFamily) -> None:
    with Stub(family=family) as stub:
        assert not call(f"http://localhost:{stub.port}", "add_memory").is_error
    assert len(stub.requests) == 1


def test_cookies_of_the_service_are_not_sent_back() -> None:
    with Stub(lambda exchange: exchange.answer(200, ADDED, Set_Cookie="a=b")) as stub:

        async def run() -> None:
            given = Settings(api_key=KEY, base_url=stub.url)
            service = Service(given, KEY)
            for _ in range(2):
                await call_tool(Relay(given, service), BY_NAME["add_memory"], {"params": {"messages": "a"}})
            await service.aclose()

        anyio.run(run)
        assert stub.connections == 2  # and none is kept
    assert ["cookie" in request.headers for request in stub.requests] == [False, False]


@pytest.mark.parametrize("name", VALID)
def test_without_a_key_only_verify_receipt_works(name: str) -> None:
    with Stub() as stub:
        answer = call(stub.url, name, api_key=None)
        assert stub.connections == 0
    if name == "verify_receipt":
        assert not answer.is_error
    else:
        assert answer.text == "SHOMEI_MCP_API_KEY is not set; only verify_receipt works without it."


@pytest.mark.parametrize("name", VALID)
def test_read_only_switches_the_admin_tools_off(name: str) -> None:
    with Stub(lambda exchange: exchange.answer(200, {"ok": True})) as stub:
        answer = call(stub.url, name, read_only=True)
    admin = ["update_memory", "delete_memory", "forget_subject", "restrict_memory"]
    assert answer.is_error == (name in admin)
    assert len(stub.requests) == (name not in [*admin, "verify_receipt"])
    assert answer.text.startswith("refused: SHOMEI_MCP_READ_ONLY is set") == (name in admin)


def test_texts_travel_code_point_for_code_point() -> None:
    text = (
        "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\r\nh\ti\ufeffj \U0001f468\u200d\U0001f469 \u200f x\x00y"
    )
    with Stub(
        lambda exchange: exchange.answer(200, {"results": [{"memory": exchange.request.json()["messages"]}]})
    ) as stub:  # type: ignore[index]
        answer = call(stub.url, "add_memory", {"messages": text, "user_id": "u\x00v"})
    assert stub.requests[0].json() == {"messages": text, "user_id": "u\x00v", "semantic_type": "GENERIC"}
    assert answer.structured == {"results": [{"memory": text}]}


def test_a_failure_nobody_foresaw_is_still_an_answer() -> None:
    class Broken:
        """A service whose client cannot even be built."""

    def opener(*_: object) -> httpx.AsyncClient:
        raise RuntimeError(f"{KEY} {MARK} {Broken}")

    async def run(name: str) -> Answer:
        given = Settings(api_key=KEY)
        return await call_tool(
            Relay(given, Service(given, KEY, opener=opener)), BY_NAME[name], {"params": VALID[name]}
        )

    assert anyio.run(run, "add_memory") == Answer(f"bad answer: the relay failed. {MAYBE}", is_error=True)
    assert anyio.run(run, "get_receipt") == Answer("bad answer: the relay failed.", is_error=True)


def test_no_write_is_missing_from_these_tests() -> None:
    assert WRITES == ["add_memory", "update_memory", "delete_memory", "forget_subject", "restrict_memory"]
