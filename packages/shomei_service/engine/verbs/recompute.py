"""Recompute what closures commit to, from the tombstones and the keys they name. SEMANTICS.md §8, §22.

It shares no step with the code that states a closure but the keyed hash itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..model import Caller, Json, Pseudonym, Scope, Tombstone
from ..parts import Engine
from ..receipts.bodies import Schema, disposition
from ..receipts.commitments import SetCommitments
from ..store import commitments, receipts, tenants, tombstones
from ..store.receipts import ReceiptRow
from ..store.unit import Unit

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What was checked and what did not agree: closures by request, and gaps as origin and number."""

    receipts: int
    closures: int
    disagreeing: list[str]
    gaps: list[tuple[str, int]]


def recompute(engine: Engine, caller: Caller) -> Recomputed:
    """Check every closure against the tombstones that were there when it was stated, and the log for gaps."""
    caller.require(Scope.ADMIN)
    with engine.reading(caller.tenant) as unit:
        tenant = tenants.get(unit)
        sets = {one: engine.set_commitments(unit, tenant, one) for one in commitments.leaves(unit)}
        tenant_hash = engine.commitments(tenant).tenant(tenant.tenant_id)
        log = _whole_log(unit, tenant.log_origin)
        place = {row.receipt_hash: at for at, row in enumerate(log)}
        closures = [(at, row) for at, row in enumerate(log) if row.schema == Schema.SUBJECT_CLOSURE]
        disagreeing: list[str] = []
        for at, row in closures:
            body = receipts.attested(row).body
            subject = Pseudonym(str(body["subject_pseudonym"]))
            stones = [one for one in tombstones.about(unit, subject) if place.get(one.receipt_hash, at) < at]
            if not _agrees(body, sets.get(str(body["commit_key_id"])), tenant_hash, stones):
                disagreeing.append(str(body["request_id"]))
    return Recomputed(len(log), len(closures), disagreeing, _gaps(log))


def _agrees(
    body: Mapping[str, Json], sets: SetCommitments | None, tenant_hash: str, stones: list[Tombstone]
) -> bool:
    matched, erased, deferred = (body[name] for name in ("matched_count", "erased_count", "deferred_count"))
    if not (isinstance(matched, int) and isinstance(erased, int) and isinstance(deferred, int)):
        return False
    subject = Pseudonym(str(body["subject_pseudonym"]))
    return (
        matched == erased + deferred
        and body["disposition"] == disposition(matched, erased).value
        and body["closed_set_size"] == len(stones)
        and sets is not None
        and body["closed_set_commitment"] == sets.closed_set(tenant_hash, subject, stones)
    )


def _whole_log(unit: Unit, newest: str) -> list[ReceiptRow]:
    """Return every receipt in the order it was issued: origin after origin, as the restarts link them."""
    origins = [newest]
    while True:
        first = next(iter(receipts.page(unit, origins[0], -1, 1)), None)
        if first is None or first.schema != Schema.LOG_RESTART:
            break
        origins.insert(0, str(receipts.attested(first).body["previous_origin"]))
    log: list[ReceiptRow] = []
    for origin in origins:
        after = -1
        while found := receipts.page(unit, origin, after, _PAGE):
            log += found
            after = found[-1].seq
    return log


def _gaps(log: list[ReceiptRow]) -> list[tuple[str, int]]:
    """Return the first number that is missing wherever the log has a gap."""
    gaps: list[tuple[str, int]] = []
    expected: dict[str, int] = {}
    for row in log:
        wanted = expected.get(row.origin, 0)
        if row.seq != wanted:
            gaps.append((row.origin, wanted))
        expected[row.origin] = row.seq + 1
    return gaps
