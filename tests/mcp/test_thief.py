"""A thief in every place the key could stray to, and services that try to hold the relay up for ever."""

import gzip
import itertools
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from shomei_memory_mcp import settings
from shomei_memory_mcp.answers import Answer
from shomei_memory_mcp.refusals import SettingsRefused
from tests.mcp.calls import VALID, call
from tests.mcp.host import KEY, Host, environment, until
from tests.mcp.stub import ADDED, Exchange, Play, Stub

REMOTE = [name for name in VALID if name != "verify_receipt"]
PROXIES = [name for lower in ("http_proxy", "https_proxy", "all_proxy") for name in (lower, lower.upper())]
TIMEOUT_S = 1.0
# What a busy machine may add to a call that has its end at TIMEOUT_S.
IN_TIME_S = 20.0
BODY = json.dumps(ADDED).encode()


@pytest.fixture(scope="module")
def thief() -> Iterator[Stub]:
    """Somebody who listens where nothing should arrive."""
    with Stub() as stub:
        yield stub


def unheard(thief: Stub) -> bool:
    """Tell whether the thief has heard nothing of the key, nor of anything else."""
    return thief.connections == 0 and KEY.encode() not in thief.received


def in_time(play: Play, name: str, timeout_s: float = 10.0, **more: Any) -> tuple[Answer, Stub]:
    """Call a tool of a service that plays this; the call must come to an end."""
    started = time.monotonic()
    with Stub(play) as stub:
        answer = call(stub.url, name, timeout_s=timeout_s, **more)
        assert time.monotonic() - started < IN_TIME_S
    assert KEY not in answer.text
    return answer, stub


def elsewhere(thief: Stub) -> list[dict[str, str]]:
    """Return the header fields with which a service sends a client to somebody else."""
    host = f"127.0.0.1:{thief.port}"
    places = [f"{thief.url}/v1/search", f"//{host}/v1/search", f"http://{KEY}@{host}/", f"http:\\\\{host}\\"]
    return [
        *({"Location": place} for place in places),
        {"Location": places[0], "Refresh": f"0; url={thief.url}"},
        {"Alt-Svc": f'h1="{host}"; ma=86400, h2="{host}"'},
        {"Link": f"<{thief.url}>; rel=preload, <{thief.url}>; rel=preconnect"},
        {"Content_Location": thief.url, "Set_Cookie": f"a=b; Domain={host}"},
        {"WWW_Authenticate": f'Basic realm="{thief.url}"', "Proxy_Authenticate": "Basic"},
    ]


@pytest.mark.parametrize(
    "status", [200, 201, 300, 301, 302, 303, 304, 305, 307, 308, 401, 407, 421, 426, 511]
)
def test_nobody_is_followed_anywhere(thief: Stub, status: int) -> None:
    for number, fields in enumerate(elsewhere(thief)):
        name = REMOTE[(status + number) % len(REMOTE)]
        answer, stub = in_time(lambda exchange, fields=fields: exchange.answer(status, ADDED, **fields), name)
        assert answer.is_error == (status >= 300)
        assert len(stub.requests) == 1
    assert unheard(thief)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_no_proxy_of_the_environment_hears_of_loopback(thief: Stub, host: str) -> None:
    with Stub(family=socket.AF_INET6 if host == "[::1]" else socket.AF_INET) as stub:
        around = dict.fromkeys(PROXIES, thief.url) | {"NO_PROXY": "", "no_proxy": ""}
        around |= {"SHOMEI_MCP_PROXY": thief.url, "SSL_CERT_FILE": "", "REQUEST_METHOD": "GET"}
        with Host(environment(f"http://{host}:{stub.port}", **around)) as relay:
            relay.initialize()
            for name in REMOTE:
                relay.call(name, **VALID[name])
        assert len(stub.requests) == len(REMOTE)
    assert unheard(thief)


def test_a_home_with_credentials_changes_nothing(thief: Stub, tmp_path: Any) -> None:
    """Stock clients read ~/.netrc, and put what it says in the place of the key."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login thief password thief\n")
    (tmp_path / ".netrc").chmod(0o600)
    with Stub() as stub:
        around = {"HOME": str(tmp_path), "NETRC": str(tmp_path / ".netrc")}
        around["SSLKEYLOGFILE"] = str(tmp_path / "keys")
        with Host(environment(stub.url, **around)) as relay:
            relay.initialize()
            relay.call("search_memory", query="a")
        assert stub.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert [each.name for each in tmp_path.iterdir()] == [".netrc"]
    assert unheard(thief)


@pytest.mark.parametrize(
    "template",
    [
        *("http://localhost.evil.test:{}", "http://127.0.0.1.evil.test:{}", "http://evil.test:{}/127.0.0.1"),
        *("http://127.0.0.1@evil.test:{}", "http://evil.test:{}#127.0.0.1", "http://evil.test:{}?127.0.0.1"),
        *("http://127.0.0.1:80@127.0.0.1:{}", "http://127.1:{}", "http://2130706433:{}", "http://0:{}"),
        *(
            "http://0x7f000001:{}",
            "http://0177.0.0.1:{}",
            "http://[::ffff:127.0.0.1]:{}",
            "http://0.0.0.0:{}",
        ),
        *(
            "http://l\u043ecalhost:{}",
            "http://\uff4cocalhost:{}",
            "http://127\u30020.0.1:{}",
            "http:/127.0.0.1:{}",
        ),
        *(
            "http://localhost\\.evil.test:{}",
            "http://localhost%2eevil.test:{}",
            "http://localhost\t.evil.test:{}",
        ),
    ],
)
def test_look_alikes_of_loopback_get_nothing(thief: Stub, template: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        settings.read({"SHOMEI_MCP_BASE_URL": template.format(thief.port), "SHOMEI_MCP_API_KEY": KEY})
    assert KEY not in str(refused.value)
    assert str(thief.port) not in str(refused.value)
    assert unheard(thief)


@pytest.mark.parametrize("name", REMOTE)
def test_no_field_reaches_a_header(name: str) -> None:
    evil = "a\r\nAuthorization: Bearer stolen\r\nHost: evil.test\r\n\r\nGET /v1/export HTTP/1.1\r\nX: b"
    texts = [field for field, value in VALID[name].items() if isinstance(value, str)]
    answer, stub = in_time(
        lambda exchange: exchange.answer(200, {"ok": True}),
        name,
        params=VALID[name] | dict.fromkeys(texts, evil),
    )
    assert not answer.is_error
    (request,) = stub.requests
    allowed = {"host", "authorization", "accept", "accept-encoding", "user-agent", "connection"}
    allowed |= {"idempotency-key", "content-length", "content-type"}
    assert set(request.headers) <= allowed
    assert (request.headers["host"], request.headers["authorization"]) == (
        f"127.0.0.1:{stub.port}",
        f"Bearer {KEY}",
    )
    assert stub.received.count(b"HTTP/1.1\r\n") == 1


HEAD = b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\n"


def forever(*parts: bytes) -> Play:
    """Send the first part, then the others over and over."""

    def play(exchange: Exchange) -> None:
        exchange.raw(parts[0])
        for part in itertools.cycle(parts[1:]):
            exchange.raw(part)

    return play


def slowly(*parts: bytes) -> Play:
    """The same, one part every tenth of a second, so that no single read takes long."""

    def play(exchange: Exchange) -> None:
        exchange.raw(parts[0])
        for part in itertools.cycle(parts[1:]):
            if exchange.released.wait(0.1):
                return
            exchange.raw(part)

    return play


def once(data: bytes) -> Play:
    """Send this and keep the connection open."""

    def play(exchange: Exchange) -> None:
        exchange.raw(data)
        exchange.hang()

    return play


BOMB = gzip.compress(b'{"a": "' + b" " * 50_000_000 + b'"}')
LONG = b"Content-Length: %d\r\n"
HOLDERS: dict[str, Play] = {
    "says nothing": Exchange.hang,
    "half a status line": once(b"HTTP/1."),
    "a header without an end": forever(HEAD + b"X: ", b"x" * 65_536),
    "headers without an end": forever(HEAD, b"X: y\r\n" * 1_000),
    "headers that drip": slowly(HEAD, b"X: y\r\n"),
    "interim answers without an end": forever(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100),
    "interim answers that drip": slowly(b"", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"),
    "a body without an end": forever(HEAD + b"Connection: close\r\n\r\n", b"[" * 1_000_000),
    "a body that drips": slowly(HEAD + LONG % 999 + b"\r\n", b" "),
    "chunks without an end": forever(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    ),
    "small chunks that drip": slowly(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a chunk size without an end": forever(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 65_536),
    "trailers without an end": forever(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: y\r\n" * 1_000
    ),
    "a bomb": once(HEAD + b"Content-Encoding: gzip\r\n" + LONG % len(BOMB) + b"\r\n" + BOMB),
    "a bomb in the transfer": once(
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n%x\r\n" % len(BOMB) + BOMB + b"\r\n0\r\n\r\n"
    ),
    "a bomb in a refusal": once(
        b"HTTP/1.1 409 X\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        + LONG % len(BOMB)
        + b"\r\n"
        + BOMB
    ),
    "two lengths": once(HEAD + LONG % len(BODY) + LONG % 7 + b"\r\n" + BODY),
    "a negative length": once(HEAD + b"Content-Length: -1\r\n\r\n" + BODY),
    "a length beyond reason": once(HEAD + LONG % 10**18 + b"\r\n" + BODY),
    "less than it says": once(HEAD + LONG % (len(BODY) + 1) + b"\r\n" + BODY),
    "another protocol": once(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
    "no HTTP at all": once(b"220 mail.example.test ESMTP\r\n"),
}


@pytest.mark.parametrize("how", HOLDERS)
def test_every_call_ends(how: str) -> None:
    answer, stub = in_time(HOLDERS[how], "add_memory", TIMEOUT_S)
    assert answer.is_error or answer.structured == {"applied": True, "answer_omitted": "larger than 32 MiB"}
    assert len(stub.requests) == 1  # and nothing is tried again that may have been applied
    # What may have been applied is never called undone.
    refused = answer.text.startswith("refused (409)")
    assert refused or "may have been applied" in answer.text or not answer.is_error


def test_a_relay_that_was_held_up_goes_on() -> None:
    """The same holders one after the other against one relay; then an honest answer arrives."""
    with Stub() as stub, Host(environment(stub.url, SHOMEI_MCP_TIMEOUT_S="5")) as relay:
        relay.initialize()
        asked = []
        for play in HOLDERS.values():
            stub.play = play
            before = len(stub.requests)
            asked.append(
                relay.ask("tools/call", {"name": "get_receipt", "arguments": {"params": {"memory_id": "a"}}})
            )
            until(lambda before=before: len(stub.requests) > before)
        assert all(relay.answer(id_)["result"]["isError"] for id_ in asked)
        stub.play = lambda exchange: exchange.answer(200, ADDED)
        assert relay.call("search_memory", query="a")["structuredContent"] == ADDED
        assert relay.end() == 0
    assert relay.stderr == b""
    assert KEY.encode() not in relay.said()


def test_what_a_service_sends_unasked_is_no_answer_to_the_next_question() -> None:
    """An answer too many, as proxies that lose count send one, is not taken for what was asked next."""
    forged = b'{"results": [{"id": "lm_forged"}]}'

    def twice(exchange: Exchange) -> None:
        exchange.raw(HEAD + LONG % len(BODY) + b"\r\n" + BODY + HEAD + LONG % len(forged) + b"\r\n" + forged)

    with Stub(twice) as stub, Host(environment(stub.url)) as relay:
        relay.initialize()
        for _ in range(3):
            assert relay.call("search_memory", query="a").get("structuredContent") == ADDED
