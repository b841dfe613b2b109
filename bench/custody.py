"""What custody costs: leaves, one erase, large batches, callers together, and how the tree grows.

    python bench/custody.py           writes bench/results/custody.json; status 1: a bar missed, 3: too busy
    python bench/custody.py --large   adds the tree after 100,000 and 1,000,000 random erases

Times of code alone are the best of short rounds. Times that wait for the disk stand beside the disk's own:
C is one synced SQLite commit of the same run, since what a sync costs drifts within an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from shomei_service.engine.custody import Address, Custody, Puncture, address
from shomei_service.engine.custody.keytree import BlobName, KeyTree
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.sealing import Column, RowPlace, new_row, open_dek

RESULTS = Path(__file__).parent / "results" / "custody.json"
MILLION = 1_000_000
BATCH = 10_000
CALLERS = 32
LEAST_IDLE = 0.6

# The bars. The two ratios are against C and against one caller alone.
BARS = {
    "derive_warm_us": 25.0,
    "batch_10000_seconds": 1.0,
    "erase_syncs": 10,
    "shared_epochs_gain": 8.0,
    "row_seals_per_second": 20_000,
    "row_opens_per_second": 20_000,
}
AT_LEAST = {"shared_epochs_gain", "row_seals_per_second", "row_opens_per_second"}


class Shelf:
    """A tree without a disk: blobs in a dictionary."""

    def __init__(self) -> None:
        self.blobs: dict[BlobName, bytes] = {}
        dirty = KeyTree.plant(self.read, domain="bench", seed=os.urandom(32))
        self.tree = dirty.tree
        self.blobs = {(prefix, 0): sealed for prefix, sealed in dirty.sealed.items()}

    def read(self, names: Sequence[BlobName]) -> Mapping[BlobName, bytes]:
        return {name: self.blobs[name] for name in names}

    def puncture(self, leaves: Sequence[Address]) -> int:
        """Puncture, commit, and return how many bytes of blobs were written."""
        dirty = self.tree.puncture(leaves, epoch=self.tree.epoch + 1)
        for name in dirty.replaced:
            del self.blobs[name]
        self.blobs |= {(prefix, dirty.tree.epoch): sealed for prefix, sealed in dirty.sealed.items()}
        self.tree = dirty.tree
        return sum(map(len, dirty.sealed.values()))

    def size(self) -> dict[str, int]:
        return {"blobs": len(self.blobs), "bytes": sum(map(len, self.blobs.values()))}


def random_rows(count: int, seed: int) -> list[Address]:
    return [address(1, row) for row in random.Random(seed).sample(range(256, 256 + MILLION), count)]


def best_us(act: Callable[[int], object], *, calls: int = 200, rounds: int = 60) -> float:
    """Return the microseconds a call takes in the best round."""
    best = float("inf")
    for turn in range(rounds):
        started = time.perf_counter()
        for index in range(calls):
            act(turn * calls + index)
        best = min(best, (time.perf_counter() - started) / calls)
    return round(best * 1e6, 2)


def deriving() -> dict[str, float]:
    """Cold: a leaf of a block never asked for. Warm: its neighbour. Punctured: through seven blobs."""
    shelf = Shelf()
    tree = shelf.tree
    cold = best_us(lambda index: tree.derive(address(1, index << 8)))
    warm = best_us(lambda index: tree.derive(address(1, index & 255)))
    shelf.puncture([address(1, row) for row in range(256, 512, 2)])
    frayed = shelf.tree
    frayed.derive(address(1, 257))
    among = best_us(lambda index: frayed.derive(address(1, 257 + 2 * (index % 120))))
    return {"derive_cold_us": cold, "derive_warm_us": warm, "derive_among_punctured_us": among}


def sealing() -> dict[str, float]:
    """A full row: its leaf, a sealed DEK, two sealed columns of 400 and 600 bytes."""
    tree = Shelf().tree
    places = [RowPlace("ab" * 16, "t_1", f"lm_{number:032x}", 1) for number in range(256)]
    content, recall = os.urandom(400), os.urandom(600)
    rows: dict[int, tuple[bytes, bytes, bytes]] = {}

    def seal_one(index: int) -> None:
        row = index & 255
        keys, sealed_dek = new_row(tree.derive(address(1, row)), places[row])
        rows[row] = sealed_dek, keys.seal(Column.CONTENT, content), keys.seal(Column.RECALL, recall)

    def open_one(index: int) -> None:
        row = index & 255
        sealed_dek, first, second = rows[row]
        keys = open_dek(tree.derive(address(1, row)), places[row], sealed_dek)
        keys.open(Column.CONTENT, first)
        keys.open(Column.RECALL, second)

    seal_us, open_us = best_us(seal_one), best_us(open_one)
    return {"row_seals_per_second": round(1e6 / seal_us), "row_opens_per_second": round(1e6 / open_us)}


def growth(*, large: bool) -> dict[str, object]:
    """How large the tree is after random erases among a million rows, and what one more erase writes."""
    shelf, done = Shelf(), 0
    order = random_rows(MILLION if large else BATCH, seed=7)
    spare = address(1, 2 * MILLION)
    first = shelf.tree.puncture([spare], epoch=1)
    found: dict[str, object] = {
        "one_erase_untouched": {"blobs": len(first.sealed), "bytes": sum(map(len, first.sealed.values()))}
    }
    for goal in (1_000, 10_000, 100_000, MILLION):
        if goal > len(order):
            break
        while done < goal:
            step = order[done : min(goal, done + BATCH)]
            shelf.puncture(step)
            done += len(step)
        if goal < len(order):
            one = shelf.tree.puncture([order[done]], epoch=shelf.tree.epoch + 1)
            found[f"one_erase_after_{goal}"] = {
                "blobs": len(one.sealed),
                "bytes": sum(map(len, one.sealed.values())),
            }
        found[f"after_{goal}"] = shelf.size()
    return found


@contextmanager
def opened() -> Iterator[tuple[Custody, Path]]:
    """Yield a new custody beside this repository, on a disk that is likely the real one."""
    directory = Path(tempfile.mkdtemp(prefix=".bench-", dir=Path(__file__).parent))
    try:
        provider = LocalFile.initialise(directory / "keys")
        url = f"sqlite:///{directory / 'custody' / 'custody.db'}"
        custody = Custody.create(url, provider, installation_id="ab" * 16, now=1)
        yield custody, directory
        custody.close()
    finally:
        shutil.rmtree(directory)


def commit_ms(directory: Path) -> float:
    """Return C: the median time of one synced commit of one small row."""
    raw = sqlite3.connect(directory / "c.db", isolation_level=None)
    raw.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (x)")
    taken: list[float] = []
    for _ in range(40):
        started = time.perf_counter()
        raw.execute("INSERT INTO t VALUES (zeroblob(200))")
        taken.append(time.perf_counter() - started)
    raw.close()
    return round(statistics.median(taken) * 1e3, 3)


def counted_syncs(act: Callable[[], object]) -> int:
    """Count Python's own syncs during an act; with a write-ahead log, each SQLite commit is one more."""
    seen = 0
    fsync = os.fsync

    def counting(descriptor: int) -> None:
        nonlocal seen
        seen += 1
        fsync(descriptor)

    os.fsync = counting
    try:
        act()
    finally:
        os.fsync = fsync
    return seen


def erasing() -> dict[str, object]:
    """One caller, thirty-two callers, and ten thousand rows at once, on a real disk."""
    with opened() as (custody, directory):
        rows = iter(range(1000, MILLION))
        commits = _commits_of(custody)

        def erase_one() -> None:
            custody.puncture([Puncture(address(1, next(rows)), "delete_request")], now=2)

        for _ in range(5):
            erase_one()
        before = commits()
        syncs = counted_syncs(erase_one) + commits() - before
        first_c = commit_ms(directory / "custody")
        alone, cpu = _each_ms(erase_one, 40)
        shared = _together_ms(lambda row: custody.puncture([Puncture(address(2, row), "x")], now=3))
        started = time.perf_counter()
        custody.puncture([Puncture(leaf, "subject_forget") for leaf in random_rows(BATCH, seed=3)], now=4)
        fresh = time.perf_counter() - started
        started = time.perf_counter()
        custody.puncture([Puncture(leaf, "subject_forget") for leaf in random_rows(BATCH, seed=4)], now=5)
        again = time.perf_counter() - started
        return {
            "commit_ms": first_c,
            "erase_syncs": syncs,
            "erase_ms": alone,
            "erase_cpu_ms": cpu,
            "erase_in_commits": round(alone / first_c, 1),
            "erase_ms_among_32_callers": shared,
            "shared_epochs_gain": round(alone / shared, 1),
            "batch_10000_seconds": round(fresh, 3),
            "batch_10000_again_seconds": round(again, 3),
            "store_after": {"blobs": custody.status().blobs, "bytes": custody.status().blob_bytes},
        }


def _commits_of(custody: Custody) -> Callable[[], int]:
    """Count the writing transactions of a custody."""
    count = 0
    store = custody._store
    writing = store.writing

    @contextmanager
    def counting() -> Iterator[object]:
        nonlocal count
        with writing() as connection:
            yield connection
        count += 1

    store.writing = counting  # type: ignore[method-assign,assignment]
    return lambda: count


def _each_ms(act: Callable[[], None], times: int) -> tuple[float, float]:
    """Return the median milliseconds of an act, and its processor time."""
    taken: list[float] = []
    cpu = time.process_time()
    for _ in range(times):
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return round(statistics.median(taken) * 1e3, 2), round((time.process_time() - cpu) / times * 1e3, 2)


def _together_ms(act: Callable[[int], object], each: int = 12) -> float:
    """Return the milliseconds an act takes when thirty-two threads keep asking for it."""
    barrier = threading.Barrier(CALLERS + 1)

    def run(first: int) -> None:
        barrier.wait()
        for row in range(first, first + each):
            act(row)

    threads = [threading.Thread(target=run, args=(1000 * (number + 1),)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    barrier.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return round((time.perf_counter() - started) / (CALLERS * each) * 1e3, 3)


def idle_share(seconds: float = 1.0) -> float:
    """Return the share of all cores' time that nobody used for a moment; 1 where the system does not tell."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 1.0
    before = [int(number) for number in stat.read_text().split("\n")[0].split()[1:]]
    time.sleep(seconds)
    after = [int(number) for number in stat.read_text().split("\n")[0].split()[1:]]
    spent = [b - a for a, b in zip(before, after, strict=True)]
    return round((spent[3] + spent[4]) / max(sum(spent[:8]), 1), 2)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="a million erases; about a minute and a half")
    large = parser.parse_args().large
    idle = idle_share()
    figures: dict[str, object] = {**deriving(), **sealing(), **erasing()}
    verdicts = {}
    for name, bar in BARS.items():
        value = float(str(figures[name]))
        verdicts[name] = {
            "value": value,
            "bar": bar,
            "met": value >= bar if name in AT_LEAST else value <= bar,
        }
    result = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "idle_share_before": idle,
        "figures": figures,
        "tree": growth(large=large),
        "bars": verdicts,
        "met": all(verdict["met"] for verdict in verdicts.values()) if idle >= LEAST_IDLE else None,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    text = json.dumps(result, indent=2) + "\n"
    RESULTS.write_text(text)
    sys.stdout.write(text)
    return 3 if result["met"] is None else 0 if result["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
