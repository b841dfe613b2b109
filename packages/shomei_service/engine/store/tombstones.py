"""Tombstones: the content-free rows left after disposal, and the closed set of a subject."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import func, select, update

from ..model import Cause, MemoryId, Pseudonym, Tombstone
from ..prepared import Prepared
from .bound import TENANT, WANTED, any_of, one_of, within
from .tables import memory_subjects, tombstones
from .unit import Store, Unit

_COLUMNS = [column for column in tombstones.c if column.name != "tenant_id"]
_NAMES = [column.name for column in _COLUMNS]
_values = attrgetter(*_NAMES)
_OF_MEMORY = Prepared(
    select(*_COLUMNS).where(tombstones.c.tenant_id == TENANT, tombstones.c.memory_id == WANTED)
)

_THESE = tombstones.c.tenant_id == TENANT, one_of(tombstones.c.memory_id)
_AMONG = Prepared(select(tombstones.c.memory_id).where(*_THESE))
_INTO = Prepared.into(tombstones, ["tenant_id", *_NAMES])
_NOT_PURGED = Prepared(update(tombstones).where(*_THESE).values(physically_purged=False))
_ABOUT = Prepared(
    select(*_COLUMNS)
    .join(
        memory_subjects,
        (memory_subjects.c.tenant_id == tombstones.c.tenant_id)
        & (memory_subjects.c.memory_id == tombstones.c.memory_id),
    )
    .where(tombstones.c.tenant_id == TENANT, memory_subjects.c.subject == WANTED)
    .order_by(tombstones.c.tombstone_id)
)
_COUNT_ABOUT = Prepared(
    select(func.count())
    .select_from(tombstones)
    .join(
        memory_subjects,
        (memory_subjects.c.tenant_id == tombstones.c.tenant_id)
        & (memory_subjects.c.memory_id == tombstones.c.memory_id),
    )
    .where(tombstones.c.tenant_id == TENANT, memory_subjects.c.subject == WANTED)
)


def _tombstone(row: Sequence[Any]) -> Tombstone:
    tombstone_id, memory_id, subject, erased_at, cause, receipt_hash, is_purged = row
    return Tombstone(tombstone_id, memory_id, subject, erased_at, Cause(cause), receipt_hash, is_purged)


def put(unit: Unit, stones: Sequence[Tombstone]) -> None:
    """Store new tombstones."""
    _INTO.add(unit.connection, [(unit.tenant, *_values(stone)) for stone in stones])


def of_memory(unit: Unit, memory_id: str) -> Tombstone | None:
    """Return the tombstone of an erased memory."""
    return next(map(_tombstone, _OF_MEMORY.rows(unit.connection, within(unit, memory_id))), None)


def known(unit: Unit, ids: Sequence[MemoryId]) -> set[MemoryId]:
    """Return those of the ids that were erased before."""
    return set(_AMONG.values(unit.connection, any_of(unit, ids)))


def unpurge(unit: Unit, ids: Sequence[MemoryId]) -> None:
    """Take back that no bytes of these rows are left: somebody had put them back."""
    _NOT_PURGED.run(unit.connection, any_of(unit, ids))


def about(unit: Unit, subject: Pseudonym) -> list[Tombstone]:
    """Return every tombstone about the subject, those of memories derived from the subject's included."""
    return [_tombstone(row) for row in _ABOUT.rows(unit.connection, within(unit, subject))]


def page(unit: Unit, subject: Pseudonym | None, after: str, limit: int) -> list[Tombstone]:
    """Return tombstones after an id, in the order of their ids; of one subject only if it is named."""
    query = select(*_COLUMNS).where(tombstones.c.tenant_id == unit.tenant, tombstones.c.tombstone_id > after)
    if subject is not None:
        mine = memory_subjects.c.tenant_id == unit.tenant
        about_subject = select(memory_subjects.c.memory_id).where(mine, memory_subjects.c.subject == subject)
        query = query.where(tombstones.c.memory_id.in_(about_subject))
    ordered = query.order_by(tombstones.c.tombstone_id).limit(limit)
    return [_tombstone(row) for row in unit.connection.execute(ordered)]


def count_about(unit: Unit, subject: Pseudonym) -> int:
    """Return how many memories about the subject have been erased so far."""
    [count] = _COUNT_ABOUT.values(unit.connection, within(unit, subject))
    return count


def mark_purged(store: Store, erased_before: Sequence[MemoryId]) -> None:
    """Record that no copy of these rows is left in the database's own files."""
    with store.transaction() as connection:
        for start in range(0, len(erased_before), 500):
            connection.execute(
                update(tombstones)
                .where(tombstones.c.memory_id.in_(erased_before[start : start + 500]))
                .values(physically_purged=True)
            )


def not_purged(store: Store) -> list[MemoryId]:
    """Return the memories whose tombstones do not say yet that their bytes are gone."""
    with store.snapshot() as connection:
        query = select(tombstones.c.memory_id).where(tombstones.c.physically_purged.is_(False))
        return [MemoryId(value) for value in connection.execute(query).scalars()]
