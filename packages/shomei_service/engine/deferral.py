"""An erasure that a hold forbids for now: out of recall, and owed until then. SEMANTICS.md §7-§8."""

from collections.abc import Sequence

from . import suppression
from .model import (
    Attested,
    Cause,
    Ground,
    MemoryId,
    MemoryRow,
    Obligation,
    ObligationKind,
    ObligationState,
    new_id,
)
from .parts import Engine
from .store import obligations
from .store.unit import Unit

ANSWER_WITHIN_S = 30 * 86_400  # one month, Art. 12(3)


def defer(
    engine: Engine,
    unit: Unit,
    rows: Sequence[MemoryRow],
    cause: Cause,
    *,
    actor: str,
    ground: Ground | None = Ground.DEFERRED_HOLD,
    kind: ObligationKind = ObligationKind.ERASE_ON_HOLD_RELEASE,
) -> tuple[dict[MemoryId, Attested], dict[MemoryId, str]]:
    """Owe the erasure of rows, once each, and take them out of recall.

    Return the receipts of the restrictions that are new and the obligation of every row.
    """
    ids = [row.memory_id for row in rows]
    receipts = suppression.apply(engine, unit, ids, ground, actor=actor) if ground and ids else {}
    owed = {
        memory_id: one.obligation_id for memory_id, one in obligations.open_for(unit, ids, [kind]).items()
    }
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
    for one in fresh:
        engine.journal(
            unit,
            "owed",
            [one.obligation_id, str(one.memory_id)],
            pseudonym=one.subject,
            codes={"kind": kind.value, "cause": cause.value, "due_at": now + ANSWER_WITHIN_S},
        )
    obligations.put(unit, fresh)
    return receipts, owed | {MemoryId(str(one.memory_id)): one.obligation_id for one in fresh}
