"""T-31: one connection, one meaning. What two parsers could read in two ways is refused, and does nothing."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shomei_service.api.connection import Connection
from shomei_service.api.server import configuration
from tests.api.house import House, Live, serve

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=[Connection, "h11"], ids=["httptools", "h11"])
def either(request: pytest.FixtureRequest, house: House) -> Iterator[Live]:
    parser: Any = request.param
    with serve(house, http=parser) as live:
        yield live


IDLE_S = 0.4


def hidden(house: House, memory_id: str) -> bytes:
    """Return a whole request that would erase the memory if anybody took it for one."""
    return (
        f"DELETE /v1/memories/{memory_id} HTTP/1.1\r\nHost: s\r\nAuthorization: Bearer {house.admin}\r\n\r\n"
    ).encode()


def head(house: House, *lines: bytes) -> bytes:
    fixed = (b"POST /v1/search HTTP/1.1", b"Host: s", b"Authorization: Bearer " + house.data.encode())
    return b"\r\n".join([*fixed, b"Content-Type: application/json", *lines, b"", b""])


def sent(live: Live, request: bytes) -> list[int]:
    """Send the bytes; return the status of every answer that comes until the connection ends or is idle."""
    received = b""
    with live.connect() as connection, contextlib.suppress(ConnectionError, TimeoutError):
        connection.sendall(request)
        while piece := connection.recv(65536):
            received += piece
            connection.settimeout(IDLE_S)
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


CHUNKED = b"Transfer-Encoding: chunked"
BODY = b'{"query":"x"}'

# Each ends where a lenient reader would begin to read the hidden request.
AMBIGUOUS = {
    "length and chunked": ((b"Content-Length: 5", CHUNKED), b"0\r\n\r\n"),
    "chunked and length": ((CHUNKED, b"Content-Length: 5"), b"0\r\n\r\n"),
    "two lengths": ((b"Content-Length: 13", b"Content-Length: 0"), BODY),
    "a list of lengths": ((b"Content-Length: 13, 0",), BODY),
    "negative length": ((b"Content-Length: -1",), BODY),
    "signed length": ((b"Content-Length: +13",), BODY),
    "hexadecimal length": ((b"Content-Length: 0xd",), BODY),
    "length with an underscore": ((b"Content-Length: 1_3",), BODY),
    "length in other digits": (("Content-Length: １３".encode(),), BODY),
    "a length beyond counting": ((b"Content-Length: " + b"9" * 30,), BODY),
    "unknown coding": ((b"Transfer-Encoding: xchunked",), BODY),
    "chunked is not last": ((b"Transfer-Encoding: chunked, identity",), b"0\r\n\r\n"),
    "two codings": ((CHUNKED, b"Transfer-Encoding: identity"), b"0\r\n\r\n"),
    "space before the colon": ((b"Transfer-Encoding : chunked",), b"0\r\n\r\n"),
    "folded": ((b"X: a", b" b", b"Content-Length: 13"), BODY),
    "folded coding": ((b"Transfer-Encoding:", b" chunked"), b"0\r\n\r\n"),
    "NUL in a value": ((b"X: a\0b", b"Content-Length: 13"), BODY),
    "return in a value": ((b"X: a\rContent-Length: 0", b"Content-Length: 13"), BODY),
    "space in a name": ((b"Content Length: 0", b"Content-Length: 13"), BODY),
    "no name": ((b": 0", b"Content-Length: 13"), BODY),
    "size of a chunk is no number": ((CHUNKED,), b"z\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "negative chunk": ((CHUNKED,), b"-1\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk in 0x": ((CHUNKED,), b"0xd\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk beyond counting": ((CHUNKED,), b"F" * 17 + b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "garbage after a chunk": ((CHUNKED,), b"d\r\n" + BODY + b"XX0\r\n\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_t_31_what_has_two_readings_is_refused_and_ends_the_connection(
    house: House, live: Live, name: str
) -> None:
    """By the parser that serves; h11, which nothing picks, reads some of these as RFC 9112 §6.3 has it."""
    memory_id = house.add("smuggled at")
    lines, body = AMBIGUOUS[name]
    statuses = sent(live, head(house, *lines) + body + hidden(house, memory_id))
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 200
    assert statuses in ([400], [413], [422], [431], [501]), statuses


@pytest.mark.parametrize("name", ["bare line feeds", "a line feed in the head", "in the size of a chunk"])
def test_t_31_bare_line_feeds_hide_nothing(house: House, either: Live, name: str) -> None:
    """A line feed alone may end a line (RFC 9112 §2.2) or be refused; it never makes a second request."""
    memory_id = house.add("smuggled at")
    plain = head(house, b"Content-Length: %d" % len(BODY))
    request = {
        "bare line feeds": plain.replace(b"\r\n", b"\n") + BODY,
        "a line feed in the head": plain.replace(b"Host: s\r\n", b"Host: s\nX: y\r\n") + BODY,
        "in the size of a chunk": head(house, CHUNKED) + b"d\n" + BODY + b"\r\n0\r\n\r\n",
    }[name]
    assert sent(either, request) in ([400], [200])
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 200


def test_t_31_a_request_inside_a_body_is_a_body(house: House, either: Live) -> None:
    memory_id = house.add("smuggled at")
    inside = hidden(house, memory_id)
    declared = head(house, b"Content-Length: %d" % len(inside)) + inside
    chunked = head(house, CHUNKED) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(inside), inside)
    for request in (declared, chunked):
        assert sent(either, request) == [422]
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 200


def test_t_31_trailers_are_no_headers(house: House, either: Live) -> None:
    """An Authorization that comes after the body authorizes nothing."""
    bare = (
        b"POST /v1/search HTTP/1.1\r\nHost: s\r\nContent-Type: application/json\r\n" + CHUNKED + b"\r\n\r\n"
    )
    trailer = b"Authorization: Bearer " + house.admin.encode() + b"\r\n\r\n"
    assert sent(either, bare + b"d\r\n" + BODY + b"\r\n0\r\n" + trailer)[0] == 401


@pytest.mark.parametrize(
    "opening",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/2.0\r\nHost: s\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/1.1 x\r\nHost: s\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost s\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)  # fmt: skip
def test_t_31_other_protocols_are_none_of_ours(live: Live, opening: bytes) -> None:
    assert sent(live, opening) == [400]


def test_t_31_an_upgrade_is_not_followed(house: House, either: Live) -> None:
    """h2c and WebSocket offers are ignored: the request is answered as what it is."""
    memory_id = house.add("smuggled at")
    for offer in (b"h2c", b"websocket"):
        request = (
            b"GET /healthz HTTP/1.1\r\nHost: s\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + offer
        ) + b"\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
        assert 101 not in sent(either, request)
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 200


IMPOSTORS = (
    b"X-Forwarded-For: 127.0.0.1", b"X-Forwarded-Host: evil", b"X-Forwarded-Proto: https", b"X-Real-IP: ::1",
    b"Forwarded: for=127.0.0.1;host=evil", b"X-Original-URL: /v1/forget", b"X-Rewrite-URL: /v1/forget",
    b"X-HTTP-Method-Override: DELETE", b"X-Method-Override: DELETE", b"X-Tenant-Id: default",
    b"Tenant: default", b"X-User-Id: admin", b"X-Scope: admin", b"Proxy-Authorization: Bearer x",
    b"X-Api-Key: x",
)  # fmt: skip


def test_t_31_no_header_but_the_key_says_who_asks(house: House, either: Live) -> None:
    memory_id = house.add("asked for by others")
    target = f"/v1/memories/{memory_id}"
    plain = either.ask("GET", target, key=house.other)
    dressed = either.ask("GET", target, *IMPOSTORS, key=house.other)
    assert (plain.status, dressed.status) == (404, 404)
    assert plain.json["detail"] == dressed.json["detail"]
    assert either.ask("GET", target, *IMPOSTORS).status == 401
    assert either.ask("DELETE", target, *IMPOSTORS, key=house.data).status == 403
    assert either.ask("GET", target, *IMPOSTORS, key=house.data).status == 200


def test_t_31_two_keys_are_none(house: House, either: Live) -> None:
    two = [b"Authorization: Bearer " + key.encode() for key in (house.data, house.admin)]
    assert either.ask("GET", "/v1/signer", *two).status == 401
    assert either.ask("GET", "/v1/signer", *reversed(two)).status == 401


def test_t_31_there_is_one_way_in(house: House) -> None:
    assert configuration(house.app, host="127.0.0.1", port=0).http is Connection


def test_t_31_the_parsers_are_ones_without_known_holes() -> None:
    """CVE-2025-43859: h11 before 0.16 took anything for the end of a chunk."""
    locked = (ROOT / "requirements" / "service.txt").read_text()
    version = re.search(r"^h11==(\d+)\.(\d+)", locked, re.MULTILINE)
    assert version is not None
    assert (int(version[1]), int(version[2])) >= (0, 16)
    assert re.search(r"^httptools==(0\.[7-9]|[1-9])", locked, re.MULTILINE)
