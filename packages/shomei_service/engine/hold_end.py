"""The end of a legal hold, and the erasures it was the last to forbid. SEMANTICS.md §7, §21."""

from . import disposal, policy
from .errors import ConfirmRequired, NotFound
from .failpoints import failpoint
from .model import (
    Attested,
    Basis,
    Cause,
    Ground,
    Hold,
    HoldScope,
    Life,
    MemoryId,
    Obligation,
    Release,
    RowFacts,
)
from .parts import Engine
from .receipts import bodies
from .store import holds, leaving, lineage, obligations, restrictions
from .store.unit import Unit


def let_go(
    engine: Engine, unit: Unit, hold_id: str, code: Release, intent_id: str, *, actor: str, confirm: bool
) -> tuple[Attested, list[MemoryId]]:
    """End the hold and begin, in the same unit, every erasure that nothing forbids any more.

    Return the receipt and the memories that the intent, to be carried out once the unit commits, erases.
    What a restriction forbids as well waits for its lifting.
    Raises NotFound for a hold that is unknown or over, ConfirmRequired when erasures would fire unconfirmed.
    """
    hold = holds.lock(unit, hold_id)
    if hold is None or hold.released_at is not None:
        raise NotFound("no such hold")
    covered = _covered(unit, hold)
    owed = obligations.erasures_owed(unit, [row.memory_id for row in covered])
    holds.release(unit, hold_id, code, by=actor, at=engine.clock.now())
    freed = owed.keys() - holds.held_among(unit, sorted(owed))
    going = [row for row in covered if row.memory_id in freed and _may_go(unit, row, owed[row.memory_id])]
    if going and not confirm:
        raise ConfirmRequired("releasing this hold erases memories; confirm it", pending_erasures=len(going))
    draft = bodies.legal_hold(
        hold,
        action="released",
        code=code.value,
        matter_ref_hmac=holds.matter_hmac(unit, hold_id),
        obligations_fired=len(going),
    )
    receipt = engine.attest(unit, [draft], actor=actor)[0]
    if going:  # a new hold can not slip in between: the same unit ends the old one
        failpoint("obl.firing")
        intent = disposal.new_intent(
            engine,
            intent_id,
            cause=Cause.DEFERRED_HOLD_RELEASE,
            basis=Basis.UNSPECIFIED,  # each receipt tells why its memory was owed
            actor=actor,
        )
        disposal.intend(engine, unit, intent, going)
    # Last, for a line that stands after a failure would end the hold at the next open.
    engine.journal(unit, "hold_released", [hold_id], codes={"release": code.value})
    return receipt, [row.memory_id for row in going]


def _may_go(unit: Unit, row: RowFacts, owed: Obligation) -> bool:
    grounds = restrictions.grounds_of(unit, row.memory_id) if row.grounds else frozenset[Ground]()
    return owed.cause is None or policy.may_go_by_itself(grounds, owed.cause)


def _covered(unit: Unit, hold: Hold) -> list[RowFacts]:
    if hold.scope is HoldScope.MEMORY:
        ids = [hold.memory_id] if hold.memory_id is not None else []
    else:
        ids = lineage.about(unit, hold.subject) if hold.subject is not None else []
    return [row for row in leaving.lock_all(unit, [MemoryId(one) for one in ids]) if row.life is Life.LIVE]
