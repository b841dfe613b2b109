"""What a client may not do to a connection: large heads, endless heads, answers it never reads. T-25."""

import contextlib
import socket
import time
from dataclasses import replace
from typing import Any

import pytest

from shomei_service.api.app import create_app
from shomei_service.api.connection import Connection
from shomei_service.api.exchange import AnyOperation
from shomei_service.api.routes import OPERATIONS
from tests.api.house import PATIENT, House, Live, read_answer, serve
from tests.api.test_leaks import everything_logged

KIB = 1024


def padded(octets: int) -> bytes:
    """A request whose target, header names and values come to this many octets."""
    fixed = len(b"/healthz") + len(b"Hosts") + len(b"X")
    return b"GET /healthz HTTP/1.1\r\nHost: s\r\nX: " + b"y" * (octets - fixed) + b"\r\n\r\n"


@pytest.mark.parametrize(("octets", "status"), [(16 * KIB, 200), (16 * KIB + 1, 431)])
def test_a_head_may_have_16_kib(live: Live, octets: int, status: int) -> None:
    answer = live.raw(padded(octets))
    assert answer.status == status
    if status == 431:
        assert answer.json["code"] == "invalid_request"


@pytest.mark.parametrize(
    ("octets", "status"), [(16 * KIB, 401), (64 * KIB, 401), (64 * KIB + 65, 431), (200 * KIB, 431)]
)
def test_a_key_may_have_64_kib_and_is_then_wrong(live: Live, octets: int, status: int) -> None:
    assert live.ask("GET", "/v1/signer", b"Authorization: " + b"k" * octets).status == status


def test_keys_are_counted_together(live: Live) -> None:
    key = b"Authorization: " + b"k" * (40 * KIB)
    assert live.ask("GET", "/v1/signer", key, key).status == 431


def test_a_large_key_does_not_make_room_for_others(house: House, live: Live) -> None:
    large = b"X: " + b"y" * (17 * KIB)
    assert live.ask("GET", "/v1/signer", large, key=house.data).status == 431


@pytest.mark.parametrize(
    "start",
    [
        b"GET /healthz HTTP/1.1\r\nHost: s\r\nX: ",
        b"GET /healthz HTTP/1.1\r\nHost: s\r\nAuthorization: ",
        b"GET /healthz HTTP/1.1\r\nHost: s\r\nX",
        b"GET /",
        b"POST /v1/search HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
    ids=["value", "key", "name", "target", "trailer"],
)
def test_a_head_without_an_end_is_cut_off(live: Live, start: bytes) -> None:
    sent = 0
    with live.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(start)
        while sent < 64 * KIB * KIB:
            connection.sendall(b"y" * 64 * KIB)
            sent += 64 * KIB
    assert sent < 16 * KIB * KIB  # what sockets hold between the two, and little more


def test_an_endless_head_behind_a_request_in_flight_is_not_collected(house: House) -> None:
    """The first request is answered; what follows it stays outside."""
    sent = 0
    with serve(house, app=create_app(house.engine, [answering(32, wait=1.0)])) as live:
        with live.connect() as connection:
            connection.sendall(asking(house) + b"GET /healthz HTTP/1.1\r\nX: ")
            connection.settimeout(0.5)
            with contextlib.suppress(TimeoutError, ConnectionError):
                while sent < 64 * KIB * KIB:
                    sent += connection.send(b"y" * 64 * KIB)
            connection.settimeout(5)
            assert read_answer(connection).status == 200
        assert sent < 16 * KIB * KIB


def answering(octets: int, wait: float = 0.0) -> AnyOperation:
    """The signer's route, with an answer of this size."""

    def act(_ask: Any) -> dict[str, object]:
        time.sleep(wait)
        return {"text": "x" * octets}

    return replace(next(each for each in OPERATIONS if each.path == "/v1/signer"), act=act)


def asking(house: House) -> bytes:
    key = house.data.encode()
    return b"GET /v1/signer HTTP/1.1\r\nHost: s\r\nAuthorization: Bearer " + key + b"\r\n\r\n"


class Hurried(Connection):
    write_seconds = 0.25


LARGE = 8 * KIB * KIB  # more than the sockets between the two will hold


@pytest.fixture(scope="module")
def large(house: House) -> Any:
    app = create_app(house.engine, [answering(LARGE)], settings=PATIENT)
    with serve(house, http=Hurried, app=app) as live:
        yield live


def narrow(live: Live) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
    connection.settimeout(10)
    connection.connect(("127.0.0.1", live.port))
    return connection


def taken(connection: socket.socket, *, pause: float = 0.0, piece: int = 65536) -> int:
    """Read until the connection ends; return how many octets came."""
    count = 0
    with contextlib.suppress(ConnectionResetError):
        while received := connection.recv(piece):
            count += len(received)
            if pause:
                time.sleep(pause)
    return count


@pytest.mark.parametrize("requests", [1, 3], ids=["one", "pipelined"])
def test_who_stops_reading_is_hung_up_on(house: House, large: Live, requests: int) -> None:
    with narrow(large) as connection:
        connection.sendall(asking(house) * requests)
        time.sleep(1)
        assert taken(connection) < LARGE


def test_also_after_asking_to_close(house: House, large: Live) -> None:
    with narrow(large) as connection:
        connection.sendall(asking(house).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        time.sleep(1)
        assert taken(connection) < LARGE


def test_who_reads_slowly_is_served(house: House, large: Live) -> None:
    began = time.monotonic()
    with narrow(large) as connection:
        request = asking(house).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        connection.sendall(request)
        assert taken(connection, pause=0.02, piece=256 * KIB) > LARGE
    assert time.monotonic() - began > 3 * Hurried.write_seconds


def test_who_reads_answer_after_answer_is_served(house: House, large: Live) -> None:
    with large.connect() as connection:
        for _ in range(3):
            connection.sendall(asking(house))
            assert len(read_answer(connection).body) > LARGE
            time.sleep(0.3)


def test_hanging_up_is_no_fault(house: House) -> None:
    """Not even while the second of three requests is served, and the third is what arrived last."""
    app = create_app(house.engine, [answering(32, wait=0.2)])
    with serve(house, app=app) as live, everything_logged() as log:
        with live.connect() as connection:
            connection.sendall(asking(house) * 3)
            assert read_answer(connection).status == 200
            time.sleep(0.05)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        time.sleep(0.6)
        assert live.ask("GET", "/healthz").status == 200
    assert len({line for line in log.getvalue().splitlines() if "route=/v1/signer" in line}) == 2
    assert "fault=" not in log.getvalue()
