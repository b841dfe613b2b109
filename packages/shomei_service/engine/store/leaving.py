"""Rows of memories on their way out: what erasing needs to know of them, marked and deleted here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from sqlalchemy import bindparam, delete, select, update

from ..model import Life, MemoryId, RowFacts, SealedFacts
from ..prepared import Prepared
from .bound import TENANT, WANTED, any_of, one_of, within
from .tables import memories
from .unit import Unit

_Facts = TypeVar("_Facts", bound=RowFacts)

_LIVES = {life.value: life for life in Life}
_FACTS = [field.name for field in fields(RowFacts)]
_SEALED = [field.name for field in fields(SealedFacts)]
_MINE = memories.c.tenant_id == TENANT
_LOCK_ALL = Prepared(
    select(*(memories.c[name] for name in _SEALED))
    .where(_MINE, one_of(memories.c.memory_id))
    .with_for_update()
)
_OF_INTENT = Prepared(
    select(*(memories.c[name] for name in _FACTS))
    .where(_MINE, memories.c.intent_id == WANTED)
    .order_by(memories.c.address)
    .limit(bindparam("most"))
)
_SEALS = Prepared(
    select(memories.c.memory_id, memories.c.address, memories.c.version, memories.c.sealed_dek)
    .where(_MINE, memories.c.intent_id == WANTED)
    .order_by(memories.c.address)
)
_MARK = Prepared(
    update(memories)
    .where(_MINE, one_of(memories.c.memory_id))
    .values(life=Life.ERASING, intent_id=bindparam("intent"))
)
_REMOVE = Prepared(delete(memories).where(_MINE, one_of(memories.c.memory_id)))


def _read(kind: type[_Facts], names: Sequence[str], row: Sequence[Any]) -> _Facts:
    told: dict[str, Any] = dict(zip(names, row, strict=True))
    told["life"] = _LIVES.get(told["life"], Life.LIVE)  # a damaged word keeps nobody from erasing the row
    return kind(**told)


def lock_all(unit: Unit, ids: Sequence[MemoryId]) -> list[SealedFacts]:
    """Return what erasing needs of the rows with these ids, locked, in the order they were admitted."""
    found = [_read(SealedFacts, _SEALED, row) for row in _LOCK_ALL.rows(unit.connection, any_of(unit, ids))]
    return sorted(found, key=lambda row: row.address)


def of_intent(unit: Unit, intent_id: str, limit: int) -> list[RowFacts]:
    """Return what is clear of rows that the intent is erasing, in the order they were admitted."""
    wanted = within(unit, intent_id) | {"most": limit}
    return [_read(RowFacts, _FACTS, row) for row in _OF_INTENT.rows(unit.connection, wanted)]


@dataclass(frozen=True, slots=True)
class Seal:
    """Which leaf a row says its DEK is sealed under, and the sealed DEK."""

    memory_id: MemoryId
    address: int
    version: int
    sealed_dek: bytes


def seal_of(row: SealedFacts) -> Seal:
    """Return the seal of a row that was read."""
    return Seal(row.memory_id, row.address, row.version, row.sealed_dek)


def seals_of_intent(unit: Unit, intent_id: str) -> list[Seal]:
    """Return the seals of the rows that the intent is erasing, in the order they were admitted."""
    return [Seal(*row) for row in _SEALS.rows(unit.connection, within(unit, intent_id))]


def mark_erasing(unit: Unit, ids: Sequence[MemoryId], intent_id: str) -> None:
    """Take live rows out of recall for good; the first durable step of an erase."""
    _MARK.run(unit.connection, any_of(unit, ids) | {"intent": intent_id})


def remove(unit: Unit, ids: Sequence[MemoryId]) -> None:
    """Delete rows, sealed columns and all."""
    _REMOVE.run(unit.connection, any_of(unit, ids))
