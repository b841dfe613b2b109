"""Keys that follow one another in a log: from here on this one, until the next begins or the log ends."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, delete, func, insert, select

from ..model import TenantId
from .tables import receipts
from .unit import Unit


def begin(connection: Connection, table: Table, tenant_id: TenantId, new: Mapping[str, Any]) -> None:
    """Write down a range, in place of one that would begin where it does."""
    place = (table.c.origin == new["origin"], table.c.first_seq == new["first_seq"])
    connection.execute(delete(table).where(table.c.tenant_id == tenant_id, *place))
    connection.execute(insert(table).values(tenant_id=tenant_id, **new))


def parts(unit: Unit, table: Table) -> Iterator[tuple[RowMapping, int]]:
    """Yield the tenant's ranges by log, each with its last seq; those without a receipt are left out."""
    query = select(table).where(table.c.tenant_id == unit.tenant).order_by(table.c.origin, table.c.first_seq)
    found = unit.connection.execute(query).mappings().all()
    for origin, group in groupby(found, key=lambda row: row["origin"]):
        of_log = list(group)
        ends = [following["first_seq"] - 1 for following in of_log[1:]] + [_last(unit, origin)]
        yield from ((row, end) for row, end in zip(of_log, ends, strict=True) if end >= row["first_seq"])


def _last(unit: Unit, origin: str) -> int:
    of_log = (receipts.c.tenant_id == unit.tenant, receipts.c.origin == origin)
    last = unit.connection.execute(select(func.max(receipts.c.seq)).where(*of_log)).scalar()
    return -1 if last is None else last
