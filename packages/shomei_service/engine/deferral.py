"""An erasure that a hold or a restriction forbids for now: owed until nothing does. SEMANTICS.md §7-§8."""

from collections.abc import Container, Sequence
from dataclasses import replace

from . import disposal, policy, suppression
from .failpoints import failpoint
from .model import (
    SYSTEM_ACTOR,
    Attested,
    Basis,
    Cause,
    Ground,
    Life,
    MemoryId,
    Obligation,
    ObligationKind,
    ObligationState,
    Pseudonym,
    RowFacts,
    TenantId,
    Withdrawal,
    new_id,
)
from .parts import Engine
from .store import consents, holds, leaving, obligations, restrictions, tenants
from .store.intents import Intent
from .store.unit import Unit

ANSWER_WITHIN_S = 30 * 86_400  # one month, Art. 12(3)


def begin(engine: Engine, unit: Unit, rows: Sequence[RowFacts], intent: Intent) -> bool:
    """Begin an erasure that nobody asks for now; what is held or restricted is owed instead.

    Return whether there is anything to carry out once the unit commits.
    """
    going = free_to_go(unit, rows, intent.cause)
    free = {row.memory_id for row in going}
    left = [row for row in rows if row.memory_id not in free]
    held = holds.held_among(unit, [row.memory_id for row in left])
    for owed, kind in (
        ([row for row in left if row.memory_id in held], ObligationKind.ERASE_ON_HOLD_RELEASE),
        ([row for row in left if row.memory_id not in held], ObligationKind.ERASE_ON_RESTRICTION_LIFT),
    ):
        defer(engine, unit, owed, intent.cause, actor=intent.actor, ground=None, kind=kind)
    if going:
        disposal.intend(engine, unit, intent, going)
    return bool(going)


def free_to_go(unit: Unit, rows: Sequence[RowFacts], cause: Cause) -> list[RowFacts]:
    """Return those of the rows that neither a hold nor a restriction keeps from going by themselves."""
    held = holds.held_among(unit, [row.memory_id for row in rows])
    return [row for row in rows if row.memory_id not in held and _may_go(unit, row, cause)]


def _may_go(unit: Unit, row: RowFacts, cause: Cause) -> bool:
    return not row.grounds or policy.may_go_by_itself(restrictions.grounds_of(unit, row.memory_id), cause)


def defer(
    engine: Engine,
    unit: Unit,
    rows: Sequence[RowFacts],
    cause: Cause,
    *,
    actor: str,
    ground: Ground | None = Ground.DEFERRED_HOLD,
    kind: ObligationKind = ObligationKind.ERASE_ON_HOLD_RELEASE,
) -> tuple[dict[MemoryId, Attested], dict[MemoryId, str]]:
    """Owe the erasure of rows, once each, and take them out of recall if there is a ground for it.

    Return the receipts of the restrictions that are new and the obligation of every row.
    """
    ids = [row.memory_id for row in rows]
    receipts = suppression.apply(engine, unit, ids, ground, actor=actor) if ground and ids else {}
    known = obligations.erasures_owed(unit, ids)
    if cause is Cause.SUBJECT_FORGET:
        _outrank(engine, unit, list(known.values()))
    owed = {memory_id: one.obligation_id for memory_id, one in known.items()}
    now = engine.clock.now()
    fresh = [
        Obligation(
            obligation_id=new_id("obl_"),
            kind=kind,
            state=ObligationState.OPEN,
            memory_id=row.memory_id,
            subject=row.subject,
            purpose=None,
            artifact_id=None,
            cause=cause,
            requested_at=now,
            due_at=now + ANSWER_WITHIN_S,
            ended_at=None,
        )
        for row in rows
        if row.memory_id not in owed
    ]
    owe(engine, unit, fresh)
    return receipts, owed | {MemoryId(str(one.memory_id)): one.obligation_id for one in fresh}


def fire(
    engine: Engine, unit: Unit, memory_id: MemoryId, left: frozenset[Ground], *, actor: str
) -> str | None:
    """Begin the erasure that waited for a restriction to end; under a hold it goes on waiting.

    Return the intent, to be carried out once the unit commits, if there is one.
    """
    owed = obligations.erasures_owed(unit, [memory_id]).get(memory_id)
    if owed is None or owed.cause is None or not policy.may_go_by_itself(left, owed.cause):
        return None
    if holds.held_among(unit, [memory_id]):
        return None
    failpoint("obl.firing")
    basis = policy.basis_of(owed.cause)
    intent = disposal.new_intent(engine, new_id("obl_"), cause=owed.cause, basis=basis, actor=actor)
    disposal.intend(engine, unit, intent, leaving.lock_all(unit, [memory_id]))
    return intent.intent_id


def owe_what_is_deferred(engine: Engine) -> None:
    """Owe the erasure of every row that a forget deferred, where a crash came between the two."""
    with engine.store.snapshot() as connection:
        waiting = obligations.deferred_unowed(connection)
    for tenant_id, memory_id in waiting:
        with engine.unit(tenant_id) as unit:
            rows = leaving.lock_all(unit, [memory_id])
            defer(engine, unit, rows, Cause.SUBJECT_FORGET, actor=SYSTEM_ACTOR)


def owe_what_was_withdrawn(
    engine: Engine, tenant_id: TenantId, subject: Pseudonym, purpose: str, told: Container[str]
) -> None:
    """Owe what a withdrawal was to erase at once and could not, unless that is told after it already."""
    cause, basis = Cause.CONSENT_WITHDRAWN, Basis.CONSENT_WITHDRAWN
    with engine.unit(tenant_id) as unit:
        if tenants.get(unit).policies.withdrawal is not Withdrawal.ERASE_NOW:
            return
        ids = [one for one, agreed in consents.resting_on(unit, subject, purpose) if not agreed]
        rows = [row for row in leaving.lock_all(unit, ids) if row.life is Life.LIVE]
        left = [row for row in rows if row.memory_id not in told]
        intent = disposal.new_intent(engine, new_id("obl_"), cause=cause, basis=basis, actor=SYSTEM_ACTOR)
        begin(engine, unit, left, intent)


def owe(engine: Engine, unit: Unit, owed: Sequence[Obligation]) -> None:
    """Open obligations, durably also for a database put back from a backup."""
    for one in owed:
        _journal(engine, unit, one)
    obligations.put(unit, owed)


def _outrank(engine: Engine, unit: Unit, known: Sequence[Obligation]) -> None:
    """The subject's own wish is a stronger reason than the one an erasure was first owed for."""
    weaker = [
        replace(one, cause=Cause.SUBJECT_FORGET) for one in known if one.cause is not Cause.SUBJECT_FORGET
    ]
    for one in weaker:
        _journal(engine, unit, one)
    obligations.set_cause(unit, [one.obligation_id for one in weaker], Cause.SUBJECT_FORGET)


def _journal(engine: Engine, unit: Unit, owed: Obligation) -> None:
    told = {"cause": owed.cause, "purpose": owed.purpose, "due_at": owed.due_at}
    engine.journal(
        unit,
        "owed",
        [owed.obligation_id, *([owed.memory_id] if owed.memory_id is not None else [])],
        pseudonym=owed.subject,
        codes={"kind": owed.kind, **{name: value for name, value in told.items() if value is not None}},
        at=owed.requested_at,
    )
