"""What many receipts say together: verdicts, and logs without gap or conflict. docs/spec/receipt.md §9."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from shomei_memory_verify.envelope import read
from shomei_memory_verify.text import Malformed
from shomei_memory_verify.verify import (
    MALFORMED,
    OK,
    OK_UNPINNED,
    PUBLIC_KEY_MISMATCH,
    SIGNATURE_OR_HASH_INVALID,
    reason_for,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_VERDICTS = (OK, OK_UNPINNED, PUBLIC_KEY_MISMATCH, SIGNATURE_OR_HASH_INVALID, MALFORMED)

# A report stays readable: beyond this many, gaps and conflicts are only counted.
_LONGEST_LIST = 20


class Finding(NamedTuple):
    """The verdict on one receipt, and its place in a log if it is valid and names one."""

    reason: str
    origin: str | None = None
    seq: int = 0
    receipt_hash: str = ""


def judge(data: bytes, pins: Sequence[str]) -> Finding:
    """Return the finding on one receipt, which any of the pins may authenticate."""
    try:
        reading = read(data)
    except Malformed as exc:
        return Finding(f"{MALFORMED}: {exc}")
    reason = PUBLIC_KEY_MISMATCH
    for pin in pins or [None]:
        reason = reason_for(reading, pin)
        if reason != PUBLIC_KEY_MISMATCH:
            break
    log = reading.receipt.body.get("log")
    members = cast("dict[str, object]", log) if isinstance(log, dict) else {}
    origin, seq = members.get("origin"), members.get("seq")
    if not isinstance(origin, str) or type(seq) is not int or seq < 0:
        return Finding(reason)
    return Finding(reason, origin, seq, reading.receipt.receipt_hash)


@dataclass(slots=True)
class _Log:
    """The receipts seen of one origin."""

    seen: dict[int, bytes] = field(default_factory=dict[int, bytes])
    repeats: int = 0
    conflicts: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    conflict_count: int = 0

    def add(self, at: str, finding: Finding) -> None:
        digest = bytes.fromhex(finding.receipt_hash.removeprefix("sha256:"))
        if finding.seq not in self.seen:
            self.seen[finding.seq] = digest
        elif self.seen[finding.seq] == digest:
            self.repeats += 1
        else:  # two receipts with one origin and seq: misbehaviour, or a restore by hand
            self.conflict_count += 1
            if len(self.conflicts) < _LONGEST_LIST:
                self.conflicts.append({"seq": finding.seq, "at": at})

    def report(self) -> dict[str, object]:
        gaps = _gaps(sorted(self.seen))
        return {
            "receipts": len(self.seen),
            "first": min(self.seen),
            "last": max(self.seen),
            "missing": max(self.seen) + 1 - len(self.seen),
            "gaps": gaps[:_LONGEST_LIST],
            "gap_count": len(gaps),
            "repeats": self.repeats,
            "conflicts": self.conflicts,
            "conflict_count": self.conflict_count,
        }


def _gaps(seqs: list[int]) -> list[list[int]]:
    """Return the first and last number of every stretch missing between 0 and the last seen."""
    return [
        [before + 1, after - 1]
        for before, after in zip([-1, *seqs], seqs, strict=False)
        if after > before + 1
    ]


class Audit:
    """Collects findings; its report is plain JSON."""

    __slots__ = ("_first_bad", "_logs", "_partial", "_verdicts", "_without_log")

    def __init__(self, *, partial: bool) -> None:
        self._partial = partial
        self._verdicts: Counter[str] = Counter()
        self._first_bad: dict[str, str] = {}
        self._logs: dict[str, _Log] = {}
        self._without_log = 0

    @property
    def receipts(self) -> int:
        """The number of receipts so far."""
        return self._verdicts.total()

    def add(self, at: str, finding: Finding) -> None:
        """Count one finding; `at` names where the receipt was read."""
        verdict = finding.reason.partition(":")[0]
        self._verdicts[verdict] += 1
        if verdict not in {OK, OK_UNPINNED}:
            self._first_bad.setdefault(finding.reason, at)
        elif finding.origin is None:
            self._without_log += 1
        else:
            self._logs.setdefault(finding.origin, _Log()).add(at, finding)

    def report(self) -> dict[str, object]:
        """Return the whole result."""
        logs = {origin: log.report() for origin, log in sorted(self._logs.items())}
        return {
            "status": self._status(logs),
            "receipts": self.receipts,
            "verdicts": {verdict: self._verdicts[verdict] for verdict in _VERDICTS},
            "first_bad": self._first_bad,
            "without_log": self._without_log,
            "partial": self._partial,
            "logs": logs,
        }

    def _status(self, logs: dict[str, dict[str, object]]) -> int:
        """Return the exit status: one bad receipt, conflict or gap refuses the set; so does an empty one."""
        broken = any(log["conflict_count"] or (log["missing"] and not self._partial) for log in logs.values())
        if self._first_bad or broken or not self.receipts:
            return 1
        return 3 if self._verdicts[OK_UNPINNED] else 0
