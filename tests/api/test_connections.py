"""What a client may not do to a connection: large heads, endless heads, answers it never reads. T-25."""

import contextlib
import io
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from shomei_service.api.app import create_app
from shomei_service.api.connection import Connection
from shomei_service.api.exchange import AnyOperation
from shomei_service.api.routes import OPERATIONS
from tests.api.house import PATIENCE_S, PATIENT, House, Live, read_answer, serve, until
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
    sent, held = 0, Held()
    with serve(house, app=create_app(house.engine, [answering(32, held)])) as live:
        with live.connect() as connection:
            connection.sendall(asking(house) + b"GET /healthz HTTP/1.1\r\nX: ")
            connection.settimeout(0.5)
            with contextlib.suppress(TimeoutError, ConnectionError):
                while sent < 64 * KIB * KIB:
                    sent += connection.send(b"y" * 64 * KIB)
            connection.settimeout(PATIENCE_S)
            held.go.release()
            assert read_answer(connection).status == 200
        assert sent < 16 * KIB * KIB


class Held:
    """Requests that tell when they have begun and then wait for a word."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self) -> None:
        self.begun.release()
        assert self.go.acquire(timeout=PATIENCE_S)


def answering(octets: int, meanwhile: Callable[[], None] = lambda: None) -> AnyOperation:
    """The signer's route, with an answer of this size."""

    def act(_ask: Any) -> dict[str, object]:
        meanwhile()
        return {"text": "x" * octets}

    return replace(next(each for each in OPERATIONS if each.path == "/v1/signer"), act=act)


def asking(house: House) -> bytes:
    key = house.data.encode()
    return b"GET /v1/signer HTTP/1.1\r\nHost: s\r\nAuthorization: Bearer " + key + b"\r\n\r\n"


class Noticed(Connection):
    """Tells, by their ports, which clients it has lost."""

    lost: ClassVar[set[int]] = set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        assert self.client is not None
        self.lost.add(self.client[1])


class Hurried(Noticed):
    write_seconds = 0.25


class Watched(Connection):
    """Looks whether its client reads only when the test has read something."""

    write_seconds = 0.01
    look, looked = threading.Semaphore(0), threading.Semaphore(0)

    def _look(self, before: int, answers: int) -> None:
        if self.look.acquire(blocking=False):
            super()._look(before, answers)
            self.looked.release()
        else:
            self._watch = self.loop.call_later(self.write_seconds, self._look, before, answers)


def looked_at() -> None:
    Watched.look.release()
    assert Watched.looked.acquire(timeout=PATIENCE_S)


LARGE = 8 * KIB * KIB  # more than the sockets between the two will hold


@pytest.fixture(scope="module")
def large(house: House) -> Any:
    app = create_app(house.engine, [answering(LARGE)], settings=PATIENT)
    with serve(house, http=Hurried, app=app) as live:
        yield live


@pytest.fixture(scope="module")
def watched(house: House) -> Any:
    app = create_app(house.engine, [answering(LARGE)], settings=PATIENT)
    with serve(house, http=Watched, app=app) as live:
        yield live


def narrow(live: Live) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
    connection.settimeout(PATIENCE_S)
    connection.connect(("127.0.0.1", live.port))
    Noticed.lost.discard(connection.getsockname()[1])
    return connection


def hung_up_on(connection: socket.socket) -> bool:
    return connection.getsockname()[1] in Noticed.lost


def taken(connection: socket.socket, most: int = 2 * LARGE) -> int:
    """Read this much, or until the connection ends; return how many octets came."""
    count = 0
    with contextlib.suppress(ConnectionResetError):
        while count < most and (received := connection.recv(65536)):
            count += len(received)
    return count


@pytest.mark.parametrize("requests", [1, 3], ids=["one", "pipelined"])
def test_who_stops_reading_is_hung_up_on(house: House, large: Live, requests: int) -> None:
    with narrow(large) as connection:
        connection.sendall(asking(house) * requests)
        until(lambda: hung_up_on(connection))
        assert taken(connection) < LARGE


def test_also_after_asking_to_close(house: House, large: Live) -> None:
    with narrow(large) as connection:
        connection.sendall(asking(house).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        until(lambda: hung_up_on(connection))
        assert taken(connection) < LARGE


def test_who_reads_slowly_is_served(house: House, watched: Live) -> None:
    with narrow(watched) as connection:
        request = asking(house).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        connection.sendall(request)
        count = 0
        for _ in range(4):
            count += taken(connection, 512 * KIB)
            looked_at()
        assert count + taken(connection) > LARGE


def test_who_reads_answer_after_answer_is_served(house: House, watched: Live) -> None:
    with watched.connect() as connection:
        for _ in range(3):
            connection.sendall(asking(house))
            looked_at()  # perhaps for what the answer before it left
            assert len(read_answer(connection).body) > LARGE


def test_hanging_up_is_no_fault(house: House) -> None:
    """Not even while the second of three requests is served, and the third is what arrived last."""
    held = Held()
    app = create_app(house.engine, [answering(32, held)])
    with serve(house, app=app, http=Noticed) as live, everything_logged() as log:
        with narrow(live) as connection:
            connection.sendall(asking(house) * 3)
            held.go.release()
            assert read_answer(connection).status == 200
            assert held.begun.acquire(timeout=PATIENCE_S)
            assert held.begun.acquire(timeout=PATIENCE_S)
            port = connection.getsockname()[1]
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        until(lambda: port in Noticed.lost)
        held.go.release()
        until(lambda: len(answers(log)) == 2)
        assert live.ask("GET", "/healthz").status == 200
        assert not held.begun.acquire(blocking=False)
    assert len(answers(log)) == 2
    assert "fault=" not in log.getvalue()


def answers(log: io.StringIO) -> set[str]:
    return {line for line in log.getvalue().splitlines() if "route=/v1/signer" in line}
