"""Restrict a memory, and lift the restriction. SEMANTICS.md §6 (GDPR Art. 18)."""

from .. import deferral, disposal, policy, retries, suppression
from ..errors import Blocked
from ..model import (
    SYSTEM_GROUNDS,
    Caller,
    Ground,
    JsonObject,
    Lift,
    MemoryId,
    Restricted,
    Scope,
)
from ..parts import Engine
from ..store import memories, restrictions, tenants
from ..store.unit import Unit


def restrict(engine: Engine, caller: Caller, memory_id: str, ground: Ground = Ground.REQUEST) -> Restricted:
    """Take the memory out of recall, preserved and reversible; a ground that is open already changes nothing.

    Raises NotFound, and Invalid for a ground that only the engine may set.
    """
    caller.require(Scope.ADMIN)
    policy.require_settable(ground)
    with engine.unit(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            return _again(unit, memory_id, again)
        row = policy.require_present(memories.lock(unit, memory_id))
        receipts = suppression.apply(engine, unit, [row.memory_id], ground, actor=caller.actor)
        receipt = receipts.get(row.memory_id)
        answer = Restricted(row.memory_id, restricted=True, changed=receipt is not None, receipt=receipt)
        _keep(engine, unit, caller, answer)
    return answer


def lift(engine: Engine, caller: Caller, memory_id: str, *, notice_sent_at: int | None = None) -> Restricted:
    """Lift the grounds that callers set; the engine's own stay, and so does all of what is being forgotten.

    An erasure that only the restriction forbade follows at once.

    Raises NotFound, and Blocked when the tenant's policy wants a notice first (Art. 18(3)).
    """
    caller.require(Scope.ADMIN)
    with engine.unit(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            return _again(unit, memory_id, again)
        row = policy.require_present(memories.lock(unit, memory_id))
        known = restrictions.grounds_of(unit, row.memory_id)
        if Ground.DEFERRED_HOLD in known:
            answer = Restricted(
                row.memory_id, restricted=True, changed=False, receipt=None, code="erasure_deferred"
            )
            _keep(engine, unit, caller, answer)
            return answer
        mine = sorted(known - SYSTEM_GROUNDS)
        if mine and tenants.get(unit).policies.notice_before_lift and notice_sent_at is None:
            raise Blocked("the person must be told before a restriction is lifted; give notice_sent_at")
        receipt = suppression.lift(
            engine,
            unit,
            row.memory_id,
            mine,
            Lift.LIFTED,
            actor=caller.actor,
            notice_recorded=notice_sent_at is not None,
        )
        remaining = known & SYSTEM_GROUNDS
        intent_id = None
        if receipt is not None:
            intent_id = deferral.fire(engine, unit, row.memory_id, remaining, actor=caller.actor)
        answer = Restricted(
            row.memory_id,
            restricted=bool(remaining),
            changed=receipt is not None,
            receipt=receipt,
            code=Lift.LIFTED.value if receipt is not None else None,
        )
        _keep(engine, unit, caller, answer)
    if intent_id is not None:
        disposal.carry_out(engine, caller.tenant, intent_id)
    return answer


def _keep(engine: Engine, unit: Unit, caller: Caller, answer: Restricted) -> None:
    kept: JsonObject = {
        "restricted": answer.restricted,
        "changed": answer.changed,
        "receipt": answer.receipt.receipt_hash if answer.receipt else None,
        "code": answer.code,
    }
    retries.keep(engine, unit, caller, kept)


def _again(unit: Unit, memory_id: str, kept: JsonObject) -> Restricted:
    """Return what the same call came to."""
    code = kept["code"]
    return Restricted(
        MemoryId(memory_id),
        restricted=kept["restricted"] is True,
        changed=kept["changed"] is True,
        receipt=retries.statement(unit, kept["receipt"]),
        code=retries.text(code) if code is not None else None,
    )
