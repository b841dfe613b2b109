"""Open grounds of restriction, and which memories recall passes over. SEMANTICS.md §3, §6."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    Select,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    union_all,
    update,
)

from ..model import EdgeKind, Ground, Life, MemoryId
from ..prepared import Prepared
from .bound import TENANT, WANTED, any_of, one_of, within
from .governance_tables import artifacts, edges, grounds
from .tables import memories
from .unit import Unit

_MINE = grounds.c.tenant_id == TENANT
_GROUNDS = Prepared(select(grounds.c.code).where(_MINE, grounds.c.memory_id == WANTED))
_DROP = Prepared(delete(grounds).where(_MINE, one_of(grounds.c.memory_id)))


def grounds_of(unit: Unit, memory_id: str) -> frozenset[Ground]:
    """Return the memory's open grounds."""
    found = _GROUNDS.values(unit.connection, within(unit, memory_id))
    return frozenset(Ground(code) for code in found)


def open_ground(unit: Unit, memory_id: MemoryId, ground: Ground, *, at: int) -> None:
    """Open a ground that is not open yet."""
    unit.connection.execute(
        insert(grounds).values(tenant_id=unit.tenant, memory_id=memory_id, code=ground, opened_at=at)
    )
    _count(unit, memory_id)


def lift(unit: Unit, memory_id: MemoryId, lifted: Sequence[Ground]) -> None:
    """Close open grounds."""
    unit.connection.execute(
        delete(grounds).where(
            grounds.c.tenant_id == unit.tenant, grounds.c.memory_id == memory_id, grounds.c.code.in_(lifted)
        )
    )
    _count(unit, memory_id)


def drop(unit: Unit, ids: Sequence[MemoryId]) -> None:
    """Forget the grounds of memories that are erased."""
    _DROP.run(unit.connection, any_of(unit, ids))


def _count(unit: Unit, memory_id: MemoryId) -> None:
    open_now = (
        select(func.count())
        .where(grounds.c.tenant_id == unit.tenant, grounds.c.memory_id == memory_id)
        .scalar_subquery()
    )
    unit.connection.execute(
        update(memories)
        .where(memories.c.tenant_id == unit.tenant, memories.c.memory_id == memory_id)
        .values(grounds=open_now)
    )


def _out_of_recall(tenant: object, now: object) -> Select[str]:
    """Everything out of recall: by its own facts, then whatever was derived from it, transitively."""
    # As wide as an edge's ids, which the recursion joins it with: PostgreSQL wants one type.
    mine = select(cast(memories.c.memory_id, edges.c.source_id.type).label("id")).where(
        memories.c.tenant_id == tenant
    )
    # One SELECT for each partial index of tables.memories.
    own = union_all(
        mine.where(text("grounds > 0")),
        mine.where(text("NOT consented")),
        mine.where(memories.c.expires_at.is_not(None), memories.c.expires_at <= now),
        mine.where(text("life <> 'live'")),
    ).subquery()
    hidden = select(own.c.id).cte("hidden", recursive=True)
    below = hidden.union(
        select(edges.c.derived_id)
        .join(hidden, edges.c.source_id == hidden.c.id)
        .where(edges.c.tenant_id == tenant, edges.c.kind == EdgeKind.DERIVED_FROM)
    )
    return select(below.c.id)


_HIDDEN: Final = Prepared(_out_of_recall(TENANT, bindparam("now", type_=BigInteger())))


def hidden(unit: Unit, now: int) -> frozenset[MemoryId]:
    """Return the ids, artifacts included, that recall must pass over now."""
    found = _HIDDEN.values(unit.connection, {"tenant": unit.tenant, "now": now})
    return frozenset(map(MemoryId, found))


def out_of_recall(unit: Unit, now: int) -> Select[str]:
    """Return a query of the ids that recall must pass over, for use inside another query."""
    return _out_of_recall(unit.tenant, now)


def hidden_sources(unit: Unit, derived_id: str, now: int) -> bool:
    """Say whether anything a memory or artifact was derived from, transitively, is out of recall."""
    above = (
        select(edges.c.source_id)
        .where(
            edges.c.tenant_id == unit.tenant,
            edges.c.kind == EdgeKind.DERIVED_FROM,
            edges.c.derived_id == derived_id,
        )
        .cte("above", recursive=True)
    )
    above = above.union(
        select(edges.c.source_id)
        .join(above, edges.c.derived_id == above.c.source_id)
        .where(edges.c.tenant_id == unit.tenant, edges.c.kind == EdgeKind.DERIVED_FROM)
    )
    in_recall = (
        select(literal(1))
        .where(
            memories.c.tenant_id == unit.tenant,
            memories.c.memory_id == above.c.source_id,
            memories.c.life == Life.LIVE,
            memories.c.grounds == 0,
            memories.c.consented,
            memories.c.expires_at.is_(None) | (memories.c.expires_at > now),
        )
        .exists()
    )
    in_use = (
        select(literal(1))
        .where(
            artifacts.c.tenant_id == unit.tenant,
            artifacts.c.artifact_id == above.c.source_id,
            artifacts.c.erasure_requested_at.is_(None),
        )
        .exists()
    )
    hidden = select(above.c.source_id).where(~in_recall, ~in_use).limit(1)
    return unit.connection.execute(hidden).first() is not None
