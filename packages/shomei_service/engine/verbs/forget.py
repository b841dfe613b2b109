"""Forget a subject: erase the whole set, with a closure that adds up. SEMANTICS.md §8 (GDPR Art. 17)."""

from dataclasses import dataclass

from .. import disposal, policy
from ..model import Basis, Caller, Cause, Forgotten, MemoryId, Scope
from ..parts import Engine
from ..store import memories, tenants, tombstones


def forget(engine: Engine, caller: Caller, user_id: str) -> Forgotten:
    """Erase every memory of the subject in one epoch and return the proofs and the closure.

    A subject nobody knows is no error: the closure then says that nothing matched. Raises Invalid for a
    blank subject, ErasurePending when it has begun and will finish by itself.
    """
    caller.require(Scope.ADMIN)
    policy.require_subject(user_id)
    with engine.flights.reserved() as intent_id:
        while (request := _request(engine, caller, user_id, intent_id)) is None:
            pass
        # 3. One puncture for all of them, then tombstones and receipts in chunks, the closure last.
        disposed = disposal.fulfil(engine, caller.tenant, intent_id, request.matched)
    return Forgotten(
        subject=user_id,
        matched_count=len(request.matched),
        erased=disposed.erased,
        deferred_ids=[],
        already_erased_count=request.already_erased_count,
        closure=disposed.closure,
    )


@dataclass(frozen=True, slots=True)
class _Request:
    """What a forget found when it marked the subject's rows."""

    matched: list[MemoryId]
    already_erased_count: int


def _request(engine: Engine, caller: Caller, user_id: str, intent_id: str) -> _Request | None:
    """Mark every row of the subject, durably; None if erasures that were under way had to end first."""
    with engine.unit(caller.tenant) as unit:
        # 1. One transaction selects and marks: an add is in the set, or after it, never between.
        subject = engine.commitments(tenants.get(unit)).subject(user_id)
        rows = memories.of_subject(unit, subject)
        begun = sorted({row.intent_id for row in rows if row.intent_id is not None})
        if not begun:
            # 2. The intent is the durable request; its completion owes the closure.
            disposal.intend(
                engine,
                unit,
                rows,
                intent_id=intent_id,
                cause=Cause.SUBJECT_FORGET,
                basis=Basis.SUBJECT_REQUEST,
                actor=caller.actor,
                subject=subject,
            )
            matched = [row.memory_id for row in rows]
            return _Request(matched, tombstones.count_of_subject(unit, subject))
    for earlier in begun:  # their tombstones belong to the closed set, so their receipts come first
        disposal.carry_out(engine, caller.tenant, earlier)
    return None
