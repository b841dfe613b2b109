"""Rows of memories: sealed content beside content-free columns."""

from collections.abc import Sequence

from sqlalchemy import (
    Connection,
    Select,
    func,
    select,
    update,
)

from ..model import (
    ERASURES_OWED,
    LawfulBasis,
    Life,
    MemoryId,
    MemoryRow,
    ObligationState,
    Pseudonym,
    SourceKind,
    TenantId,
)
from ..prepared import Prepared
from .bound import TENANT, WANTED, any_of, one_of, within
from .governance_tables import obligations
from .records import Fields, record
from .tables import NOT_EMBEDDED, memories
from .unit import Unit

_ADDRESSES_AT_ONCE = 500  # bound parameters in one statement; SQLite's old default allows 999
_COLUMNS = [
    memories.c.memory_id,
    memories.c.address,
    memories.c.version,
    memories.c.life,
    memories.c.subject,
    memories.c.created_at,
    memories.c.sealed_dek,
    memories.c.sealed_content,
    memories.c.sealed_recall,
    memories.c.embedded,
    memories.c.intent_id,
    memories.c.lawful_basis,
    memories.c.source_kind,
    memories.c.expires_at,
    memories.c.grounds,
    memories.c.consented,
]

_MINE = memories.c.tenant_id == TENANT
_FOUND = select(*_COLUMNS).where(_MINE, memories.c.memory_id == WANTED)
_FIND = Prepared(_FOUND)
_LOCK = Prepared(_FOUND.with_for_update())
_LIVE = Prepared(select(*_COLUMNS).where(_MINE, one_of(memories.c.memory_id), memories.c.life == Life.LIVE))
_INTO = Prepared.into(
    memories, [column.name for column in _COLUMNS] + ["tenant_id", "semantic_ref", "revision"]
)


_UNREADABLE = 0  # a version that no row is ever sealed as, so nothing opens it


def _row(row: Fields) -> MemoryRow:
    try:
        return record(
            MemoryRow,
            row,
            life=Life(row["life"]),
            lawful_basis=LawfulBasis(row["lawful_basis"]),
            source_kind=SourceKind(row["source_kind"]),
        )
    except ValueError:
        # Damage to one row is no reason to answer for none: it is there, can be erased, and never opens.
        lawful_basis, source_kind = LawfulBasis.NOT_RECORDED, SourceKind.PROVIDED
        life = Life(row["life"]) if row["life"] in set(Life) else Life.LIVE
        closed = {"life": life, "lawful_basis": lawful_basis, "source_kind": source_kind}
        return record(MemoryRow, row, **closed, version=_UNREADABLE)


def put(unit: Unit, rows: Sequence[MemoryRow], *, semantic_refs: Sequence[str], revision: int) -> None:
    """Store new rows under one revision."""
    _INTO.run_all(
        unit.connection,
        [
            {column.name: getattr(row, column.name) for column in _COLUMNS}
            | {"tenant_id": unit.tenant, "semantic_ref": semantic_ref, "revision": revision}
            for row, semantic_ref in zip(rows, semantic_refs, strict=True)
        ],
    )


def find(unit: Unit, memory_id: str) -> MemoryRow | None:
    """Return the row, whatever its life; None when there is none in this tenant."""
    return next(map(_row, _FIND.named(unit.connection, within(unit, memory_id))), None)


def lock(unit: Unit, memory_id: str) -> MemoryRow | None:
    """Return the row locked until the unit ends (SQLite's unit already excludes other writers)."""
    return next(map(_row, _LOCK.named(unit.connection, within(unit, memory_id))), None)


def live(unit: Unit, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryRow]:
    """Return those of the ids that are live, by id."""
    found = _LIVE.named(unit.connection, any_of(unit, ids))
    return {row["memory_id"]: _row(row) for row in found}


def with_life(unit: Unit, ids: Sequence[MemoryId], *lives: Life) -> list[MemoryId]:
    """Return those of the ids that are at one of these points of their life."""
    query = select(memories.c.memory_id).where(
        _MINE, one_of(memories.c.memory_id), memories.c.life.in_(lives)
    )
    return [MemoryId(value) for value in unit.connection.execute(query, any_of(unit, ids)).scalars()]


def activate(unit: Unit, memory_id: MemoryId, *, revision: int) -> None:
    """Make the successor of an update live."""
    unit.connection.execute(
        update(memories)
        .where(memories.c.tenant_id == unit.tenant, memories.c.memory_id == memory_id)
        .values(life=Life.LIVE, revision=revision)
    )


def page(
    unit: Unit, *, subject: Pseudonym | None, after: int, limit: int, hidden: Select[str]
) -> list[MemoryRow]:
    """Return recallable rows in the order they were admitted, those of one subject only if it is named."""
    query = (
        select(*_COLUMNS)
        .where(memories.c.tenant_id == unit.tenant, memories.c.life == Life.LIVE, memories.c.address > after)
        .where(memories.c.memory_id.not_in(hidden))
    )
    if subject is not None:
        query = query.where(memories.c.subject == subject)
    ordered = query.order_by(memories.c.address).limit(limit)
    return [_row(row) for row in unit.connection.execute(ordered).mappings()]


def expired(
    connection: Connection, now: int, limit: int, *, keeping: Sequence[TenantId]
) -> list[tuple[TenantId, MemoryId]]:
    """Return live rows whose time is over and whose erasure is not owed yet, but for tenants who keep."""
    owed = select(obligations.c.memory_id).where(
        obligations.c.tenant_id == memories.c.tenant_id,
        obligations.c.memory_id == memories.c.memory_id,
        obligations.c.state == ObligationState.OPEN,
        obligations.c.kind.in_(ERASURES_OWED),
    )
    query = (
        select(memories.c.tenant_id, memories.c.memory_id)
        .where(
            memories.c.expires_at.is_not(None),
            memories.c.expires_at <= now,
            memories.c.life == Life.LIVE,
            memories.c.tenant_id.not_in(keeping),
            ~owed.exists(),
        )
        .order_by(memories.c.address)
        .limit(limit)
    )
    return [(TenantId(row[0]), MemoryId(row[1])) for row in connection.execute(query)]


def changed_after(unit: Unit, revision: int) -> list[tuple[int, MemoryRow]]:
    """Return live rows stored or embedded after the revision, each with its own revision."""
    query = select(memories.c.revision, *_COLUMNS).where(
        memories.c.tenant_id == unit.tenant, memories.c.revision > revision, memories.c.life == Life.LIVE
    )
    return [(row["revision"], _row(row)) for row in unit.connection.execute(query).mappings()]


def not_embedded(connection: Connection, limit: int, *, after: int) -> list[tuple[TenantId, MemoryRow]]:
    """Return live rows of any tenant behind an address that still lack their vectors, oldest first."""
    query = (
        select(memories.c.tenant_id, *_COLUMNS)
        .where(NOT_EMBEDDED, memories.c.life == Life.LIVE, memories.c.address > after)
        .order_by(memories.c.address)
        .limit(limit)
    )
    return [(TenantId(row["tenant_id"]), _row(row)) for row in connection.execute(query).mappings()]


def count_not_embedded(connection: Connection, *, but: Sequence[str]) -> int:
    """Return how many live rows still lack their vectors, leaving out those with these ids."""
    lacking = NOT_EMBEDDED, memories.c.life == Life.LIVE
    query = select(func.count()).select_from(memories).where(*lacking, ~one_of(memories.c.memory_id))
    return connection.execute(query, {"several": but}).scalar_one()


def put_recall(unit: Unit, row: MemoryRow, sealed_recall: bytes, *, revision: int) -> bool:
    """Replace the row's sealed recall column; False if it was erased or changed meanwhile."""
    done = unit.connection.execute(
        update(memories)
        .where(
            memories.c.tenant_id == unit.tenant,
            memories.c.memory_id == row.memory_id,
            memories.c.life == Life.LIVE,
            memories.c.version == row.version,
        )
        .values(sealed_recall=sealed_recall, embedded=True, revision=revision)
    )
    return done.rowcount == 1


def at_addresses(connection: Connection, addresses: Sequence[int]) -> list[tuple[TenantId, MemoryRow]]:
    """Return rows of any tenant by leaf address; recovery asks, before the port opens."""
    found: list[tuple[TenantId, MemoryRow]] = []
    for start in range(0, len(addresses), _ADDRESSES_AT_ONCE):
        query = select(memories.c.tenant_id, *_COLUMNS).where(
            memories.c.address.in_(addresses[start : start + _ADDRESSES_AT_ONCE])
        )
        for row in connection.execute(query).mappings():
            tenant = TenantId(row["tenant_id"])
            found.append((tenant, _row(row)))
    return found
