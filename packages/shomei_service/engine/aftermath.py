"""What an erasure means for others: derived memories, artifacts, requests. SEMANTICS.md §8, §11."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, cast

from . import suppression
from .model import (
    Attested,
    Cause,
    EventKind,
    Ground,
    Json,
    Life,
    MemoryId,
    Obligation,
    ObligationKind,
    ObligationState,
    RowFacts,
    new_id,
)
from .parts import Engine
from .receipts import bodies
from .receipts.bodies import ClosureCounts
from .store import events, lineage, memories, obligations, receipts, tenants, tombstones
from .store.intents import Intent
from .store.obligations import Request
from .store.unit import Unit

_ACKNOWLEDGE_WITHIN_S: Final = 30 * 86_400  # a month, as Art. 12(3) gives the controller


def suppress_derived(
    engine: Engine,
    unit: Unit,
    ids: Sequence[MemoryId],
    *,
    is_update: bool,
    actor: str,
    at: int,
    going: Collection[str] = (),
) -> None:
    """Take what was made from the memories out of use, in the same unit that marks or erases them.

    In-store memories get a ground, unless they go as well; owners of external artifacts are told.
    """
    made = lineage.made_from(unit, ids)
    if not made:
        return
    staying = [MemoryId(one) for one in made if one.startswith("lm_") and one not in going]
    ground = Ground.SOURCE_SUPERSEDED if is_update else Ground.SOURCE_ERASED
    # A successor that is still waiting for its predecessor's key to go would come to life without it.
    present = memories.with_life(unit, staying, Life.LIVE, Life.PENDING)
    suppression.apply(engine, unit, sorted(present), ground, actor=actor)
    artifacts = [one for one in lineage.closure(unit, ids) if one.startswith("artifact:")]
    if not artifacts:
        return
    if is_update:
        events.append(unit, EventKind.ARTIFACT_SUSPEND, artifacts, at=at)
    else:
        request_external_erasure(unit, artifacts, at=at)


def request_external_erasure(unit: Unit, artifacts: Sequence[str], *, at: int) -> None:
    """Ask the owners of artifacts to erase them, once, and remember that they owe an answer.

    Whoever has answered already owes nothing any more.
    """
    asked = lineage.request_erasure(unit, artifacts, at=at)
    waiting = [artifact_id for artifact_id, answered_at in asked if answered_at is None]
    if waiting:
        events.append(unit, EventKind.ARTIFACT_ERASURE_REQUESTED, waiting, at=at)
    obligations.put(
        unit,
        [
            Obligation(
                obligation_id=new_id("obl_"),
                kind=ObligationKind.EXTERNAL_ERASURE_ACK,
                state=ObligationState.OPEN if answered_at is None else ObligationState.DONE,
                memory_id=None,
                subject=None,
                purpose=None,
                artifact_id=artifact_id,
                cause=None,
                requested_at=at,
                due_at=at + _ACKNOWLEDGE_WITHIN_S,
                ended_at=answered_at,
            )
            for artifact_id, answered_at in asked
        ],
    )


def affected_by(unit: Unit, ids: Sequence[MemoryId]) -> dict[MemoryId, int]:
    """Return how many memories in the store were made from each, transitively."""
    if not lineage.made_from(unit, ids):
        return {}
    affected: dict[MemoryId, int] = {}
    for memory_id in ids:
        below = [MemoryId(one) for one in lineage.closure(unit, [memory_id]) if one.startswith("lm_")]
        affected[memory_id] = len(memories.with_life(unit, below, Life.LIVE))
    return affected


def discharge(
    engine: Engine, unit: Unit, intent: Intent, rows: Sequence[RowFacts], fulfilled: Sequence[str]
) -> None:
    """Count erased rows for the forget requests they belong to, and end the obligations they fulfil."""
    if intent.cause is Cause.SUBJECT_FORGET:
        subject = obligations.subject_of(unit, intent.intent_id)
        derived = sum(row.subject != subject for row in rows)
        obligations.count_erased(unit, intent.intent_id, len(rows), derived, owed_by=intent.intent_id)
    obligations.discharge(unit, [row.memory_id for row in rows], intent.intent_id)
    obligations.end(unit, fulfilled, ObligationState.DONE, at=engine.clock.now())
    if intent.successor_id is not None:
        revision = tenants.take_sequence(unit, 0, now=engine.clock.now()).revision
        memories.activate(unit, intent.successor_id, revision=revision)


def state_closures(engine: Engine, unit: Unit, intent_id: str, *, actor: str) -> dict[str, Attested]:
    """State what every forget request that this intent served has come to: m = e + d, cumulative."""
    closures: dict[str, Attested] = {}
    for request in obligations.owed_by(unit, intent_id):
        closure = _closure(engine, unit, request, actor)
        obligations.closed(unit, request.request_id, closure.receipt_hash)
        closures[request.request_id] = closure
    return closures


def _closure(engine: Engine, unit: Unit, request: Request, actor: str) -> Attested:
    tenant = tenants.get(unit)
    tenant_hash = engine.commitments(tenant).tenant(tenant.tenant_id)
    sets = engine.set_commitments(unit, tenant, tenant.commit_key_id)
    stones = tombstones.about(unit, request.subject)
    artifacts, acknowledged = obligations.artifact_counts(unit, request.request_id)
    draft = bodies.subject_closure(
        subject=request.subject,
        request_id=request.request_id,
        counts=ClosureCounts(
            matched=request.matched_count,
            erased=request.erased_count,
            derived_matched=request.derived_matched_count,
            derived_erased=request.derived_erased_count,
            artifacts=artifacts,
            artifacts_acknowledged=acknowledged,
        ),
        closed_set=(sets.closed_set(tenant_hash, request.subject, stones), len(stones)),
        prior_closure_hash=request.closure_hash,
    )
    return engine.attest(unit, [draft], actor=actor)[0]


def recorded_closures(
    unit: Unit, request_ids: Sequence[str], erased: Iterable[Attested]
) -> dict[str, Attested]:
    """Return, from the log, what an intent stated of forget requests after the last row it erased."""
    last = max(map(_place, erased), key=itemgetter(1), default=None)
    found = {one: receipts.about(unit, bodies.Schema.SUBJECT_CLOSURE, one, after=last) for one in request_ids}
    return {one: closure for one, closure in found.items() if closure is not None}


def _place(receipt: Attested) -> tuple[str, int]:
    log = cast(Mapping[str, Json], receipt.body["log"])
    return str(log["origin"]), cast(int, log["seq"])
