"""Erase one memory. SEMANTICS.md §10 (GDPR Art. 17), CUSTODY.md §4."""

from .. import disposal, policy
from ..errors import NotFound
from ..model import Basis, Caller, Cause, Erased, Life, Scope
from ..parts import Engine
from ..store import memories


def erase(engine: Engine, caller: Caller, memory_id: str, basis: Basis = Basis.UNSPECIFIED) -> Erased:
    """Destroy the memory's key and return the signed proof of it.

    Raises NotFound, also when already erased; ErasurePending when it has begun and will finish by itself.
    """
    caller.require(Scope.ADMIN)
    with engine.unit(caller.tenant) as unit:
        # 1. Lock first: nothing may change between the question and the act.
        row = memories.lock(unit, memory_id)
        if row is not None and row.life is Life.ERASING and row.intent_id is not None:
            intent_id = row.intent_id  # 2a. Somebody began: join, and take over if they died.
        else:
            # 2b. Policy says no by raising; from the commit on it only rolls forward.
            row = policy.require_erasable(row)
            intent_id = disposal.intend(
                engine, unit, [row], cause=Cause.DELETE_REQUEST, basis=basis, actor=caller.actor
            ).intent_id
    # 3. Destroy the key, with no database lock held; then retire what it protected, and say so.
    disposed = disposal.carry_out(engine, caller.tenant, intent_id)
    proof = (
        next((erased for erased in disposed.erased if erased.memory_id == memory_id), None)
        if disposed
        else None
    )
    if proof is None:
        raise NotFound("no such memory")
    return proof
