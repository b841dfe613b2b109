"""Mixed load on PostgreSQL with three workers, of which the eldest lives on and another is killed every 5 s.

    python bench/mixed.py [--seconds 600] [--clients 8] [--rows 500]    writes bench/results/mixed.json
    status 1: a bar missed, 3: too busy to say

Each client adds a memory, searches, reads and erases its oldest, so the number of rows stays what it is.
A call whose connection breaks is made again with its Idempotency-Key, as clients do. At the end everything
that was acknowledged is looked for, and the oracle of the tests goes through all receipts and both stores.
Memory and open files are those of the worker who lives on. RELIABILITY.md T-23.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections import Counter, deque
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench._machine import LEAST_IDLE, described, idle_share
from bench._wire import Client, children, connected, memory_mib
from bench.load import TEXT, Row, several_workers, shown
from tests import oracle
from tests.engine.custody import postgres
from tests.fakes import new_home
from tests.service import Service, serving

RESULTS = Path(__file__).parent / "results" / "mixed.json"
KILL_EVERY_S = 5.0
GROWTH_BAR = 0.10
FILES_BAR = 8  # as many as there are clients; what leaks grows with the thousands of calls
WARM = 0.2  # of the time, before memory is compared: caches and indexes fill first
DRAIN_S = 10.0
ATTEMPTS = 240
PAUSE_S = 0.1
WORKERS = 3  # each but the eldest then lives for ten seconds: what dies sooner is begun again later and later
CALLS_A_CONNECTION = 20  # then a new one, which another worker may take


@dataclass(slots=True)
class Tally:
    """What clients saw, and what has to be true afterwards."""

    ends: float
    statuses: Counter[int] = field(default_factory=Counter[int])
    done: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    broken: int = 0
    kills: int = 0
    live: dict[str, str] = field(default_factory=dict[str, str])
    erased: set[str] = field(default_factory=set[str])
    memory: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    files: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    backlog: list[int] = field(default_factory=list[int])


class Patient:
    """A client that makes a call again when its connection breaks."""

    def __init__(self, service: Service, token: str, tally: Tally) -> None:
        self._service, self._token, self._tally = service, token, tally
        self._open = AsyncExitStack()
        self._client: Client | None = None
        self._calls = 0

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return status and answer; writing calls carry one key however often they are made."""
        retry = "" if method == "GET" else uuid.uuid4().hex
        self._calls += 1
        if self._calls % CALLS_A_CONNECTION == 0:
            await self.close()
        for _ in range(ATTEMPTS):
            try:
                if self._client is None:
                    self._client = await self._open.enter_async_context(connected(self._service, self._token))
                status, answer = await self._client.ask(method, path, body, retry)
            except (OSError, EOFError):
                await self.close()
                self._tally.broken += 1
                await asyncio.sleep(PAUSE_S)
                continue
            told = json.loads(answer)
            if told.get("code") == "idempotency_in_flight":  # who was killed had begun it; somebody ends it
                self._tally.done["asked again"] += 1
                await asyncio.sleep(PAUSE_S)
                continue
            self._tally.statuses[status] += 1
            if status >= 400 and (method, status) != ("GET", 404):
                self._tally.refused[f"{method} {status} {told.get('code')}"] += 1
            return status, told
        raise RuntimeError("the service does not come back")

    async def close(self) -> None:
        """Hang up."""
        self._client = None
        await self._open.aclose()


async def live(patient: Patient, tally: Tally, number: int, rows: int) -> None:
    """Fill up to so many rows, then add, search, read and erase until the time is over."""
    own = deque[str]()
    turn = 0
    while time.monotonic() < tally.ends:
        text = TEXT.format(f"{number}-{turn}")
        status, answer = await patient.ask(
            "POST", "/v1/memories", {"messages": text, "user_id": f"u{number}"}
        )
        if status == 200:
            memory_id = answer["results"][0]["id"]
            tally.done["given twice"] += memory_id in tally.live or memory_id in tally.erased
            own.append(memory_id)
            tally.live[memory_id] = text
            tally.done["added"] += 1
        turn += 1
        if len(own) <= rows:
            continue
        await patient.ask(
            "POST", "/v1/search", {"query": f"evening of the dog {turn}", "user_id": f"u{number}"}
        )
        await patient.ask("GET", f"/v1/memories/{own[-1]}")
        oldest = own.popleft()
        status, _ = await patient.ask("DELETE", f"/v1/memories/{oldest}")
        if status == 200:
            del tally.live[oldest]
            tally.erased.add(oldest)
            tally.done["erased"] += 1
        else:
            own.appendleft(oldest)


async def kill_and_look(service: Service, patient: Patient, tally: Tally) -> None:
    """Kill one of the younger workers every five seconds; take down the backlog and what the eldest uses."""
    while time.monotonic() < tally.ends:
        await asyncio.sleep(min(KILL_EVERY_S, max(0.0, tally.ends - time.monotonic())))
        eldest, *_ = children(service.process.pid)
        tally.memory.append((time.monotonic(), memory_mib(eldest)))
        tally.files.append((time.monotonic(), len(list(Path(f"/proc/{eldest}/fd").iterdir()))))
        _, ready = await patient.ask("GET", "/readyz")
        tally.backlog.append(ready.get("embedding_backlog", -1))
        workers = children(service.process.pid)
        if len(workers) == WORKERS and time.monotonic() < tally.ends:
            with suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(workers[1], signal.SIGKILL)
                tally.kills += 1


async def drained(patient: Patient) -> float:
    """Return how many memories a second get their vectors once nobody asks for anything else."""
    began = time.monotonic()
    _, before = await patient.ask("GET", "/readyz")
    while time.monotonic() < began + DRAIN_S:
        await asyncio.sleep(0.5)
        _, after = await patient.ask("GET", "/readyz")
        if not after["embedding_backlog"]:
            break
    return (before["embedding_backlog"] - after["embedding_backlog"]) / (time.monotonic() - began)


async def lost(patient: Patient, tally: Tally) -> tuple[int, int]:
    """Return how many acknowledged adds are not there, and how many acknowledged erasures are not done."""
    gone = 0
    for memory_id, text in tally.live.items():
        status, answer = await patient.ask("GET", f"/v1/memories/{memory_id}")
        gone += status != 200 or answer["memory"] != text
    back = 0
    for memory_id in tally.erased:
        status, _ = await patient.ask("GET", f"/v1/memories/{memory_id}")
        back += status != 404
    return gone, back


async def run(service: Service, token: str, arguments: argparse.Namespace) -> list[Row]:
    """Load the service and say what came of it."""
    tally = Tally(time.monotonic() + arguments.seconds)
    patients = [Patient(service, token, tally) for _ in range(arguments.clients + 1)]
    watch = patients.pop()
    began = time.monotonic()
    try:
        async with asyncio.TaskGroup() as group:
            for number, patient in enumerate(patients):
                group.create_task(live(patient, tally, number, arguments.rows // arguments.clients))
            group.create_task(kill_and_look(service, watch, tally))
        failures = sum(times for status, times in tally.statuses.items() if status >= 500)
        others = sum(times for status, times in tally.statuses.items() if 400 <= status < 500)
        print("refused:", dict(tally.refused))
        rate = await drained(watch)
        gone, back = await lost(watch, tally)
    finally:
        for patient in (*patients, watch):
            await patient.close()
    seconds = arguments.seconds
    warm, files = (
        [used for at, used in noted if at >= began + WARM * seconds] for noted in (tally.memory, tally.files)
    )
    part = max(1, len(files) // 4)
    return [
        Row(f"of {tally.done['added']} acknowledged adds lost to {tally.kills} kill -9", gone, 0),
        Row(f"of {tally.done['erased']} acknowledged erasures undone", back, 0),
        Row("ids given twice", tally.done["given twice"], 0),
        Row("answers of 5xx", failures, 0),
        Row("answers of 4xx", others, 0),
        Row("broken connections", tally.broken, None),
        Row("calls made again because they were still being carried out", tally.done["asked again"], None),
        Row("times a worker was killed", tally.kills, None),
        Row("rounds a second (add, search, read, erase)", tally.done["erased"] / seconds, None),
        Row("rows at the end", len(tally.live), None),
        Row("the eldest worker's memory once warm, MiB", warm[0] if warm else 0.0, None),
        Row("its growth until the end, share", warm[-1] / warm[0] - 1 if warm else 0.0, GROWTH_BAR),
        Row(
            "files open in it at the end, more than once warm",
            statistics.median(files[-part:]) - statistics.median(files[:part]) if files else 0.0,
            FILES_BAR,
        ),
        Row("longest embedding backlog, memories", max(tally.backlog, default=0), None),
        Row("embedding backlog at the end, memories", tally.backlog[-1] if tally.backlog else 0, None),
        Row("memories embedded a second when nothing else is asked", rate, None),
    ]


def main() -> int:
    """Run the load and write what came of it."""
    parser = argparse.ArgumentParser(description="Mixed load while workers are killed.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rows", type=int, default=500)
    arguments = parser.parse_args()
    binaries = postgres.programs()
    if binaries is None:
        print("there is no PostgreSQL on this machine")
        return 3
    idle = idle_share()
    below = Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as directory, postgres.server(binaries, below=below) as server:
        databases = {"database_url": server.database("load"), "custody_url": server.database("custody")}
        home = new_home(Path(directory), embedder="builtin", **databases)
        with serving(home, Path(directory), settings=several_workers(WORKERS, databases)) as service:
            rows = asyncio.run(run(service, home.admin_token, arguments))
        with home.opened() as house:
            left = oracle.settled(house, home.settings)
        print(f"the oracle finds nothing wrong; {len(left)} memories are left")
    shown(rows)
    result = {
        "idle": round(idle, 2),
        "seconds": arguments.seconds,
        "clients": arguments.clients,
        "rows": [{"what": row.what, "value": round(row.value, 3), "bar": row.bar} for row in rows],
        "machine": described(),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    # What is lost is lost on a busy machine too.
    if any(row.is_missed for row in rows):
        return 1
    return 3 if idle < LEAST_IDLE else 0


if __name__ == "__main__":
    sys.exit(main())
