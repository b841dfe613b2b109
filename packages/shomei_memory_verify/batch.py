"""Many receipts on all cores: files, folders or JSON Lines. docs/spec/receipt.md §9."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, cast

from shomei_memory_verify.audit import Audit, Finding, judge
from shomei_memory_verify.text import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from typing import BinaryIO

_LINE_FILES = (".jsonl", ".ndjson")
_FILES = (".json", *_LINE_FILES)

# Enough work a message that sending it costs little, and little enough that no core waits at the end.
_CHUNK = 128
_AHEAD = 3  # chunks in flight for each process

# A line may end in CR LF; what is longer is refused without being held in memory.
_LONGEST_LINE = MAX_BYTES + 2

_IGNORE_INTERRUPTS = (signal.SIGINT, signal.SIG_IGN)

_REDRAW_SECONDS = 0.1
_BAR_WIDTH = 30


class Item(NamedTuple):
    """One receipt as it was found."""

    at: str
    data: bytes


def audit(names: Sequence[str], *, pins: Sequence[str], partial: bool) -> dict[str, object]:
    """Verify every receipt under the names and return the report.

    Raises OSError for a file that cannot be read.
    """
    files = [file for name in names for file in _files_of(name)]
    found = Audit(partial=partial)
    progress = _Progress(sum(map(_size_of, files)))
    chunks = _chunks(item for file in files for item in _items_of(file, progress))
    try:
        for chunk, findings in _judged(chunks, pins):
            for item, finding in zip(chunk, findings, strict=True):
                found.add(item.at, finding)
            progress.draw(found.receipts)
    finally:
        progress.clear()
    return found.report()


def _files_of(name: str) -> list[str]:
    """Return the name itself, or the receipt files below it when it is a folder."""
    if name == "-" or not os.path.isdir(name):
        return [name]
    return sorted(
        os.path.join(folder, file)
        for folder, _, files in os.walk(name)
        for file in files
        if file.endswith(_FILES)
    )


def _size_of(name: str) -> int:
    return 0 if name == "-" else os.stat(name).st_size


def _items_of(name: str, progress: _Progress) -> Iterator[Item]:
    if name == "-":
        yield from _lines_of("stdin", sys.stdin.buffer, progress)
        return
    with open(name, "rb") as file:
        if name.endswith(_LINE_FILES):
            yield from _lines_of(name, file, progress)
        else:
            yield Item(name, file.read(MAX_BYTES + 1))
            progress.read += _size_of(name)


def _lines_of(name: str, file: BinaryIO, progress: _Progress) -> Iterator[Item]:
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        progress.read += len(line)
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
            progress.read += len(rest)
        if line.strip():
            yield Item(f"{name}:{number}", line.rstrip(b"\r\n"))


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    source = iter(items)
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def _judged(chunks: Iterator[list[Item]], pins: Sequence[str]) -> Iterator[tuple[list[Item], list[Finding]]]:
    """Yield every chunk with its findings, in order; one chunk is not worth a process."""
    opening = list(islice(chunks, 2))
    if len(opening) < 2:
        yield from ((chunk, _judge_all([item.data for item in chunk], pins)) for chunk in opening)
        return
    from concurrent.futures import ProcessPoolExecutor

    cores = _cores()
    # An interrupt from the terminal reaches every process; only the parent answers it.
    with ProcessPoolExecutor(cores, initializer=signal.signal, initargs=_IGNORE_INTERRUPTS) as pool:
        pending: deque[tuple[list[Item], Future[list[Finding]]]] = deque()
        for chunk in chain(opening, chunks):
            pending.append((chunk, pool.submit(_judge_all, [item.data for item in chunk], pins)))
            if len(pending) > _AHEAD * cores:
                done, future = pending.popleft()
                yield done, future.result()
        while pending:
            done, future = pending.popleft()
            yield done, future.result()


def _cores() -> int:
    """Return how many cores this process may use, which in a container is fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _judge_all(receipts: list[bytes], pins: Sequence[str]) -> list[Finding]:
    return [judge(receipt, pins) for receipt in receipts]


class _Progress:
    """A bar on standard error when that is a terminal; nothing otherwise."""

    __slots__ = ("_next", "_on", "_started", "_total", "read")

    def __init__(self, total: int) -> None:
        self.read = 0
        self._total = total
        self._on = sys.stderr.isatty()
        self._started = self._next = time.monotonic()

    def draw(self, receipts: int) -> None:
        now = time.monotonic()
        if not self._on or now < self._next:
            return
        self._next = now + _REDRAW_SECONDS
        rate = receipts / max(now - self._started, 1e-9)
        sys.stderr.write(f"\r{self._bar()}{receipts:,} receipts, {rate:,.0f}/s \x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _bar(self) -> str:
        if not self._total:  # standard input: nobody knows how much will come
            return ""
        share = min(self.read / self._total, 1.0)
        full = int(share * _BAR_WIDTH)
        return f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] {share:4.0%} "


def as_lines(report: dict[str, object]) -> str:
    """Return a report for people, in ASCII."""
    verdicts = cast("dict[str, int]", report["verdicts"])
    first_bad = cast("dict[str, str]", report["first_bad"])
    logs = cast("dict[str, dict[str, int]]", report["logs"])
    lines = [f"{report['receipts']:,} receipts"]
    lines += [f"  {verdict:<26}{number:>10,}" for verdict, number in verdicts.items()]
    if report["without_log"]:
        lines.append(f"  {'naming no log':<26}{report['without_log']:>10,}")
    lines += [f"first {reason}: {at}" for reason, at in first_bad.items()]
    lines += [line for origin, log in logs.items() for line in _log_lines(origin, log)]
    words = {0: "authenticated", 1: "REFUSED", 3: "valid, signer unknown (no --pin)"}
    lines.append(f"verdict on the set: {words[cast('int', report['status'])]}")
    return "".join(line.encode("ascii", "backslashreplace").decode() + "\n" for line in map(_inert, lines))


def _log_lines(origin: str, log: dict[str, int]) -> Iterator[str]:
    yield (
        f"log {origin}: {log['receipts']:,} receipts, seq {log['first']} to {log['last']}, "
        f"{log['missing']:,} missing, {log['repeats']:,} repeated, {log['conflict_count']:,} in conflict"
    )
    for first, last in cast("list[tuple[int, int]]", log["gaps"]):
        yield f"  missing: {first} to {last}" if last > first else f"  missing: {first}"
    for conflict in cast("list[dict[str, object]]", log["conflicts"]):
        yield f"  conflict: seq {conflict['seq']}, second receipt at {conflict['at']}"


def _inert(line: str) -> str:
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line)
