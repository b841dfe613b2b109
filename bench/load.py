"""How much the service takes on two cores, everything acknowledged being durable.

    python bench/load.py [adds|postgres|start|kill ...]    writes bench/results/load.json
    status 1: a bar missed, 3: too busy to say

C is one synced SQLite commit of the same run. The control for shared commits is the same service with the
sharing taken out.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench._machine import LEAST_IDLE, commit_ms, described, idle_share
from bench._wire import connected, cpu_ms
from shomei_service.engine.errors import NotFound
from shomei_service.engine.verbs import read
from tests.engine.custody import postgres
from tests.fakes import House, new_home
from tests.service import Service, serving

RESULTS = Path(__file__).parent / "results" / "load.json"
CLIENTS = 32
ADDS_A_CLIENT = 60
ALONE = 100
BATCHES = 6
TEXT = "the quick brown fox jumps over the lazy dog and comes home late, number {} of a long evening"

ADDS_BAR, ADDS_P95_MS, SHARED_RATIO, ALONE_EXTRA_MS = 500.0, 120.0, 3.0, 4.0
BATCH_BAR, POSTGRES_BAR, START_S, HELP_MS = 3000.0, 400.0, 1.5, 250.0

# Every arrival its own transaction: what a service without shared commits does.
UNSHARED = """
from shomei_service.api.routes import OPERATIONS
from shomei_service.engine.turnstile import Turnstile
import threading
for _one in OPERATIONS:
    object.__setattr__(_one, "together", None)
_one = threading.Lock()
def _alone(self, asked, serve):
    with _one:
        [answer] = serve([asked])
    if isinstance(answer, Exception):
        raise answer
    return answer
Turnstile.enter = _alone
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured value and its bar; a bar that does not apply to this machine is None."""

    what: str
    value: float
    bar: float | None
    at_least: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether the value is on the wrong side."""
        return self.bar is not None and (self.value < self.bar if self.at_least else self.value > self.bar)


async def adding(service: Service, token: str, clients: int, each: int) -> tuple[float, list[float]]:
    """Return adds a second and what each took in milliseconds."""
    spent: list[float] = []

    async def one(number: int) -> None:
        async with connected(service, token) as client:
            for turn in range(each):
                began = time.perf_counter()
                status, _ = await client.post(
                    "/v1/memories", {"messages": TEXT.format(number * each + turn), "user_id": f"u{number}"}
                )
                spent.append((time.perf_counter() - began) * 1000)
                if status != 200:
                    raise RuntimeError(f"an add was answered {status}")

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(clients)))
    return clients * each / (time.perf_counter() - began), spent


async def batches(service: Service, token: str) -> float:
    """Return memories a second from one client that adds a thousand at a time."""
    async with connected(service, token) as client:
        began = time.perf_counter()
        for number in range(BATCHES):
            memories = [{"messages": TEXT.format(f"{number}-{at}"), "user_id": "bulk"} for at in range(1000)]
            status, _ = await client.post("/v1/memories/batch", {"memories": memories})
            if status != 200:
                raise RuntimeError(f"a batch was answered {status}")
        return BATCHES * 1000 / (time.perf_counter() - began)


def _p95(spent: Sequence[float]) -> float:
    return statistics.quantiles(spent, n=20)[-1]


def adds(folder: Path) -> list[Row]:
    """SQLite, one process: many clients, the same without sharing, one client, batches."""
    before = commit_ms(folder)
    home = new_home(folder)
    with serving(home, folder) as service:
        asyncio.run(adding(service, home.data_token, 4, 10))
        alone = statistics.median(asyncio.run(adding(service, home.data_token, 1, ALONE))[1])
        rate, spent, cpu = _many(service, home.data_token)
        batch = asyncio.run(batches(service, home.data_token))
    with serving(home, folder, before=UNSHARED) as service:
        asyncio.run(adding(service, home.data_token, 4, 10))
        unshared, _ = asyncio.run(adding(service, home.data_token, CLIENTS, ADDS_A_CLIENT // 3))
    commit = (before + commit_ms(folder)) / 2
    return [
        Row("one synced commit C, ms", commit, None),
        Row("server CPU an add, ms", cpu, None),
        Row(f"adds/s, SQLite, {CLIENTS} clients", rate, ADDS_BAR if commit <= 5 else None, at_least=True),
        Row("p95 of them, ms", _p95(spent), ADDS_P95_MS if commit <= 5 else None),
        Row("times one transaction a request", rate / unshared, SHARED_RATIO if commit >= 3 else None, True),
        Row("one client p50, ms", alone, commit + ALONE_EXTRA_MS),
        Row("batched memories/s", batch, BATCH_BAR, at_least=True),
    ]


def _many(service: Service, token: str) -> tuple[float, list[float], float]:
    """Return what `adding` does for all clients, and the processor time of the service for each add."""
    before = cpu_ms(service)
    rate, spent = asyncio.run(adding(service, token, CLIENTS, ADDS_A_CLIENT))
    return rate, spent, (cpu_ms(service) - before) / len(spent)


def on_postgres(folder: Path) -> list[Row]:
    """PostgreSQL on the disk, two workers."""
    binaries = postgres.programs()
    if binaries is None:
        return []
    with postgres.server(binaries, below=Path(tempfile.gettempdir())) as server:
        databases = {"database_url": server.database("load"), "custody_url": server.database("custody")}
        home = new_home(folder, **databases)
        with serving(home, folder, settings=several_workers(2, databases)) as service:
            asyncio.run(adding(service, home.data_token, 4, 10))
            rate, spent, cpu = _many(service, home.data_token)
    return [
        Row("server CPU an add, PostgreSQL's not counted, ms", cpu, None),
        Row(f"adds/s, PostgreSQL, two workers, {CLIENTS} clients", rate, POSTGRES_BAR, at_least=True),
        Row("p95 of them, ms", _p95(spent), None),
    ]


def several_workers(number: int, databases: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a service of so many processes on these databases."""
    return {"SHOMEI_WORKERS": str(number)} | {
        f"SHOMEI_{name.upper()}": url for name, url in databases.items()
    }


def starts(folder: Path) -> list[Row]:
    """From spawning to healthy, and what asking for help costs."""
    home = new_home(folder, embedder="builtin")
    spent: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        with serving(home, folder):
            spent.append(time.perf_counter() - began)
    helps: list[float] = []
    shomei = Path(sys.executable).with_name("shomei")
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run([shomei, "--help"], check=True, capture_output=True)
        helps.append((time.perf_counter() - began) * 1000)
    return [
        Row("spawn to healthy, s", statistics.median(spent), START_S),
        Row("shomei --help, ms", statistics.median(helps), HELP_MS),
    ]


def killed(folder: Path) -> list[Row]:
    """Kill the service under load, again and again: every acknowledged add must be there afterwards."""
    home = new_home(folder)
    known: list[tuple[str, str]] = []
    for _ in range(5):
        with serving(home, folder) as service:
            known += asyncio.run(_until_killed(service, home.data_token))
    with home.opened() as house:
        lost = sum(not _is_there(house, memory_id, text) for memory_id, text in known)
    return [Row(f"of {len(known)} acknowledged adds lost to five kill -9", lost, 0)]


def _is_there(house: House, memory_id: str, text: str) -> bool:
    try:
        return read.get(house.engine, house.data, memory_id).content.text == text
    except NotFound:
        return False


async def _until_killed(service: Service, token: str) -> list[tuple[str, str]]:
    acknowledged: list[tuple[str, str]] = []

    async def one(number: int) -> None:
        async with connected(service, token) as client:
            for turn in count():
                text = TEXT.format(f"{number}-{turn}")
                try:
                    status, body = await client.post("/v1/memories", {"messages": text})
                except (OSError, EOFError):
                    return
                if status != 200:
                    raise RuntimeError(f"an add was answered {status}")
                acknowledged.append((body["results"][0]["id"], text))

    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(one(number))
        await asyncio.sleep(1.5)
        os.kill(service.process.pid, signal.SIGKILL)
    return acknowledged


PARTS: dict[str, Callable[[Path], list[Row]]] = {
    "adds": adds,
    "postgres": on_postgres,
    "start": starts,
    "kill": killed,
}


def shown(rows: Sequence[Row]) -> None:
    """Print each value beside its bar."""
    for row in rows:
        bar = "no bar here" if row.bar is None else f"bar {row.bar:.2f}"
        print(f"{row.what}: {row.value:.2f}  ({bar}) {'MISSED' if row.is_missed else ''}", flush=True)


def main() -> int:
    """Measure the parts that are named, or all; print each value beside its bar and write the result."""
    parser = argparse.ArgumentParser(description="Load on two cores.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    chosen = parser.parse_args().parts or list(PARTS)
    idle = idle_share()
    rows: list[Row] = []
    for name in chosen:
        with tempfile.TemporaryDirectory() as directory:
            found = PARTS[name](Path(directory))
        rows += found
        shown(found)
    print(f"idle before: {idle:.0%}")
    result = {
        "idle": round(idle, 2),
        "parts": chosen,
        "rows": [{"what": row.what, "value": round(row.value, 2), "bar": row.bar} for row in rows],
        "machine": described(),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    if idle < LEAST_IDLE:
        print("the machine is too busy for a verdict")
        return 3
    return int(any(row.is_missed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
