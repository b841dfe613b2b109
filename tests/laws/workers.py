"""A service of several workers on PostgreSQL, and what must hold when all is quiet again."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from shomei_memory_verify import verify_signed_receipt
from tests import oracle
from tests.engine.custody.postgres import Server
from tests.fakes import Home, new_home
from tests.laws.clients import Told
from tests.laws.histories import anomalies
from tests.service import Service, serving


def on_server(folder: Path, server: Server, name: str) -> Home:
    """Make an installation whose database and custody store are on a PostgreSQL server."""
    urls = {"database_url": server.database(name), "custody_url": server.database(f"{name}_custody")}
    return new_home(folder, **urls)


@contextmanager
def working(
    home: Home, folder: Path, workers: int, *, port: int | None = None, **settings: str
) -> Iterator[Service]:
    """Run the service with so many workers until the block ends."""
    own = {"SHOMEI_DATABASE_URL": home.settings.database_url, "SHOMEI_CUSTODY_URL": home.settings.custody_url}
    chosen = {name: value for name, value in own.items() if value is not None}
    if home.settings.database_url is not None:
        chosen["SHOMEI_WORKERS"] = str(workers)
    with serving(home, folder, settings={**chosen, **settings}, port=port) as service:
        wait_until(lambda: len(children(service)) >= workers or workers == 1)
        yield service


def children(service: Service) -> list[int]:
    """Return the process ids of the workers."""
    listed = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text()
    # One that has just ended may be listed as 0, and a signal to 0 goes to everybody here.
    return [pid for pid in map(int, listed.split()) if pid > 1]


def kill(pid: int) -> None:
    """Kill a process, unless it is gone."""
    assert pid > 1
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for something to be so; fail if it is not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to be so in time"
        time.sleep(0.05)


def is_ready(service: Service) -> bool:
    """Say whether the service says it is ready."""
    try:
        return httpx.get(service.url + "/readyz", trust_env=False, timeout=5).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def quiet(home: Home) -> None:
    """Wait until nothing is under way, which nobody has to ask for. I-2, RELIABILITY T-20."""
    wait_until(lambda: not oracle.read(home.settings).intents)


def holds_what_was_told(home: Home, told: Told) -> None:
    """Open what is left: every proof is genuine, nothing acknowledged is undone, nothing is lost."""
    assert anomalies(told.history.events) == []
    for memory_id, proofs in told.proofs.items():
        assert len({proof["receipt_hash"] for proof in proofs}) == 1, "one receipt for each erasure"
        for proof in proofs:
            assert verify_signed_receipt(proof, expected_public_key_hex=home.pin).authenticated
            assert memory_id in {proof["body"].get("memory_id"), proof["body"].get("previous_id")}
    with home.opened() as house:
        texts = oracle.settled(house, home.settings)
    assert texts.keys() == {one for ids in told.living.values() for one in ids}
