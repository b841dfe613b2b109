"""What went wrong elsewhere and was reported in public, tried on a service of its own: DEV-29 to 33."""

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from shomei_service.engine import limits
from tests.api.house import Answer, Live, read_answer
from tests.fakes import Home, new_home
from tests.service import Service, serving

MARK = "ZQ7-5d21f0"
MIB = 1024 * 1024
ADMIN_SENTENCE = "this action requires an admin-scoped key"


@dataclass(frozen=True, slots=True)
class Office:
    """A running service, seen as its users see it."""

    home: Home
    service: Service
    live: Live

    @property
    def resident(self) -> int:
        """The most memory the process ever had, in octets."""
        told = Path(f"/proc/{self.service.process.pid}/status").read_text()
        peak = re.search(r"^VmHWM:\s+(\d+) kB$", told, re.MULTILINE)
        assert peak is not None
        return int(peak[1]) * 1024

    def send(self, method: str, target: str, *, admin: bool = True, body: Any = None, **more: Any) -> Answer:
        """Send one request with a key."""
        key = self.home.admin_token if admin else self.home.data_token
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.live.ask(method, target, key=key, body=raw, **more)

    def remember(self, text: str) -> str:
        """Remember a text and return its id."""
        return self.send("POST", "/v1/memories", body={"messages": text}).json["results"][0]["id"]

    def recallable(self, memory_id: str) -> bool:
        """Say whether recall may return the memory."""
        return self.send("GET", f"/v1/memories/{memory_id}", admin=False).status == 200


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    home = new_home(folder)
    loud = {"SHOMEI_LOG_LEVEL": "debug", "SHOMEI_RATE_FAILED_KEYS": "1000000"}
    with serving(home, folder, settings=loud) as service:
        yield Office(home, service, Live(httpx.URL(service.url).port or 0))


# --- DEV-29: a refusal never repeats what was sent


def wrong_bodies() -> list[tuple[str, str, bytes]]:
    broken = [b'{"messages":"' + MARK.encode(), b'{"messages":"%s","n":NaN}' % MARK.encode()]
    broken.append(b'{"messages":"%s\\ud800"}' % MARK.encode())
    wrong: list[Any] = [{"mesages": MARK}, {"user_id": MARK}, {MARK: MARK}, [MARK], MARK]
    wrong += [{"messages": [MARK]}, {"messages": 7, "user_id": MARK}, {"messages": {MARK: MARK}}]
    every = [*broken, *(json.dumps(one).encode() for one in wrong)]
    others = [
        ("POST", "/v1/search", {"query": MARK, "limit": MARK}),
        ("POST", "/v1/search", {"qery": MARK}),
        ("PUT", "/v1/memories/lm_1", {"dta": MARK}),
        ("POST", "/v1/forget", {"user": MARK}),
        ("POST", "/v1/memories/lm_1/restrict", {"reason": MARK}),
    ]
    return [
        *(("POST", "/v1/memories", one) for one in every),
        *((method, target, json.dumps(one).encode()) for method, target, one in others),
    ]


@pytest.mark.parametrize("index", range(len(wrong_bodies())))
def test_dev_29_a_refusal_repeats_nothing(office: Office, index: int) -> None:
    method, target, body = wrong_bodies()[index]
    answer = office.send(method, target, body=body)
    assert answer.status == 422
    assert answer.json.keys() == {"code", "detail", "request_id"}
    assert len(answer.json["detail"]) <= 200
    assert MARK.encode() not in answer.body
    assert not re.search(rb"pydantic|starlette|fastapi|https?://|Error|input", answer.body)
    assert MARK not in office.service.log.read_text()


# --- DEV-30: an encoded slash is not a path


def test_dev_30_an_encoded_slash_reaches_no_other_verb(office: Office) -> None:
    held, other = office.remember("one"), office.remember("two")
    assert office.send("POST", f"/v1/memories/{held}/restrict", body={}).status == 200
    for method, target in (
        ("DELETE", f"/v1/memories/{held}%2Frestrict"),
        ("POST", f"/v1/memories/{other}%2Frestrict"),
        ("PUT", f"/v1/memories/{other}%2Fverify"),
        ("DELETE", f"/v1/memories/{held}%2F..%2F{other}"),
        ("DELETE", f"/v1/memories/{other}%00"),
        ("DELETE", f"/v1/memories/{other}%20"),
        ("DELETE", f"/v1/memories/{other.upper()}"),
        ("POST", "/v1/memories/"),
        ("GET", "/v1//memories"),
    ):
        answer = office.send(method, target, body={"data": "x"} if method == "PUT" else None)
        assert answer.status in {404, 405, 422}
        assert {"code", "detail", "request_id"} <= answer.json.keys()
        assert "location" not in answer.headers
    assert office.send("GET", f"/v1/memories/x%2F{other}/verify").json["valid"] is None
    assert not office.recallable(held)
    assert office.recallable(other)


# --- DEV-31: huge, chunked and slow bodies


def opening(office: Office, *lines: bytes, key: bool) -> bytes:
    first = [b"POST /v1/memories HTTP/1.1", b"Host: s", b"Content-Type: application/json", *lines]
    if key:
        first.append(b"Authorization: Bearer " + office.home.data_token.encode())
    return b"\r\n".join([*first, b"", b""])


def poured(connection: socket.socket, piece: bytes, octets: int) -> int:
    """Send up to that many octets and return how many were taken before the door was shut."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < octets:
            connection.sendall(piece)
            sent += len(piece)
    return sent


@pytest.mark.parametrize("key", [False, True], ids=["a stranger", "a client"])
@pytest.mark.parametrize("how", ["declared", "chunked"])
def test_dev_31_a_body_of_200_mb_is_not_taken_in(office: Office, how: str, key: bool) -> None:
    before = office.resident
    declared = b"Content-Length: 209715200" if how == "declared" else b"Transfer-Encoding: chunked"
    piece = b" " * 65536 if how == "declared" else b"10000\r\n" + b" " * 65536 + b"\r\n"
    with office.live.connect() as connection:
        connection.sendall(opening(office, declared, key=key))
        assert poured(connection, piece, 200 * MIB) < 32 * MIB  # what lay in sockets, and little more
        with contextlib.suppress(ConnectionError):
            assert read_answer(connection).status == (413 if key else 401)
    assert office.resident - before < 50 * MIB
    assert office.send("GET", "/v1/signer").status == 200


def test_dev_31_a_false_length_stores_nothing(office: Office) -> None:
    body = b'{"messages":"half of what was promised"}'
    with office.live.connect() as connection:
        connection.sendall(opening(office, b"Content-Length: %d" % (len(body) + 10), key=True) + body)
    found = office.send("POST", "/v1/search", body={"query": "half of what was promised"}).json["results"]
    assert found == []


def test_dev_31_200_slow_clients_keep_nobody_waiting(office: Office) -> None:
    before = office.resident
    slow = [office.live.connect() for _ in range(200)]
    try:
        for connection in slow:
            connection.sendall(opening(office, b"Content-Length: 1000", key=True) + b"{")
        for number in range(3):
            for connection in slow[:20]:
                connection.sendall(b" ")
            assert office.send("POST", "/v1/memories", body={"messages": f"quick {number}"}).status == 200
    finally:
        for connection in slow:
            connection.close()
    assert office.resident - before < 50 * MIB


def test_dev_31_deep_json_has_an_end(office: Office) -> None:
    for deep in (b"[" * 100_000, b'{"a":' * 40_000, b'{"messages":' + b"[" * 60_000 + b"]" * 60_000 + b"}"):
        answer = office.send("POST", "/v1/memories", body=deep)
        assert (answer.status, answer.json["code"]) == (422, "too_deep")


def test_dev_31_the_largest_memory_is_kept_and_found(office: Office) -> None:
    text = ("largestmemory " + "ä" * limits.TEXT_BYTES).encode()[: limits.TEXT_BYTES].decode(errors="ignore")
    text += "x" * (limits.TEXT_BYTES - len(text.encode()))
    memory_id = office.remember(text)
    found = office.send("POST", "/v1/search", body={"query": "largestmemory"}).json["results"]
    assert [(one["id"], one["memory"]) for one in found] == [(memory_id, text)]
    over = office.send("POST", "/v1/memories", body={"messages": text + "x"})
    assert over.status in {413, 422}
    assert b"largestmemory" not in over.body


# --- DEV-32 is a whole run: tests/leaks/test_whole_run.py
# --- DEV-33: odd Authorization headers


def odd_keys(key: bytes) -> dict[str, tuple[list[bytes], int]]:
    return {
        "none": ([], 401),
        "scheme alone": ([b"Bearer"], 401),
        "two spaces": ([b"Bearer  "], 401),
        "lower case": ([b"bearer " + key], 200),
        "upper case": ([b"BEARER " + key], 200),
        "basic": ([b"Basic " + key], 401),
        "another octet": ([b"Bearer " + key + b"\xe9"], 401),
        "64 KB": ([b"Bearer " + b"A" * 65_000], 401),
        "two": ([b"Bearer " + key, b"Bearer " + key], 401),
        "trailing space": ([b"Bearer " + key + b" "], 200),
    }


@pytest.mark.parametrize("name", odd_keys(b""))
def test_dev_33_odd_headers_are_401_and_never_500(office: Office, name: str) -> None:
    values, status = odd_keys(office.home.data_token.encode())[name]
    answer = office.live.ask("GET", "/v1/signer", *(b"Authorization: " + value for value in values))
    assert answer.status == status
    assert (answer.headers.get("www-authenticate") == "Bearer") == (status == 401)


@pytest.mark.parametrize("name", ["token", "api_key"])
def test_dev_33_a_key_in_the_query_is_no_key(office: Office, name: str) -> None:
    assert office.live.ask("GET", f"/v1/signer?{name}={office.home.data_token}").status == 401
    assert office.home.data_token.split("_", 2)[2] not in office.service.log.read_text()


@pytest.mark.parametrize("verb", ["DELETE {}", "PUT {}", "POST {}/restrict", "POST /v1/forget"])
def test_dev_33_a_data_key_governs_nothing_and_learns_nothing(office: Office, verb: str) -> None:
    memory_id = office.remember("not to be governed")
    bodies: list[dict[str, Any]] = []
    for one in (memory_id, "lm_" + 32 * "0"):
        method, _, target = verb.format(f"/v1/memories/{one}").partition(" ")
        answer = office.send(method, target, admin=False, body={"data": "x", "user_id": "x"})
        assert answer.status == 403
        bodies.append({**answer.json, "request_id": ""})
    assert bodies[0] == bodies[1] == {"code": "forbidden_scope", "detail": ADMIN_SENTENCE, "request_id": ""}
    assert office.recallable(memory_id)
