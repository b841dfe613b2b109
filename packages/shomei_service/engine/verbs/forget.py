"""Forget a subject: erase the whole set, with a closure that adds up. SEMANTICS.md §8 (GDPR Art. 17)."""

from .. import disposal, policy
from ..model import Basis, Caller, Cause, Forgotten, Life, Scope
from ..parts import Engine
from ..store import memories, tenants, tombstones


def forget(engine: Engine, caller: Caller, user_id: str) -> Forgotten:
    """Erase every memory of the subject in one epoch and return the proofs and the closure.

    A subject nobody knows is no error: the closure then says that nothing matched. Raises Invalid for a
    blank subject, ErasurePending when it has begun and will finish by itself.
    """
    caller.require(Scope.ADMIN)
    policy.require_subject(user_id)
    _finish_earlier(engine, caller, user_id)
    with engine.unit(caller.tenant) as unit:
        # 1. One transaction selects and marks: an add is in the set, or after it, never between.
        subject = engine.commitments(tenants.get(unit)).subject(user_id)
        already_erased = tombstones.count_of_subject(unit, subject)
        rows = [row for row in memories.of_subject(unit, subject) if row.life is Life.LIVE]
        # 2. The intent is the durable request; its completion owes the closure.
        intent = disposal.intend(
            engine,
            unit,
            rows,
            cause=Cause.SUBJECT_FORGET,
            basis=Basis.SUBJECT_REQUEST,
            actor=caller.actor,
            subject=subject,
        )
    # 3. One puncture for all of them, then tombstones and receipts in chunks, the closure last.
    disposed = disposal.carry_out(engine, caller.tenant, intent.intent_id)
    return Forgotten(
        subject=user_id,
        matched_count=len(rows),
        erased=disposed.erased if disposed else [],
        deferred_ids=[],
        already_erased_count=already_erased,
        closure=disposed.closure if disposed else None,
    )


def _finish_earlier(engine: Engine, caller: Caller, user_id: str) -> None:
    """Wait for erasures of the subject that are under way, so that their receipts come first."""
    with engine.reading(caller.tenant) as unit:
        subject = engine.commitments(tenants.get(unit)).subject(user_id)
        begun = {row.intent_id for row in memories.of_subject(unit, subject) if row.intent_id is not None}
    for intent_id in sorted(begun):
        disposal.carry_out(engine, caller.tenant, intent_id)
