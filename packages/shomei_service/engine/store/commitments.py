"""Which key commits to a tenant's sets, in which part of its log. Keys stay as long as the tenant does."""

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from sqlalchemy import Connection, delete, func, insert, select

from ..model import TenantId
from .records import record
from .signing_tables import commitment_ranges
from .tables import receipts, tenants
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
    table = commitment_ranges
    at = (table.c.tenant_id == tenant_id, table.c.origin == new.origin, table.c.first_seq == new.first_seq)
    connection.execute(delete(table).where(*at))
    names = ("origin", "first_seq", "commit_key_id", "leaf")
    values = {name: getattr(new, name) for name in names}
    connection.execute(insert(table).values(tenant_id=tenant_id, **values))


def leaves(unit: Unit) -> dict[str, int]:
    """Return from which reserved row each key grows that the tenant has had, oldest first."""
    table = commitment_ranges
    query = select(table.c.commit_key_id, table.c.leaf).where(table.c.tenant_id == unit.tenant)
    return {row[0]: row[1] for row in unit.connection.execute(query.distinct().order_by(table.c.leaf))}


def of_logs(unit: Unit) -> list[Named]:
    """Return which receipts name which key, by log; a key that no receipt names yet is left out."""
    table = commitment_ranges
    query = select(table).where(table.c.tenant_id == unit.tenant).order_by(table.c.origin, table.c.first_seq)
    ranges = [record(KeyRange, row) for row in unit.connection.execute(query).mappings()]
    named: list[Named] = []
    for origin, group in groupby(ranges, key=attrgetter("origin")):
        parts = list(group)
        ends = [following.first_seq - 1 for following in parts[1:]] + [_last(unit, origin)]
        for part, end in zip(parts, ends, strict=True):
            if end >= part.first_seq:
                named.append(Named(part.commit_key_id, origin, part.first_seq, end))
    return named


def _last(unit: Unit, origin: str) -> int:
    of_log = (receipts.c.tenant_id == unit.tenant, receipts.c.origin == origin)
    last = unit.connection.execute(select(func.max(receipts.c.seq)).where(*of_log)).scalar()
    return -1 if last is None else last


def set_current(unit: Unit, commit_key_id: str) -> None:
    """Let the tenant's receipts name this key from here on."""
    mine = tenants.c.tenant_id == unit.tenant
    unit.connection.execute(tenants.update().where(mine).values(commit_key_id=commit_key_id))
