"""Which key commits to a tenant's sets, in which part of its log. Keys stay as long as the tenant does."""

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, select

from ..model import TenantId
from . import ranges
from .signing_tables import commitment_ranges
from .tables import tenants
from .unit import Unit


@dataclass(frozen=True, slots=True)
class KeyRange:
    """From here on, in this log, this key; until the next range begins, or the log ends."""

    origin: str
    first_seq: int
    commit_key_id: str
    leaf: int


@dataclass(frozen=True, slots=True)
class Named:
    """A key, and one part of a log whose receipts name it, both ends included."""

    commit_key_id: str
    origin: str
    first_seq: int
    last_seq: int


def begin(connection: Connection, tenant_id: TenantId, new: KeyRange) -> None:
    """Write down that a key is used from here on; instead of one that would begin at the same place."""
    ranges.begin(connection, commitment_ranges, tenant_id, asdict(new))


def leaves(unit: Unit) -> dict[str, int]:
    """Return from which reserved row each key grows that the tenant has had, oldest first."""
    table = commitment_ranges
    query = select(table.c.commit_key_id, table.c.leaf).where(table.c.tenant_id == unit.tenant)
    return {row[0]: row[1] for row in unit.connection.execute(query.distinct().order_by(table.c.leaf))}


def of_logs(unit: Unit) -> list[Named]:
    """Return which receipts name which key, by log; a key that no receipt names yet is left out."""
    return [
        Named(row["commit_key_id"], row["origin"], row["first_seq"], last)
        for row, last in ranges.parts(unit, commitment_ranges)
    ]


def set_current(unit: Unit, commit_key_id: str) -> None:
    """Let the tenant's receipts name this key from here on."""
    mine = tenants.c.tenant_id == unit.tenant
    unit.connection.execute(tenants.update().where(mine).values(commit_key_id=commit_key_id))
