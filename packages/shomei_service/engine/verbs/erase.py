"""Erase one memory. SEMANTICS.md §10 (GDPR Art. 17), CUSTODY.md §4."""

from .. import disposal, policy
from ..errors import NotFound
from ..model import Basis, Caller, Cause, Erased, MemoryId, Scope
from ..parts import Engine
from ..store import memories


def erase(engine: Engine, caller: Caller, memory_id: str, basis: Basis = Basis.UNSPECIFIED) -> Erased:
    """Destroy the memory's key and return the signed proof of it.

    Raises NotFound, also when already erased; ErasurePending when it has begun and will finish by itself.
    """
    caller.require(Scope.ADMIN)
    with engine.flights.reserved() as intent_id:
        with engine.unit(caller.tenant) as unit:
            # 1. Lock first: nothing may change between the question and the act.
            row = memories.lock(unit, memory_id)
            begun = row.intent_id if row is not None else None
            if begun is None:
                # 2. Policy says no by raising; from the commit on it only rolls forward.
                row = policy.require_erasable(row)
                cause = Cause.DELETE_REQUEST
                disposal.intend(
                    engine, unit, [row], intent_id=intent_id, cause=cause, basis=basis, actor=caller.actor
                )
        # 3. Destroy the key, with no database lock held; then retire what it protected, and say so.
        if begun is None:
            return disposal.fulfil(engine, caller.tenant, intent_id, [MemoryId(memory_id)]).erased[0]
    # Somebody else began: join them, and take over if they died.
    disposed = disposal.carry_out(engine, caller.tenant, begun)
    for proof in disposed.erased if disposed else []:
        if proof.memory_id == memory_id:
            return proof
    raise NotFound("no such memory")
