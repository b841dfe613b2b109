"""Forget a subject: erase the whole set, with a closure that adds up. SEMANTICS.md §8 (GDPR Art. 17)."""

from dataclasses import dataclass

from .. import aftermath, deferral, disposal, policy, retries, whereabouts
from ..disposal import Disposed
from ..errors import CustodyUnavailable, ErasurePending
from ..model import (
    Attested,
    Basis,
    Caller,
    Cause,
    EventKind,
    Forgotten,
    Hold,
    JsonObject,
    Life,
    MemoryId,
    Pseudonym,
    Scope,
    SealedFacts,
)
from ..parts import Engine
from ..rotation import ORIGIN
from ..store import events, holds, leaving, lineage, obligations, receipts, tenants, tombstones
from ..store.intents import Intent
from ..store.obligations import Request
from ..store.unit import Unit


@dataclass(frozen=True, slots=True)
class _Matched:
    """What one forget found and what it may do about it."""

    subject: Pseudonym
    going: list[SealedFacts]
    held: list[SealedFacts]
    leaving: list[SealedFacts]
    artifacts: list[str]
    already_erased: int

    @property
    def derived_count(self) -> int:
        """How many matched memories are another subject's, or nobody's, and derived from this one's."""
        return sum(row.subject != self.subject for row in (*self.going, *self.held))


def forget(engine: Engine, caller: Caller, user_id: str) -> Forgotten:
    """Erase every memory of the subject in one epoch and return the proofs and the closure.

    Memories under a legal hold leave recall and are owed until the last hold is released. A subject nobody
    knows is no error: the closure then says that nothing matched. Raises Invalid for a blank subject,
    ErasurePending when it has begun and will finish by itself, CustodyUnavailable when nothing was changed.
    """
    caller.require(Scope.ADMIN)
    policy.require_subject(user_id)
    with engine.flights.reserved() as intent_id:
        intent = disposal.new_intent(
            engine,
            intent_id,
            cause=Cause.SUBJECT_FORGET,
            basis=Basis.SUBJECT_REQUEST,
            actor=caller.actor,
        )
        request: _Request | None = None
        while request is None:
            again = _again(engine, caller, user_id)
            if again is not None:
                return again
            request = _request(engine, caller, user_id, intent)
        # 4. One puncture for all of them, then tombstones and receipts in chunks, the closure last.
        owed = [row.memory_id for row in request.matched.going]
        with engine.reading(caller.tenant) as unit:
            begun = whereabouts.begun(unit, intent, map(leaving.seal_of, request.matched.going))
        disposed = disposal.fulfil(engine, caller.tenant, intent_id, owed, [intent_id], begun=begun)
    return _answer(user_id, intent, request, disposed)


@dataclass(frozen=True, slots=True)
class _Request:
    """What was found, what was put off: the restrictions that are new and what is owed."""

    matched: _Matched
    restricted: list[Attested]
    obligation_ids: list[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a forget would do now: nothing is changed by asking."""

    erased_ids: list[MemoryId]
    held: dict[MemoryId, list[Hold]]
    derived_count: int
    external_artifact_count: int
    already_erased_count: int


def plan(engine: Engine, caller: Caller, user_id: str) -> Plan:
    """Say what a forget would erase, what is held, and by which holds. Raise Invalid for a blank subject."""
    caller.require(Scope.ADMIN)
    policy.require_subject(user_id)
    with engine.reading(caller.tenant) as unit:
        matched = _match(engine, unit, user_id)
        open_holds = [hold for hold in holds.everyone(unit) if hold.released_at is None]
        held = {
            row.memory_id: [
                hold
                for hold in open_holds
                if hold.memory_id == row.memory_id
                or hold.subject in lineage.subjects_of(unit, [row.memory_id])
            ]
            for row in matched.held
        }
    return Plan(
        erased_ids=[row.memory_id for row in matched.going],
        held=held,
        derived_count=matched.derived_count,
        external_artifact_count=len(matched.artifacts),
        already_erased_count=matched.already_erased,
    )


def _request(engine: Engine, caller: Caller, user_id: str, intent: Intent) -> _Request | None:
    """Make the request durable; None if the same call came first, or erasures under way had to end first."""
    failure = engine.custody_failure()
    with engine.unit(caller.tenant) as unit:
        if retries.recall(engine, unit, caller) is not None:
            return None
        # 1. One transaction selects and marks: an add is in the set, or after it, never between.
        matched = _match(engine, unit, user_id)
        begun = sorted({row.intent_id for row in matched.leaving if row.intent_id is not None})
        if not begun:
            # 2. The request is durable before anything of it is done; its closure is owed by the intent.
            _record(engine, unit, intent, matched)
            # 3. What is held leaves recall and is owed; what is not is on its way out.
            restricted, owed = deferral.defer(engine, unit, matched.held, intent.cause, actor=caller.actor)
            disposal.intend(engine, unit, intent, matched.going, unless=failure)
            _tell(engine, unit, intent, matched)
            request = _Request(matched, list(restricted.values()), sorted(owed.values()))
            retries.keep(engine, unit, caller, _kept(intent, request))
            return request
    try:
        for earlier in begun:  # their tombstones belong to the closed set, so their receipts come first
            disposal.carry_out(engine, caller.tenant, earlier)
    except ErasurePending as exc:  # theirs is under way; the request itself is not even on record
        raise CustodyUnavailable("an earlier erasure can not be finished now; nothing was changed") from exc
    return None


def _tell(engine: Engine, unit: Unit, intent: Intent, matched: _Matched) -> None:
    """Ask owners of artifacts to erase them, and let callers drop what they cached or rebuild it."""
    at, subject = intent.created_at, matched.subject
    aftermath.request_external_erasure(unit, matched.artifacts, at=at)
    events.append(unit, EventKind.SUBJECT_FORGOTTEN, [intent.intent_id], at=at, pseudonym=subject)
    going = {row.memory_id for row in matched.going}
    derived = [row.memory_id for row in matched.going if row.subject != subject]
    rebuildable = [one for one in derived if set(lineage.sources_of(unit, one)) - going]
    if rebuildable:
        events.append(unit, EventKind.ARTIFACT_REBUILD_SUGGESTED, rebuildable, at=at)


def _match(engine: Engine, unit: Unit, user_id: str) -> _Matched:
    subject = engine.commitments(tenants.get(unit)).subject(user_id)
    already_erased = tombstones.count_about(unit, subject)
    about = lineage.about(unit, subject)
    below = lineage.closure(unit, about)
    ids = [*about, *(MemoryId(one) for one in below if one.startswith("lm_"))]
    every = leaving.lock_all(unit, ids)
    rows = [row for row in every if policy.is_present(row)]
    held = holds.held_among(unit, [row.memory_id for row in rows])
    return _Matched(
        subject=subject,
        going=[row for row in rows if row.memory_id not in held],
        held=[row for row in rows if row.memory_id in held],
        leaving=[row for row in every if row.life is Life.ERASING],
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
    tenant = tenants.get(unit)
    engine.journal(
        unit,
        "forget",
        [intent.intent_id, *(row.memory_id for row in matched.held), *matched.artifacts],
        pseudonym=matched.subject,
        codes={
            "matched": count,
            "going": len(matched.going),
            "derived": matched.derived_count,
            "derived_going": sum(row.subject != matched.subject for row in matched.going),
            "log": tenant.log_origin.removeprefix(ORIGIN),
            "next_seq": tenant.next_seq,
        },
        at=intent.created_at,
    )


def _answer(user_id: str, intent: Intent, request: _Request, disposed: Disposed) -> Forgotten:
    matched = request.matched
    return Forgotten(
        subject=user_id,
        request_id=intent.intent_id,
        matched_count=len(matched.going) + len(matched.held),
        erased=disposed.erased,
        deferred_ids=[row.memory_id for row in matched.held],
        restricted_now=request.restricted,
        obligation_ids=request.obligation_ids,
        already_erased_count=matched.already_erased,
        derived_erased_count=sum(row.subject != matched.subject for row in matched.going),
        external_artifact_count=len(matched.artifacts),
        closure=disposed.closures.get(intent.intent_id),
    )


def _kept(intent: Intent, request: _Request) -> JsonObject:
    matched = request.matched
    return {
        "intent": intent.intent_id,
        "ids": [row.memory_id for row in matched.going],
        "deferred": [row.memory_id for row in matched.held],
        "restricted": [one.receipt_hash for one in request.restricted],
        "obligations": [*request.obligation_ids],
        "already_erased": matched.already_erased,
        "derived_erased": sum(row.subject != matched.subject for row in matched.going),
        "artifacts": len(matched.artifacts),
    }


def _again(engine: Engine, caller: Caller, user_id: str) -> Forgotten | None:
    """Return what the same call came to, once it is finished; None if there was none."""
    with engine.reading(caller.tenant) as unit:
        kept = retries.recall(engine, unit, caller)
        if kept is None:
            return None
        hashes = retries.texts(kept["restricted"])
        statements = receipts.of_hashes(unit, hashes)
    going, deferred = retries.ids(kept["ids"]), retries.ids(kept["deferred"])
    intent_id = retries.text(kept["intent"])
    disposed = disposal.fulfil(engine, caller.tenant, intent_id, going, [intent_id])
    closures = disposed.closures
    return Forgotten(
        subject=user_id,
        request_id=intent_id,
        matched_count=len(going) + len(deferred),
        erased=disposed.erased,
        deferred_ids=deferred,
        restricted_now=[statements[one] for one in hashes],
        obligation_ids=retries.texts(kept["obligations"]),
        already_erased_count=retries.count(kept["already_erased"]),
        derived_erased_count=retries.count(kept["derived_erased"]),
        external_artifact_count=retries.count(kept["artifacts"]),
        closure=closures.get(intent_id),
    )
