"""Many clients at once, and what they saw: with workers that die, a database that dies, and neither.

RELIABILITY T-10, T-18, T-20; DEV-34, DEV-35, DEV-36.
"""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests import oracle
from tests.crash.deep import is_deep, keep
from tests.crash.places import quick_folder
from tests.engine.custody.postgres import Server, running
from tests.fakes import Home, new_home
from tests.laws.clients import AtWork
from tests.laws.workers import (
    children,
    holds_what_was_told,
    is_ready,
    kill,
    on_server,
    quiet,
    wait_until,
    working,
)
from tests.service import Service

LONG_OUTAGE_S, DEATHS, MANY = 60.0, 30, 500  # as DEV-36 and DEV-35 want them
ERASURES = 2_000  # as T-18 wants them
FILES = {"shomei.db", "shomei.db-wal", "shomei.db-shm", "reserve", "serve.lock"}  # all that a server has


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server that may be killed."""
    with running() as server:
        yield server


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """How long clients are at work."""
    return 60.0 if is_deep(request) else 4.0


def admin(service: Service, home: Home, path: str, body: object) -> httpx.Response:
    """Post as an admin, and have it done."""
    headers = {"authorization": f"Bearer {home.admin_token}"}
    answer = httpx.post(service.url + path, json=body, headers=headers, trust_env=False, timeout=60)
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer


def test_one_server_on_sqlite(folder: Path, seconds: float, request: pytest.FixtureRequest) -> None:
    """DEV-34: ordinary concurrency is no error, and no log grows without end."""
    home = new_home(folder)
    with working(home, folder, 1) as service:
        clients = 32 if is_deep(request) else 16
        with AtWork(service.url, home.admin_token, clients=clients, seed=1) as told:
            ending = time.monotonic() + seconds
            while time.monotonic() < ending:
                admin(service, home, "/v1/export", {"user_id": "person 0"})
        assert {status for _, status in told.statuses} == {200}
        files = {path.name: path.stat().st_size for path in home.settings.data.iterdir()}
        assert files["shomei.db-wal"] < 64 << 20
        assert files.keys() <= FILES
    holds_what_was_told(home, told)
    keep(request, request.node.name, told.figures())


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_on_postgres(
    postgres: Server, folder: Path, seconds: float, request: pytest.FixtureRequest, workers: int
) -> None:
    """T-18: nothing is found in a search that was asked after its end was told, whichever worker is asked."""
    home, erasures = on_server(folder, postgres, f"quietly_{workers}"), ERASURES * is_deep(request)
    with working(home, folder, workers) as service:
        with AtWork(service.url, home.admin_token, clients=8, seed=2) as told:
            ending = time.monotonic() + seconds
            while time.monotonic() < ending or len(told.proofs) < erasures:
                time.sleep(0.5)
        assert {status for _, status in told.statuses} == {200}
        quiet(home)
    holds_what_was_told(home, told)
    keep(request, request.node.name, told.figures())


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_that_die(
    postgres: Server, folder: Path, seconds: float, request: pytest.FixtureRequest, workers: int
) -> None:
    """T-20: one worker after the other is killed; the others go on, and take over what it had begun."""
    home, chance = on_server(folder, postgres, f"dying_{workers}"), random.Random(3)
    with working(home, folder, workers) as service:
        with AtWork(service.url, home.admin_token, clients=8, seed=3) as told:
            ending = time.monotonic() + 1.5 * seconds
            while time.monotonic() < ending:
                time.sleep(chance.uniform(1, 3))
                alive = children(service)
                if len(alive) == workers:
                    kill(chance.choice(alive))
        assert {status for _, status in told.statuses} <= {0, 200, 409, 503}
        quiet(home)
    holds_what_was_told(home, told)
    keep(request, request.node.name, told.figures())


def test_two_services_that_die_in_turn(
    postgres: Server, folder: Path, seconds: float, request: pytest.FixtureRequest
) -> None:
    """T-20, DEV-36: two on one database, each killed under load and started again while the other goes on."""
    home, chance = on_server(folder, postgres, "in_turn"), random.Random(6)
    with ExitStack() as running:
        services = [running.enter_context(working(home, folder, 1)) for _ in range(2)]
        urls = [service.url for service in services]
        with AtWork(urls, home.admin_token, clients=8, seed=6) as told:
            ending = time.monotonic() + seconds
            while time.monotonic() < ending:
                time.sleep(chance.uniform(0.3, 1))
                gone = services.pop(0)
                kill(gone.process.pid)
                gone.process.wait()
                port = int(gone.url.rpartition(":")[2])
                services.append(running.enter_context(working(home, folder, 1, port=port)))
            told.end()
        assert {status for _, status in told.statuses} <= {0, 200, 409, 503}
        quiet(home)
    holds_what_was_told(home, told)
    keep(request, request.node.name, told.figures())


def test_a_database_that_dies(
    postgres: Server, folder: Path, seconds: float, request: pytest.FixtureRequest
) -> None:
    """T-10, DEV-36: an outage is a refusal that says when to come back; nothing told is lost."""
    home, outages = on_server(folder, postgres, "outage"), [LONG_OUTAGE_S] * is_deep(request)
    with working(home, folder, 2, SHOMEI_DATABASE_POOL="5") as service:
        with AtWork(service.url, home.admin_token, clients=8, seed=4) as told:
            ending = time.monotonic() + 2 * seconds
            while time.monotonic() < ending:
                time.sleep(2)
                postgres.crash()
                wait_until(lambda: not is_ready(service))
                time.sleep(outages.pop() if outages else 0)
                postgres.start()
                wait_until(lambda: is_ready(service))
        assert {status for _, status in told.statuses} <= {0, 200, 409, 503}
        assert told.slowest_refusal_s < 10
        quiet(home)
    holds_what_was_told(home, told)
    keep(request, request.node.name, told.figures())


def test_a_service_that_dies(folder: Path, seconds: float, request: pytest.FixtureRequest) -> None:
    """DEV-35: killed under load and started again it needs no help, and nothing is by halves."""
    home, chance = new_home(folder), random.Random(5)
    with working(home, folder, 1) as service:
        port = int(service.url.rpartition(":")[2])
    with AtWork(f"http://127.0.0.1:{port}", home.admin_token, clients=8, seed=5) as told:
        for _ in range(DEATHS if is_deep(request) else 3):
            with working(home, folder, 1, port=port) as service:
                time.sleep(chance.uniform(0.5, 2.5))
                kill(service.process.pid)
                service.process.wait()
        with working(home, folder, 1, port=port):
            told.end()
    assert {status for _, status in told.statuses} <= {0, 200, 409, 503}
    holds_what_was_told(home, told)
    keep(request, request.node.name, told.figures())


def test_a_forget_of_many_that_dies(folder: Path, request: pytest.FixtureRequest) -> None:
    """DEV-35: asked again it finishes; the receipts cover every row, and no closure comes before them."""
    home, chance = new_home(folder), random.Random(7)
    with working(home, folder, 1) as service:
        port = int(service.url.rpartition(":")[2])
    cut_short = 0
    for number in range(DEATHS if is_deep(request) else 2):
        person = f"person {number}"
        with working(home, folder, 1, port=port) as service, ThreadPoolExecutor(1) as asking:
            many = {"memories": [{"messages": f"kettle {n}", "user_id": person} for n in range(MANY)]}
            added = {one["id"] for one in admin(service, home, "/v1/memories/batch", many).json()["results"]}
            asked = asking.submit(admin, service, home, "/v1/forget", {"user_id": person})
            time.sleep(chance.uniform(0, 0.3))
            kill(service.process.pid)
            service.process.wait()
            cut_short += isinstance(asked.exception(), httpx.TransportError)
        with working(home, folder, 1, port=port) as service:
            again = admin(service, home, "/v1/forget", {"user_id": person}).json()
        log = [one["statement"] for one in oracle.read(home.settings).receipts]
        erased = [one["memory_id"] for one in log if one["schema"] == "shomei.vector_delete.v1"]
        assert len(erased) == len(set(erased))
        assert added <= set(erased)
        assert len(again["erased_ids"]) + again["already_erased_count"] == MANY
        with home.opened() as house:  # each closure counts what was erased by then, as the oracle sees to
            assert oracle.settled(house, home.settings) == {}
    assert cut_short
    keep(request, request.node.name, {"deaths": cut_short})
