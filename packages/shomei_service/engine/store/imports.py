"""Which lines became which memories: a repeated import takes nothing twice. docs/spec/export.md §9."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import delete, insert, select

from ..model import MemoryId
from ..prepared import Prepared
from .bound import TENANT, any_of, one_of
from .governance_tables import imports
from .unit import Unit

_FIND = select(imports.c.line_key, imports.c.memory_id).where(
    imports.c.tenant_id == TENANT, one_of(imports.c.line_key)
)
_FORGET = Prepared(
    delete(imports).where(
        imports.c.tenant_id == TENANT, imports.c.has_id.is_(False), one_of(imports.c.memory_id)
    )
)


@dataclass(frozen=True, slots=True)
class Imported:
    """One line that was taken in."""

    line_key: str
    memory_id: MemoryId
    has_id: bool  # then the key tells nothing of the text, and outlives the memory
    format: str
    created_at: int | None


def find(unit: Unit, keys: Sequence[str]) -> dict[str, MemoryId]:
    """Return which of the lines were taken in, and as what."""
    return {row[0]: MemoryId(row[1]) for row in unit.connection.execute(_FIND, any_of(unit, keys))}


def put(unit: Unit, taken: Sequence[Imported]) -> None:
    """Remember lines that were taken in."""
    if taken:
        unit.connection.execute(insert(imports), [asdict(one) | {"tenant_id": unit.tenant} for one in taken])


def forget(unit: Unit, ids: Sequence[MemoryId]) -> None:
    """Drop the keys that were made of the text of memories that are erased."""
    _FORGET.run(unit.connection, any_of(unit, ids))
