"""Erase one memory. SEMANTICS.md §10 (GDPR Art. 17), CUSTODY.md §4."""

from contextlib import nullcontext
from dataclasses import replace

from .. import deferral, disposal, policy, retries, whereabouts
from ..disposal import Disposed
from ..errors import NotFound
from ..model import Basis, Caller, Cause, Erased, JsonObject, MemoryId, RowFacts, Scope
from ..parts import Engine
from ..receipts.bodies import Schema
from ..store import holds, leaving, lineage, memories, restrictions
from ..store.intents import Intent
from ..store.unit import Unit
from ..whereabouts import Begun


def erase(
    engine: Engine,
    caller: Caller,
    memory_id: str,
    basis: Basis = Basis.UNSPECIFIED,
    *,
    cascade: bool = False,
) -> Erased:
    """Destroy the memory's key and return the signed proof; with `cascade`, what was derived from it too.

    Raises NotFound, also when already erased; Held under a legal hold; Blocked when the subject opposed
    erasure; CustodyUnavailable when nothing was begun; ErasurePending when it was, and will finish by itself.
    """
    caller.require(Scope.ADMIN)
    with (
        engine.audit.refusals(caller, "erase", memory_id),
        engine.flights.reserved() as intent_id,
        engine.flights.reserved() if cascade else nullcontext("") as derived_intent_id,
    ):
        intent = disposal.new_intent(
            engine, intent_id, cause=Cause.DELETE_REQUEST, basis=basis, actor=caller.actor
        )
        failure = engine.custody_failure()
        with engine.unit(caller.tenant) as unit:
            again = retries.recall(engine, unit, caller)
            # 1. Lock first: a hold must not arrive between the question and the act.
            row = memories.lock(unit, memory_id)
            begun = row.intent_id if row is not None else None
            started: Begun | None = None
            derived: list[MemoryId] = []
            if again is None and begun is None:
                # 2. Policy says no by raising; from the commit on it only rolls forward.
                row = policy.require_present(row)
                policy.require_unheld(held=bool(holds.held_among(unit, [row.memory_id])))
                policy.require_erasable(restrictions.grounds_of(unit, row.memory_id), basis)
                if cascade:
                    below = replace(intent, intent_id=derived_intent_id, cause=Cause.DERIVED_CASCADE)
                    derived = _intend_derived(engine, unit, row, below)
                disposal.intend(engine, unit, intent, [row], unless=failure)
                started = whereabouts.begun(unit, intent, [leaving.seal_of(row)])
                kept: JsonObject = {"intent": intent_id, "ids": [row.memory_id]}
                retries.keep(engine, unit, caller, kept)
        # 3. Destroy the key, with no database lock held; then retire what it protected, and say so.
        if started is not None:
            owed = [MemoryId(memory_id)]
            disposed = disposal.fulfil(engine, caller.tenant, intent_id, owed, begun=started)
            if derived:
                disposal.fulfil(engine, caller.tenant, derived_intent_id, derived)
            return _of(disposed, memory_id)
    if again is not None:
        intent_id, ids = retries.text(again["intent"]), retries.ids(again["ids"])
        return _of(disposal.fulfil(engine, caller.tenant, intent_id, ids), memory_id)
    # Somebody else began: join them, and take over if they died.
    disposed = disposal.carry_out(engine, caller.tenant, begun) if begun is not None else None
    if disposed is None:
        raise NotFound("no such memory")
    joined = _of(disposed, memory_id)
    if joined.receipt.body["schema"] == Schema.MEMORY_UPDATE:
        raise NotFound("no such memory")  # superseded, not deleted: what it said lives on under another id
    return joined


def _of(disposed: Disposed, memory_id: str) -> Erased:
    """Return the memory's proof; another worker may have given it to whoever asked there."""
    for one in disposed.erased:
        if one.memory_id == memory_id:
            return one
    raise NotFound("no such memory")


def _intend_derived(engine: Engine, unit: Unit, row: RowFacts, intent: Intent) -> list[MemoryId]:
    """Begin the erasure of what was made from the memory; held ones stay, out of recall, and are owed.

    What its subject wants kept stays too, unless the basis says otherwise, out of recall with its source.
    """
    below = [MemoryId(one) for one in lineage.closure(unit, [row.memory_id]) if one.startswith("lm_")]
    rows = [one for one in leaving.lock_all(unit, below) if policy.is_present(one)]
    held = holds.held_among(unit, [one.memory_id for one in rows])
    kept = [one for one in rows if one.memory_id in held]
    deferral.defer(engine, unit, kept, Cause.DERIVED_CASCADE, actor=intent.actor)
    going = [
        one
        for one in rows
        if one.memory_id not in held
        and policy.is_erasable(restrictions.grounds_of(unit, one.memory_id), intent.basis)
    ]
    if going:
        disposal.intend(engine, unit, intent, going)
    return [one.memory_id for one in going]
