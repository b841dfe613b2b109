"""The server around the application: heads, limits, hang-ups, background work, public doors. T-25."""

import contextlib
import json
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from shomei_service.api.app import create_app
from shomei_service.api.bodies import SINGLE
from shomei_service.api.connection import Connection
from shomei_service.api.errors import Busy
from shomei_service.api.exchange import AnyOperation, Ask
from shomei_service.api.lanes import THREADS, Lane, Lanes
from shomei_service.api.public import Readiness
from shomei_service.api.routes import OPERATIONS
from shomei_service.api.schemas import DeleteQuery
from shomei_service.api.server import configuration
from shomei_service.api.upkeep import Upkeep
from shomei_service.engine.errors import SigningFault, StorageUnavailable
from shomei_service.engine.shared_embedder import Waiting
from tests.api.house import PATIENCE_S, House, Live, read_answer, serve, until


def test_health_and_readiness_need_no_key_and_tell_nothing(house: House, live: Live) -> None:
    for path, told in (
        ("/healthz", {"status": "ok"}),
        ("/readyz", {"status": "ok", "embedding_backlog": 0}),
    ):
        answer = live.ask("GET", path)
        assert (answer.status, answer.json) == (200, told)
    # In process nobody runs the lifespan, so no background work is going on.
    waiting = house.call("GET", "/readyz")
    assert (waiting.status_code, waiting.json()["code"]) == (503, "storage_unavailable")
    assert waiting.headers["retry-after"].isdigit()
    assert house.call("GET", "/healthz").status_code == 200


class Lagging:
    """As much of an engine as readiness asks: the rows of the house, and an embedder that saw none."""

    def __init__(self, house: House) -> None:
        self.store = house.engine.store
        self.embedder = SimpleNamespace(waiting=Waiting())
        self.probed = 0

    def probe_signer(self) -> None:
        """Count who asks the signer."""
        self.probed += 1


class Well:
    is_well = True


def test_readiness_tells_how_many_memories_wait_for_vectors(house: House) -> None:
    engine: Any = Lagging(house)
    well: Any = Well()

    async def told() -> int:
        answer = await Readiness(engine, Lanes(), well)()
        return json.loads(answer.body)["embedding_backlog"]

    before = anyio.run(told)
    house.add("without a vector")
    assert anyio.run(told) == before + 1


def test_readiness_fails_when_storage_does_and_waits_in_a_lane_of_its_own(house: House) -> None:
    class Broken(Lagging):
        def __init__(self) -> None:
            super().__init__(house)
            self.store: Any = self

        def snapshot(self) -> None:
            raise StorageUnavailable("the database does not answer")

    engine: Any = Broken()
    well: Any = Well()

    async def asked(lanes: Lanes) -> None:
        await Readiness(engine, lanes, well)()

    with pytest.raises(StorageUnavailable):
        anyio.run(asked, Lanes())
    with pytest.raises(Busy):
        anyio.run(asked, Lanes({Lane.PROBE: 0}, queue=0))


def test_readiness_fails_when_receipts_cannot_be_signed(house: House) -> None:
    class Unsigned(Lagging):
        def probe_signer(self) -> None:
            raise SigningFault("the signer could not sign")

    engine: Any = Unsigned(house)
    well: Any = Well()

    async def asked() -> None:
        await Readiness(engine, Lanes(), well)()

    with pytest.raises(StorageUnavailable):
        anyio.run(asked)


def test_who_knocks_often_does_not_make_the_signer_work(house: House) -> None:
    engine: Any = Lagging(house)
    well: Any = Well()

    async def asked() -> None:
        ready = Readiness(engine, Lanes(), well)
        for _ in range(20):
            await ready()

    anyio.run(asked)
    assert engine.probed == 1


def test_head_requests_get_the_head_only(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200")
    assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: s\r\nX: a\r\n b\r\n\r\n", 400),
        (b"POST /v1/search HTTP/1.1\r\nHost: s\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (
            b"POST /v1/search HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            400,
        ),
        (b"POST /v1/search HTTP/1.1\r\nHost: s\r\nContent-Length: -1\r\n\r\n{}", 400),
        (b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(100)) + b"\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n", 431),
    ],
    ids=range(8),
)
def test_what_is_no_request_gets_our_error_and_the_door(
    live: Live, request_bytes: bytes, status: int
) -> None:
    with live.connect() as connection:
        connection.sendall(request_bytes)
        answer = read_answer(connection)
        assert answer.status == status
        assert answer.json.keys() == {"code", "detail", "request_id"}
        assert answer.headers["connection"] == "close"
        assert has_ended(connection)


def has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:  # what was sent in vain is still in its buffer
        return True


def test_garbage_after_an_answer_is_not_mixed_into_it(house: House, live: Live) -> None:
    with live.connect() as connection:
        key = house.data.encode()
        connection.sendall(
            b"GET /v1/signer HTTP/1.1\r\nHost: s\r\nAuthorization: Bearer " + key + b"\r\n\r\n"
            b"\x00garbage\r\n\r\n"
        )
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 OK")
    assert received.count(b"HTTP/1.1 ") == 1


class Hasty(Connection):
    head_seconds = 1.0


def test_a_head_that_does_not_come_is_not_waited_for(house: House) -> None:
    with serve(house, http=Hasty) as live, live.connect() as kept:
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: s\r\n\r\n")
        assert read_answer(kept).status == 200
        kept.sendall(b"\r\n")
        with live.connect() as silent, live.connect() as slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost")
            for connection in (slow, silent, kept):
                assert read_answer(connection).status == 408
                assert has_ended(connection)


def test_a_body_that_does_not_come_is_not_waited_for(house: House) -> None:
    hasty = replace(OPERATIONS[0], allowance=replace(SINGLE, seconds=0.3))
    with serve(house, app=create_app(house.engine, [hasty])) as live, live.connect() as connection:
        key = house.data.encode()
        connection.sendall(
            b"POST /v1/memories HTTP/1.1\r\nHost: s\r\nContent-Length: 9\r\nAuthorization: Bearer "
            + key
            + b"\r\n\r\n{"
        )
        answer = read_answer(connection)
        assert (answer.status, answer.json["code"]) == (408, "invalid_request")
        assert has_ended(connection)


class Small(Connection):
    most = 3


def test_connections_are_counted(house: House) -> None:
    with serve(house, http=Small) as live:
        held = [live.connect() for _ in range(3)]
        for connection in held:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: s\r\n\r\n")
            assert read_answer(connection).status == 200
        with live.connect() as refused:
            answer = read_answer(refused)
            assert (answer.status, answer.json["code"]) == (503, "rate_limited")
            assert answer.headers["retry-after"].isdigit()
        for connection in held:
            connection.close()
        until(lambda: live.raw(b"GET /healthz HTTP/1.1\r\nHost: s\r\n\r\n").status == 200)


class Slow:
    """Wraps a verb so that a test knows when it began, holds it, and sees that it ended."""

    def __init__(self, operation: AnyOperation) -> None:
        self.began, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self._act: Any = operation.act
        self.operation = replace(operation, act=self._slow)

    def _slow(self, ask: Ask[Any, Any]) -> Any:
        self.began.set()
        assert self.go.wait(PATIENCE_S)
        try:
            return self._act(ask)
        finally:
            self.ended.set()


def erase_operation() -> AnyOperation:
    return next(each for each in OPERATIONS if each.query is DeleteQuery)


def test_an_erase_that_has_begun_completes_without_its_client(house: House) -> None:
    slow = Slow(erase_operation())
    memory_id = house.add("erased although nobody waits")
    with serve(house, app=create_app(house.engine, [slow.operation])) as live:
        with live.connect() as connection:
            key = house.admin.encode()
            connection.sendall(
                b"DELETE /v1/memories/" + memory_id.encode() + b" HTTP/1.1\r\nHost: s\r\n"
                b"Authorization: Bearer " + key + b"\r\n\r\n"
            )
            assert slow.began.wait(PATIENCE_S)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        slow.go.set()
        assert slow.ended.wait(PATIENCE_S)
        assert live.ask("GET", "/healthz").status == 200
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 404


def test_an_erase_that_has_begun_completes_when_its_task_is_cancelled(house: House) -> None:
    slow = Slow(erase_operation())
    memory_id = house.add("erased although cancelled")
    app = create_app(house.engine, [slow.operation])
    scope = {
        "type": "http", "method": "DELETE", "query_string": b"", "root_path": "", "path": "-",
        "raw_path": f"/v1/memories/{memory_id}".encode(),
        "headers": [(b"authorization", b"Bearer " + house.admin.encode())],
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(_message: object) -> None:
        pass

    async def cancelled() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app, scope, receive, send)
            while not slow.began.is_set():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
            slow.go.set()

    house.portal.call(cancelled)
    assert slow.ended.is_set()
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 404


def test_a_server_told_to_stop_lets_an_erase_finish_first(house: House) -> None:
    slow = Slow(erase_operation())
    memory_id = house.add("erased while stopping")
    with serve(house, app=create_app(house.engine, [slow.operation]), grace=0.1) as live:
        request = threading.Thread(target=attempt, args=(live, memory_id, house.admin))
        request.start()
        assert slow.began.wait(PATIENCE_S)
        threading.Timer(1.0, slow.go.set).start()
    assert slow.ended.is_set()
    request.join(PATIENCE_S)
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 404


def attempt(live: Live, memory_id: str, key: str) -> None:
    with contextlib.suppress(AssertionError, ConnectionError):  # the server may hang up before it answers
        live.ask("DELETE", f"/v1/memories/{memory_id}", key=key)


def test_a_client_that_leaves_before_its_body_changes_nothing(house: House, live: Live) -> None:
    with live.connect() as connection:
        key = house.data.encode()
        connection.sendall(
            b"POST /v1/memories HTTP/1.1\r\nHost: s\r\nContent-Type: application/json\r\n"
            b"Content-Length: 90\r\nAuthorization: Bearer "
            + key
            + b'\r\n\r\n{"messages":"half a body","user_id":"left early"'
        )
        time.sleep(0.1)
    assert live.ask("GET", "/healthz").status == 200
    page = house.call("GET", "/v1/memories?user_id=left%20early", key=house.data)
    assert page.json()["results"] == []


def test_erasing_never_queues_behind_recall(house: House) -> None:
    slow = Slow(next(each for each in OPERATIONS if each.path == "/v1/signer"))
    memory_id = house.add("erased while recall is busy")
    with serve(house, app=create_app(house.engine, [slow.operation, erase_operation()])) as live:
        recalls = [
            threading.Thread(target=live.ask, args=("GET", "/v1/signer"), kwargs={"key": house.data})
            for _ in range(THREADS[Lane.RECALL] + 2)
        ]
        for recall in recalls:
            recall.start()
        assert slow.began.wait(PATIENCE_S)
        erased = live.ask("DELETE", f"/v1/memories/{memory_id}", key=house.admin).status
        slow.go.set()
        for recall in recalls:
            recall.join(PATIENCE_S)
        assert erased == 200


def test_a_full_lane_says_busy() -> None:
    go = threading.Event()

    async def three() -> int:
        filled, refused = Lanes({Lane.RECALL: 1, Lane.GOVERN: 1}, queue=1), 0
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(filled.run, Lane.RECALL, go.wait, PATIENCE_S)
            await anyio.sleep(0.05)
            try:
                await filled.run(Lane.RECALL, go.is_set)
            except Busy:
                refused += 1
            assert await filled.run(Lane.GOVERN, go.is_set) is False
            go.set()
        assert await filled.run(Lane.RECALL, go.is_set) is True
        return refused

    assert anyio.run(three) == 1


def test_who_has_waited_long_is_told_so_and_who_waits_shortly_is_served() -> None:
    """DEV-36: work that is stuck keeps nobody waiting behind it; nothing is done for whoever was refused."""
    go, done = threading.Event(), list[str]()

    async def stuck() -> None:
        lanes = Lanes({Lane.RECALL: 1}, patience_s=0.05)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lanes.run, Lane.RECALL, go.wait, PATIENCE_S)
            await anyio.sleep(0.02)
            with pytest.raises(Busy):
                await lanes.run(Lane.RECALL, done.append, "refused")
            lanes.patience_s = PATIENCE_S
            tasks.start_soon(lanes.run, Lane.RECALL, done.append, "served")
            await anyio.sleep(0.02)
            go.set()
        await lanes.run(Lane.RECALL, done.append, "after")
        assert lanes.load()[Lane.RECALL] == 0

    anyio.run(stuck)
    assert done == ["served", "after"]


class Tended:
    """An engine for the upkeep thread alone: counts its rounds, and fails while told to."""

    is_broken = False  # for good: what a failed sync leaves

    def __init__(self) -> None:
        self.wake = threading.Event()
        self.rounds = 0
        self.broken = False
        self.more = 0

    def tend(self, _engine: object) -> bool:
        self.rounds += 1
        if self.broken:
            raise OSError("no such disk")
        self.more -= 1
        return self.more > 0


def test_upkeep_runs_at_start_when_woken_and_while_there_is_more() -> None:
    engine: Any = Tended()
    tended = Upkeep(engine, engine.tend, every=30)
    assert not tended.is_well
    tended.start()
    until(lambda: engine.rounds == 1)
    engine.more = 20
    engine.wake.set()
    until(lambda: engine.rounds >= 21)
    assert tended.is_well
    tended.stop()
    assert not tended.is_well


def test_upkeep_survives_a_broken_disk_without_spinning() -> None:
    engine: Any = Tended()
    engine.broken = True
    every, began = 0.2, time.monotonic()
    tended = Upkeep(engine, engine.tend, every=every)
    tended.start()
    until(lambda: engine.rounds == 1)
    for _ in range(20):
        engine.wake.set()
        time.sleep(0.005)
    rounds = engine.rounds
    assert rounds <= 2 + (time.monotonic() - began) / every
    assert not tended.is_well
    engine.broken = False
    until(lambda: tended.is_well)
    tended.stop()


def test_the_application_tends_the_engine_while_it_serves(house: House) -> None:
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "shomei-upkeep"]

    before = set(threads())
    with serve(house) as live:
        ours = set(threads()) - before
        assert len(ours) == 2  # one tends, one makes vectors
        assert all(thread.daemon for thread in ours)
        assert live.ask("GET", "/readyz").status == 200
    assert not any(thread.is_alive() for thread in ours)


def test_the_server_configuration_logs_no_paths(house: House) -> None:
    config = configuration(house.app, host="127.0.0.1", port=0)
    assert not config.access_log
    assert config.ws == "none"
