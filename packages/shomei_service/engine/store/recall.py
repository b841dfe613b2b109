"""What recall follows: rows as an index needs them, what was erased, and what still lacks its vectors."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, select, tuple_, update

from ..model import Life, MemoryId, Pseudonym, Tenant
from ..prepared import Prepared
from . import tenants
from .bound import one_of
from .tables import installation, memories, receipts, tombstones
from .unit import Unit

# Every receipt whose act leaves a tombstone. SEMANTICS.md §15.
_OF_ERASURES: Final = ("shomei.vector_delete.v1", "shomei.memory_update.v1", "shomei.reerase.v1")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """How far an index has come: through the tenant's changes, and through its receipt log."""

    revision: int = 0
    origin: str = ""
    next_seq: int = 0


@dataclass(frozen=True, slots=True)
class IndexedRow:
    """As much of a row as an index needs; its content is not read."""

    memory_id: MemoryId
    address: int
    version: int
    subject: Pseudonym | None
    semantic_ref: str
    sealed_dek: bytes
    sealed_recall: bytes
    revision: int


_COLUMNS: Final = [memories.c[name] for name in IndexedRow.__slots__]
_CHANGED: Final = Prepared(
    select(*_COLUMNS)
    .where(
        memories.c.tenant_id == bindparam("tenant"),
        memories.c.life == Life.LIVE,
        tuple_(memories.c.revision, memories.c.memory_id)
        > tuple_(bindparam("revision"), bindparam("memory_id")),
    )
    .order_by(memories.c.revision, memories.c.memory_id)
    .limit(bindparam("most"))
)
_ERASED: Final = Prepared(
    select(tombstones.c.memory_id)
    .join(
        receipts,
        (receipts.c.tenant_id == tombstones.c.tenant_id)
        & (receipts.c.receipt_hash == tombstones.c.receipt_hash),
    )
    .where(
        receipts.c.tenant_id == bindparam("tenant"),
        receipts.c.origin == bindparam("origin"),
        receipts.c.seq >= bindparam("seq"),
        one_of(receipts.c.schema),
    )
)


def place_of(tenant: Tenant) -> Place:
    """Return where the tenant stood when it was read."""
    return Place(tenant.revision, tenant.log_origin, tenant.next_seq)


def newest(unit: Unit) -> Place:
    """Return where the tenant stands now. Raise NotFound if there is none."""
    return place_of(tenants.get(unit))


def changed_after(unit: Unit, revision: int, memory_id: str, most: int) -> list[IndexedRow]:
    """Return live rows stored or embedded after this one, in that order."""
    wanted = {"tenant": unit.tenant, "revision": revision, "memory_id": memory_id, "most": most}
    return [IndexedRow(*row) for row in _CHANGED.rows(unit.connection, wanted)]


def erased_since(unit: Unit, place: Place) -> list[MemoryId]:
    """Return what was erased since the tenant stood there; the log must be the same one."""
    wanted = {"tenant": unit.tenant, "origin": place.origin, "seq": place.next_seq, "several": _OF_ERASURES}
    return [MemoryId(value) for value in _ERASED.values(unit.connection, wanted)]


def embedder_id(connection: Connection) -> str | None:
    """Return whose vectors the rows hold; None when none was ever made."""
    return connection.execute(select(installation.c.embedder_id)).scalar_one()


def claim(connection: Connection, model_id: str) -> bool:
    """Say that the rows hold this model's vectors, if nobody else's; false when they are another's."""
    if embedder_id(connection) is None:
        unclaimed = installation.c.embedder_id.is_(None)
        connection.execute(update(installation).where(unclaimed).values(embedder_id=model_id))
    return embedder_id(connection) == model_id


def begin_again(connection: Connection, model_id: str) -> None:
    """Give all rows to another model: from here on none of them has its vectors."""
    connection.execute(update(installation).values(embedder_id=model_id))
    connection.execute(update(memories).where(memories.c.embedded).values(embedded=False))
