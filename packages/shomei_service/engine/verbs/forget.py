"""Forget a subject: erase the whole set, with a closure that adds up. SEMANTICS.md §8 (GDPR Art. 17)."""

from dataclasses import dataclass

from .. import aftermath, deferral, disposal, policy
from ..disposal import Disposed
from ..model import (
    Attested,
    Basis,
    Caller,
    Cause,
    EventKind,
    Forgotten,
    Life,
    MemoryId,
    MemoryRow,
    Pseudonym,
    Scope,
)
from ..parts import Engine
from ..store import events, holds, lineage, memories, obligations, tenants, tombstones
from ..store.intents import Intent
from ..store.obligations import Request
from ..store.unit import Unit


@dataclass(frozen=True, slots=True)
class _Matched:
    """What one forget found and what it may do about it."""

    subject: Pseudonym
    going: list[MemoryRow]
    held: list[MemoryRow]
    artifacts: list[str]
    already_erased: int

    @property
    def derived_count(self) -> int:
        """How many matched memories are another subject's, or nobody's, and derived from this one's."""
        return sum(row.subject != self.subject for row in (*self.going, *self.held))


@dataclass(frozen=True, slots=True)
class _Deferred:
    """What was put off: the restrictions that are new, and what is owed."""

    receipts: dict[MemoryId, Attested]
    owed: dict[MemoryId, str]


def forget(engine: Engine, caller: Caller, user_id: str) -> Forgotten:
    """Erase every memory of the subject in one epoch and return the proofs and the closure.

    Memories under a legal hold leave recall and are owed until the last hold is released. A subject nobody
    knows is no error: the closure then says that nothing matched. Raises Invalid for a blank subject,
    ErasurePending when it has begun and will finish by itself.
    """
    caller.require(Scope.ADMIN)
    policy.require_subject(user_id)
    _finish_earlier(engine, caller, user_id)
    intent = disposal.new_intent(
        engine, cause=Cause.SUBJECT_FORGET, basis=Basis.SUBJECT_REQUEST, actor=caller.actor
    )
    with engine.unit(caller.tenant) as unit:
        # 1. One transaction selects and marks: an add is in the set, or after it, never between.
        matched = _match(engine, unit, user_id)
        # 2. The request is durable before anything of it is done; its closure is owed by the intent.
        _record(engine, unit, intent, matched)
        # 3. What is held leaves recall and is owed; what is not is on its way out.
        receipts, owed = deferral.defer(engine, unit, matched.held, intent.cause, actor=caller.actor)
        disposal.intend(engine, unit, intent, matched.going)
        aftermath.request_external_erasure(engine, unit, matched.artifacts)
        events.append(
            unit,
            EventKind.SUBJECT_FORGOTTEN,
            [intent.intent_id],
            at=intent.created_at,
            pseudonym=matched.subject,
        )
    # 4. One puncture for all of them, then tombstones and receipts in chunks, the closure last.
    disposed = disposal.carry_out(engine, caller.tenant, intent.intent_id)
    return _answer(engine, caller, user_id, intent, matched, _Deferred(receipts, owed), disposed)


def _finish_earlier(engine: Engine, caller: Caller, user_id: str) -> None:
    """Wait for erasures of the subject that are under way, so that their receipts come first."""
    with engine.reading(caller.tenant) as unit:
        subject = engine.commitments(tenants.get(unit)).subject(user_id)
        about = memories.with_life(unit, lineage.about(unit, subject), Life.ERASING)
        begun = {row.intent_id for row in memories.lock_all(unit, about) if row.intent_id is not None}
    for intent_id in sorted(begun):
        disposal.carry_out(engine, caller.tenant, intent_id)


def _match(engine: Engine, unit: Unit, user_id: str) -> _Matched:
    subject = engine.commitments(tenants.get(unit)).subject(user_id)
    already_erased = tombstones.count_about(unit, subject)
    about = lineage.about(unit, subject)
    below = lineage.closure(unit, about)
    rows = [
        row
        for row in memories.lock_all(
            unit, [*about, *(MemoryId(one) for one in below if one.startswith("lm_"))]
        )
        if policy.is_present(row)
    ]
    held = holds.held_among(unit, [row.memory_id for row in rows])
    return _Matched(
        subject=subject,
        going=[row for row in rows if row.memory_id not in held],
        held=[row for row in rows if row.memory_id in held],
        artifacts=[one for one in below if one.startswith("artifact:")],
        already_erased=already_erased,
    )


def _record(engine: Engine, unit: Unit, intent: Intent, matched: _Matched) -> None:
    count = len(matched.going) + len(matched.held)
    obligations.put_request(
        unit,
        Request(
            request_id=intent.intent_id,
            subject=matched.subject,
            requested_at=intent.created_at,
            matched_count=count,
            erased_count=0,
            derived_matched_count=matched.derived_count,
            derived_erased_count=0,
            closure_hash=None,
            owed_by=intent.intent_id,
        ),
    )
    deferred = [(row.memory_id, row.subject != matched.subject) for row in matched.held]
    obligations.defer(unit, intent.intent_id, deferred)
    obligations.put_request_artifacts(unit, intent.intent_id, matched.artifacts)
    engine.journal(
        unit,
        "forget",
        [intent.intent_id, *(row.memory_id for row in matched.held)],
        pseudonym=matched.subject,
        codes={
            "matched": count,
            "going": len(matched.going),
            "derived": matched.derived_count,
            "derived_going": sum(row.subject != matched.subject for row in matched.going),
        },
    )


def _answer(
    engine: Engine,
    caller: Caller,
    user_id: str,
    intent: Intent,
    matched: _Matched,
    deferred: _Deferred,
    disposed: Disposed | None,
) -> Forgotten:
    """Return what the forget came to; from the record when another worker carried it out."""
    if disposed is not None:
        erased, closure = disposed.erased, disposed.closures.get(intent.intent_id)
    else:
        with engine.reading(caller.tenant) as unit:
            erased = disposal.proofs(unit, [row.memory_id for row in matched.going])
            closure = aftermath.recorded_closure(unit, intent.intent_id)
    own = {row.memory_id for row in matched.going if row.subject == matched.subject}
    return Forgotten(
        subject=user_id,
        request_id=intent.intent_id,
        matched_count=len(matched.going) + len(matched.held),
        erased=erased,
        deferred_ids=[row.memory_id for row in matched.held],
        restricted_now=list(deferred.receipts.values()),
        obligation_ids=sorted(deferred.owed.values()),
        already_erased_count=matched.already_erased,
        derived_erased_count=sum(one.memory_id not in own for one in erased),
        external_artifact_count=len(matched.artifacts),
        closure=closure,
    )
