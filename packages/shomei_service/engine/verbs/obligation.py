"""Obligations: list what is owed, and cancel what its subject takes back. SEMANTICS.md §8, §21."""

from dataclasses import dataclass

from .. import limits, policy, retries, suppression
from ..errors import ErasureInProgress, Invalid, NotFound
from ..model import (
    Attested,
    Caller,
    Ground,
    Life,
    Lift,
    Obligation,
    ObligationKind,
    ObligationState,
    Scope,
)
from ..parts import Engine
from ..store import memories, obligations
from ..store.unit import Unit

_CANCELLABLE = frozenset(
    {
        ObligationKind.ERASE_ON_HOLD_RELEASE,
        ObligationKind.ERASE_ON_RESTRICTION_LIFT,
        ObligationKind.REVIEW_AFTER_CONSENT_WITHDRAWAL,
        ObligationKind.ERASE_AFTER_CONSENT_WITHDRAWAL,
    }
)


@dataclass(frozen=True, slots=True)
class ObligationPage:
    """Obligations, oldest first, and after which the next page starts."""

    obligations: list[Obligation]
    next_cursor: str | None


def page(
    engine: Engine, caller: Caller, *, cursor: str | None = None, limit: int = limits.PAGE_ROWS
) -> ObligationPage:
    """Return what is owed and how what was owed ended. Raise Invalid for a limit out of range."""
    caller.require(Scope.ADMIN)
    policy.require_count(limit, largest=limits.PAGE_ROWS)
    with engine.reading(caller.tenant) as unit:
        found = obligations.page(unit, cursor, limit + 1)
    return ObligationPage(found[:limit], found[limit - 1].obligation_id if len(found) > limit else None)


def cancel(engine: Engine, caller: Caller, obligation_id: str) -> Attested | None:
    """Cancel what is owed; a deferred erasure's memory returns to recall, with a receipt.

    Raises NotFound for an obligation that is unknown or over, Invalid for one that can not be cancelled,
    ErasureInProgress when it is being fulfilled.
    """
    caller.require(Scope.ADMIN)
    with engine.unit(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            return retries.statement(unit, again["receipt"])
        receipt = _cancel(engine, unit, caller, obligation_id)
        retries.keep(engine, unit, caller, {"receipt": receipt.receipt_hash if receipt else None})
    return receipt


def _cancel(engine: Engine, unit: Unit, caller: Caller, obligation_id: str) -> Attested | None:
    owed = obligations.lock(unit, obligation_id)
    if owed is None or owed.state is not ObligationState.OPEN:
        raise NotFound("no such obligation")
    if owed.kind not in _CANCELLABLE:
        raise Invalid("this obligation is another's to fulfil and can not be cancelled")
    row = memories.lock(unit, owed.memory_id) if owed.memory_id is not None else None
    if row is not None and row.life is Life.ERASING:
        raise ErasureInProgress("the erasure of this memory has begun; it can not be taken back any more")
    obligations.end(unit, [obligation_id], ObligationState.CANCELLED, at=engine.clock.now())
    # First of all lines, and the only one that a replay needs: it lifts what this one does not mention.
    engine.journal(unit, "obligation_cancelled", [obligation_id])
    receipt = None
    if row is not None:
        obligations.undefer(unit, row.memory_id)
        grounds = [Ground.DEFERRED_HOLD]
        receipt = suppression.lift(engine, unit, row.memory_id, grounds, Lift.LIFTED, actor=caller.actor)
    return receipt
