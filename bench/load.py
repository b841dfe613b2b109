"""How much the service takes on two cores, everything acknowledged being durable.

    python bench/load.py [adds|postgres|start|kill ...]    writes bench/results/load.json
    status 1: a bar missed, 3: too busy to say

Clients are raw sockets of this process, so that little of the machine goes to asking. C is one synced SQLite
commit of the same run. The control for shared commits is the same service with the sharing taken out.
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
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench._machine import LEAST_IDLE, commit_ms, described, idle_share
from tests.engine.custody import postgres
from tests.fakes import Home, new_home
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
from shomei_service.engine.turnstile import Turnstile
import threading
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


class Client:
    """One kept connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader, self._writer, self._token = reader, writer, token

    async def post(self, path: str, body: object) -> tuple[int, bytes]:
        """Send one request and return status and body."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.lower().startswith(b"content-length:"))
        return int(lines[0].split()[1]), await self._reader.readexactly(length)


@asynccontextmanager
async def connected(service: Service, token: str) -> AsyncGenerator[Client, None]:
    """Yield a client."""
    port = int(service.url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        yield Client(reader, writer, token)
    finally:
        writer.close()


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
        rate, spent = asyncio.run(adding(service, home.data_token, CLIENTS, ADDS_A_CLIENT))
        cpu = _cpu_ms(service) / (ALONE + 40 + CLIENTS * ADDS_A_CLIENT)
        batch = asyncio.run(batches(service, home.data_token))
    with serving(home, folder, before=UNSHARED) as service:
        asyncio.run(adding(service, home.data_token, 4, 10))
        unshared, _ = asyncio.run(adding(service, home.data_token, CLIENTS, ADDS_A_CLIENT // 3))
    commit = (before + commit_ms(folder)) / 2
    return [
        Row(f"one synced commit C, ms (server CPU an add {cpu:.2f} ms)", commit, None),
        Row(f"adds/s, SQLite, {CLIENTS} clients", rate, ADDS_BAR if commit <= 5 else None, at_least=True),
        Row("p95 of them, ms", _p95(spent), ADDS_P95_MS if commit <= 5 else None),
        Row("times one transaction a request", rate / unshared, SHARED_RATIO if commit >= 3 else None, True),
        Row("one client p50, ms", alone, commit + ALONE_EXTRA_MS),
        Row("batched memories/s", batch, BATCH_BAR, at_least=True),
    ]


def on_postgres(folder: Path) -> list[Row]:
    """PostgreSQL, two workers."""
    binaries = postgres.programs()
    if binaries is None:
        return []
    with postgres.server(binaries) as server:
        home = new_home(
            folder,
            database_url=server.database("shomei_load"),
            custody_database=server.database("shomei_load_custody"),
        )
        with serving(home, folder, settings={"SHOMEI_WORKERS": "2"} | _urls(home)) as service:
            asyncio.run(adding(service, home.data_token, 4, 10))
            rate, spent = asyncio.run(adding(service, home.data_token, CLIENTS, ADDS_A_CLIENT))
    return [
        Row(f"adds/s, PostgreSQL, two workers, {CLIENTS} clients", rate, POSTGRES_BAR, at_least=True),
        Row("p95 of them, ms", _p95(spent), None),
    ]


def _urls(home: Home) -> dict[str, str]:
    settings = home.settings
    return {
        "SHOMEI_DATABASE_URL": str(settings.database_url),
        "SHOMEI_CUSTODY_DATABASE": str(settings.custody_database),
    }


def starts(folder: Path) -> list[Row]:
    """From spawning to healthy, and what asking for help costs."""
    home = new_home(folder)
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
    known: list[str] = []
    for _ in range(5):
        with serving(home, folder) as service:
            known += asyncio.run(_until_killed(service, home.data_token))
    with home.opened() as house:
        stored = house.engine.store.snapshot()
        with stored as connection:
            present = {row[0] for row in connection.exec_driver_sql("SELECT memory_id FROM memories")}
    lost = sum(memory_id not in present for memory_id in known)
    return [Row(f"of {len(known)} acknowledged adds lost to five kill -9", lost, 0)]


async def _until_killed(service: Service, token: str) -> list[str]:
    acknowledged: list[str] = []

    async def one(number: int) -> None:
        async with connected(service, token) as client:
            while True:
                try:
                    status, body = await client.post("/v1/memories", {"messages": f"{number}"})
                except (OSError, asyncio.IncompleteReadError):
                    return
                if status == 200:
                    acknowledged.append(json.loads(body)["results"][0]["id"])

    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(one(number))
        await asyncio.sleep(1.5)
        os.kill(service.process.pid, signal.SIGKILL)
    return acknowledged


def _cpu_ms(service: Service) -> float:
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


PARTS: dict[str, Callable[[Path], list[Row]]] = {
    "adds": adds,
    "postgres": on_postgres,
    "start": starts,
    "kill": killed,
}


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
        for row in found:
            bar = "no bar here" if row.bar is None else f"bar {row.bar:.2f}"
            print(f"{row.what}: {row.value:.2f}  ({bar}) {'MISSED' if row.is_missed else ''}", flush=True)
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
