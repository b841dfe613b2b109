"""Update a memory: revoke and recreate. SEMANTICS.md §9 (GDPR Art. 16)."""

from dataclasses import dataclass, replace

from .. import admission, disposal, policy, retries
from ..admission import Admission
from ..custody import Punctured
from ..errors import Blocked, IntegrityFault, NotFound
from ..model import (
    Basis,
    Caller,
    Cause,
    Content,
    EdgeKind,
    JsonObject,
    Life,
    MemoryId,
    MemoryRow,
    NewMemory,
    Scope,
    Tenant,
    Updated,
)
from ..parts import Engine
from ..standing import Standing
from ..store import consents, holds, lineage, memories, restrictions, tenants
from ..store.lineage import Edge
from ..store.unit import Unit


def update(engine: Engine, caller: Caller, memory_id: str, text: str) -> Updated:
    """Erase the memory and put its successor in its place: one transition, one receipt.

    Raises NotFound; Held under a legal hold; Blocked when restricted, without consent or expired, which are
    one answer; Invalid or TooLarge for the text; ErasurePending when it has begun and will finish by itself.
    """
    caller.require(Scope.ADMIN)
    policy.require_text(text)
    # 1. Seal the successor before the transaction: it is work no other writer should wait for.
    with engine.audit.refusals(caller, "update", memory_id), engine.reading(caller.tenant) as unit:
        found = retries.recall(engine, unit, caller) or _look(engine, unit, memory_id)
    if not isinstance(found, _Predecessor):
        return _finish(engine, caller, found, text)
    content = _opened(engine, caller, found.row)
    if content is None:
        return _finish(engine, caller, _made_meanwhile(engine, caller), text)
    new = NewMemory(
        text=text,
        user_id=content.user_id,
        semantic_type=content.semantic_type,
        metadata=content.metadata,
        lawful_basis=found.row.lawful_basis,
        purposes=found.purposes,
    )
    [successor] = admission.prepare(engine, found.tenant, [new])
    with engine.audit.refusals(caller, "update", memory_id), engine.flights.reserved() as intent_id:
        intent = disposal.new_intent(
            engine,
            intent_id,
            cause=Cause.SUPERSEDED_UPDATE,
            basis=Basis.UNSPECIFIED,
            actor=caller.actor,
            successor_id=successor.row.memory_id,
        )
        failure = engine.custody_failure()
        with engine.unit(caller.tenant) as unit:
            again = retries.recall(engine, unit, caller)
            if again is None:
                # 2. Ask again under the lock, then store the successor where nobody sees it yet.
                row = _require_updatable(engine, unit, memories.lock(unit, memory_id))
                _store_pending(unit, row, successor)
                disposal.intend(engine, unit, intent, [row], unless=failure)
                successor_id = successor.row.memory_id
                begun: JsonObject = {"intent": intent_id, "ids": [row.memory_id], "successor": successor_id}
                retries.keep(engine, unit, caller, begun, about=[successor_id])
                again = begun
        # 3. Destroy the predecessor's key; tombstone, receipt and live successor come together.
        return _finish(engine, caller, again, text)


@dataclass(frozen=True, slots=True)
class _Predecessor:
    """What an update starts from."""

    row: MemoryRow
    tenant: Tenant
    purposes: tuple[str, ...]


def _look(engine: Engine, unit: Unit, memory_id: str) -> _Predecessor:
    row = _require_updatable(engine, unit, memories.find(unit, memory_id))
    return _Predecessor(row, tenants.get(unit), consents.purposes_of(unit, memory_id))


def _finish(engine: Engine, caller: Caller, kept: JsonObject, text: str) -> Updated:
    """Carry out what this call or the same one before it began, and return what it came to."""
    intent_id, ids = retries.text(kept["intent"]), retries.ids(kept["ids"])
    disposed = disposal.fulfil(engine, caller.tenant, intent_id, ids)
    return Updated(MemoryId(retries.text(kept["successor"])), ids[0], text, disposed.erased[0].receipt)


def _made_meanwhile(engine: Engine, caller: Caller) -> JsonObject:
    """Return what the same call, which was quicker, began. Raise NotFound when somebody else erased."""
    with engine.reading(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
    if again is None:
        raise NotFound("no such memory")
    return again


def _opened(engine: Engine, caller: Caller, row: MemoryRow) -> Content | None:
    """Return what the predecessor holds: its governance is carried over. Damaged bytes can not be.

    None if it was erased while it was read.
    """
    try:
        return engine.rows.recalled(caller.tenant, row).content
    except Punctured:
        return None
    except IntegrityFault:
        raise Blocked("the memory does not permit this now") from None


def _require_updatable(engine: Engine, unit: Unit, row: MemoryRow | None) -> MemoryRow:
    row = policy.require_present(row)
    policy.require_unheld(held=bool(holds.held_among(unit, [row.memory_id])))
    now = engine.clock.now()
    policy.require_updatable(
        row, now, sources_recallable=not restrictions.hidden_sources(unit, row.memory_id, now)
    )
    return row


def _store_pending(unit: Unit, row: MemoryRow, successor: Admission) -> None:
    """Carry governance over: subjects, basis, purposes, deadline and lineage."""
    sources = tuple(lineage.sources_of(unit, row.memory_id))
    pending = replace(
        successor.row,
        life=Life.PENDING,
        lawful_basis=row.lawful_basis,
        source_kind=row.source_kind,
        expires_at=row.expires_at,
        consented=row.consented,
    )
    standing = Standing(
        replace(successor.new, derived_from=sources),
        lineage.subjects_of(unit, [row.memory_id]),
        consented=row.consented,
        held=False,
    )
    admission.store(unit, [successor], [pending], [standing])
    lineage.put_edges(unit, [Edge(EdgeKind.SUPERSEDES, pending.memory_id, MemoryId(row.memory_id))])
