"""The way out, shared by every path of erasure: intend, destroy, complete. CUSTODY.md §4, SEMANTICS.md §10.

Once `intend` has committed, an erasure only rolls forward: a crash, an outage or a lost answer ends in
the same tombstones and receipts. No receipt exists for a key that has not been destroyed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from . import aftermath, whereabouts
from .custody import Destruction, LogMark
from .destruction import destroy, drafted, expected, stated
from .errors import CustodyUnavailable, ErasurePending, Fault
from .failpoints import failpoint
from .model import (
    Attested,
    Basis,
    Cause,
    Erased,
    MemoryId,
    RowFacts,
    TenantId,
    Tombstone,
)
from .parts import Engine
from .receipts.content_free import require_content_free
from .store import (
    consents,
    imports,
    intents,
    leaving,
    obligations,
    receipts,
    replays,
    restrictions,
    tenants,
    tombstones,
)
from .store.intents import Intent
from .store.unit import Unit
from .whereabouts import Begun

_PAUSE_S = 0.001
_CHUNK_ROWS = 750  # rows in one completing transaction: no forget, however large, holds the writer for long


@dataclass(frozen=True, slots=True)
class Disposed:
    """What carrying out an intent came to; closures by the forget request they are about."""

    erased: list[Erased]
    closures: dict[str, Attested]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One completing transaction: what it erased, what it closed, and whether it was the last."""

    erased: list[Erased]
    closures: dict[str, Attested]
    is_last: bool


def new_intent(
    engine: Engine,
    intent_id: str,
    *,
    cause: Cause,
    basis: Basis,
    actor: str,
    successor_id: MemoryId | None = None,
) -> Intent:
    """Return an intent that is not stored yet; its id is one that `flights.reserved` gave out."""
    return Intent(intent_id, cause, basis, actor, engine.clock.now(), successor_id)


def intend(
    engine: Engine,
    unit: Unit,
    intent: Intent,
    rows: Sequence[RowFacts],
    *,
    unless: CustodyUnavailable | None = None,
) -> None:
    """Take the rows out of recall for good, durably once the unit commits (E1).

    The receipt is drafted and screened and the signer is probed first: after this there is no way back.
    Raises `unless`, what custody failed with before the unit was opened, if anything is to be erased.
    """
    if rows and unless is not None:
        raise unless
    engine.probe_signer()
    commitments = engine.commitments(tenants.get(unit))
    pending = expected(engine, intent.created_at)
    if rows:  # one for all: their receipts differ in ids of our own making
        require_content_free(drafted(commitments, rows[0], intent, pending).fields)
    failpoint("e1.before")
    engine.store.room.make_room()
    intents.put(unit, intent)
    engine.duties.claim(unit, intent.intent_id)
    leaving.mark_erasing(unit, [row.memory_id for row in rows], intent.intent_id)
    aftermath.suppress_derived(
        engine,
        unit,
        [row.memory_id for row in rows],
        is_update=intent.successor_id is not None,
        actor=intent.actor,
        at=intent.created_at,
    )


def fulfil(
    engine: Engine,
    tenant_id: TenantId,
    intent_id: str,
    owed: Sequence[MemoryId],
    request_ids: Sequence[str] = (),
    *,
    begun: Begun | None = None,
) -> Disposed:
    """Carry out the caller's own intent and return every proof that is owed; otherwise as `carry_out`.

    Owed are the memories' receipts and the closures of the requests. Another process may have been quicker
    with all of it or with some: what it did is on record.
    """
    disposed = carry_out(engine, tenant_id, intent_id, begun)
    erased = {one.memory_id: one for one in disposed.erased} if disposed else {}
    if disposed is not None and len(erased) == len(owed):
        return disposed
    with engine.reading(tenant_id) as unit:
        erased |= _recorded(unit, [memory_id for memory_id in owed if memory_id not in erased])
        proofs = [one.receipt for one in erased.values()]
        closures = aftermath.recorded_closures(unit, request_ids, proofs)
    return Disposed([erased[memory_id] for memory_id in owed], closures)


def _recorded(unit: Unit, ids: Sequence[MemoryId]) -> dict[MemoryId, Erased]:
    stones = [stone for memory_id in ids if (stone := tombstones.of_memory(unit, memory_id))]
    statements = receipts.of_hashes(unit, [stone.receipt_hash for stone in stones])
    return {one.memory_id: Erased(one.memory_id, statements[one.receipt_hash]) for one in stones}


def carry_out(
    engine: Engine, tenant_id: TenantId, intent_id: str, begun: Begun | None = None
) -> Disposed | None:
    """Destroy the keys of an intended erasure and put it on record (E2-E6); None if somebody else did.

    Raises ErasurePending when custody or storage fails on the way: it goes on by itself later.
    """
    failpoint("e1.after")
    with engine.flights.alone(intent_id):
        try:
            return _carry_out(engine, tenant_id, intent_id, begun)
        except Fault as exc:
            engine.wake.set()
            raise ErasurePending(
                "the erasure is under way and will finish by itself; ask again shortly"
            ) from exc


def _carry_out(engine: Engine, tenant_id: TenantId, intent_id: str, begun: Begun | None) -> Disposed | None:
    if not engine.duties.await_turn(tenant_id, intent_id):
        return None
    begun = begun or whereabouts.found(engine, tenant_id, intent_id)
    if begun is None:
        return None
    intent, tenant = begun.intent, begun.tenant
    leaves = whereabouts.leaves_of(engine, begun)
    # Vectors and words leave memory before the key does; searches already pass the row over.
    engine.indexes.discard(tenant_id, list(leaves))
    destroyed: Destruction | None = None
    if leaves:
        # E2-E5, with no database lock held.
        mark = dict[str, LogMark]()
        if tenant.next_seq:
            mark[tenant_id] = LogMark(tenant.log_origin, tenant.next_seq - 1)
        destroyed = destroy(engine, list(leaves.values()), intent.cause, mark=mark)
    failpoint("e6.before")
    disposed = Disposed([], {})
    while True:
        with engine.unit(tenant_id) as unit:
            chunk = _complete_chunk(engine, unit, intent, destroyed)
        failpoint("e6.after_commit")
        if chunk is None:
            return None
        disposed.erased.extend(chunk.erased)
        disposed.closures.update(chunk.closures)
        if chunk.is_last:
            break
        engine.duties.has(intent_id)  # goes on being ours
        time.sleep(_PAUSE_S)  # a lock is not handed over: whoever waits for the writer would go on waiting
        failpoint("e6.mid_batch")
    engine.wake.set()  # the log is truncated right after the answer
    failpoint("answer.before")
    return disposed


def _complete_chunk(
    engine: Engine, unit: Unit, intent: Intent, destroyed: Destruction | None
) -> _Chunk | None:
    """Put one chunk on record (E6); None when another worker finished the intent."""
    engine.store.room.make_room()
    if intents.lock(unit, intent.intent_id) is None:
        return None
    rows = leaving.of_intent(unit, intent.intent_id, _CHUNK_ROWS)
    going = _without_returned(unit, rows)
    erased = _retire(engine, unit, going, intent, destroyed) if going and destroyed else []
    if len(rows) == _CHUNK_ROWS:
        return _Chunk(erased, {}, is_last=False)
    closures = aftermath.state_closures(engine, unit, intent.intent_id, actor=intent.actor)
    intents.finish(unit, intent.intent_id)
    engine.duties.done(unit, intent.intent_id)
    return _Chunk(erased, closures, is_last=True)


def _without_returned(unit: Unit, rows: Sequence[RowFacts]) -> list[RowFacts]:
    """Delete rows that somebody put back after their erasure: their keys are gone, and it is on record."""
    ids = [row.memory_id for row in rows]
    returned = tombstones.known(unit, ids) if rows else set[MemoryId]()
    if returned:
        leaving.remove(unit, sorted(returned))
        restrictions.drop(unit, sorted(returned))
        tombstones.unpurge(unit, sorted(returned))
    return [row for row in rows if row.memory_id not in returned]


def _retire(
    engine: Engine, unit: Unit, rows: Sequence[RowFacts], intent: Intent, destroyed: Destruction
) -> list[Erased]:
    """Delete sealed columns; leave tombstones and receipts."""
    commitments = engine.commitments(tenants.get(unit))
    destruction = stated(engine, destroyed)
    ids = [row.memory_id for row in rows]
    owed = obligations.erasures_owed(unit, ids)
    affected = aftermath.affected_by(unit, ids)
    drafts = [
        drafted(
            commitments,
            row,
            intent,
            destruction,
            affected.get(row.memory_id, 0),
            owed.get(row.memory_id),
        )
        for row in rows
    ]
    attested = engine.attest(unit, drafts, actor=intent.actor)
    failpoint("e6.after_sign")
    bury(unit, rows, attested, at=destroyed.at, cause=intent.cause)
    aftermath.discharge(engine, unit, intent, rows, [one.obligation_id for one in owed.values()])
    tenants.advance_epoch(unit.connection, destroyed.epoch_after)
    return [Erased(row.memory_id, receipt) for row, receipt in zip(rows, attested, strict=True)]


def bury(
    unit: Unit,
    rows: Sequence[RowFacts],
    attested: Sequence[Attested],
    *,
    at: int,
    cause: Cause,
) -> None:
    """Replace rows by tombstones that point at their receipts."""
    ids = [row.memory_id for row in rows]
    leaving.remove(unit, ids)
    restrictions.drop(unit, ids)
    consents.drop_purposes(unit, ids)
    replays.forget(unit, ids)
    imports.forget(unit, ids)
    tombstones.put(
        unit,
        [
            Tombstone(
                tombstone_id=str(receipt.body["tombstone_id"]),
                memory_id=row.memory_id,
                subject=row.subject,
                erased_at=at,
                cause=cause,
                receipt_hash=receipt.receipt_hash,
                physically_purged=False,
            )
            for row, receipt in zip(rows, attested, strict=True)
        ],
    )
