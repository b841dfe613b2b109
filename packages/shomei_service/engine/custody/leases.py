"""Who was given which slot: high-water marks that a restored database can not turn back. CUSTODY.md §3."""

from sqlalchemy import Connection, func, insert, select, update

from .faults import CustodyMismatch, Exhausted
from .keytree import ROW_BITS, TENANT_BITS
from .tables import head, journal, tenants
from .values import Seen


def lease_tenant(connection: Connection, first_row: int) -> int:
    """Return the next unused tenant number, written down as used; raise Exhausted."""
    tenant: int = connection.execute(select(head.c.next_tenant).with_for_update()).scalar_one()
    if tenant >= 1 << TENANT_BITS:
        raise Exhausted("every tenant number is used")
    connection.execute(update(head).values(next_tenant=tenant + 1))
    connection.execute(insert(tenants).values(tenant=tenant, next_row=first_row))
    return tenant


def lease_rows(connection: Connection, tenant: int, count: int) -> int:
    """Return the first of so many rows that were never leased, written down as leased; raise Exhausted."""
    first = read_high_water(connection, tenant, lock=True)
    if first + count > 1 << ROW_BITS:
        raise Exhausted("every row of this tenant is used")
    connection.execute(update(tenants).where(tenants.c.tenant == tenant).values(next_row=first + count))
    return first


def read_high_water(connection: Connection, tenant: int, *, lock: bool = False) -> int:
    """Return the first row of a tenant that was never leased; raise CustodyMismatch for an unknown tenant."""
    query = select(tenants.c.next_row).where(tenants.c.tenant == tenant)
    first = connection.execute(query.with_for_update() if lock else query).scalar_one_or_none()
    if first is None:
        raise CustodyMismatch(
            "custody does not know this tenant; put the newest copy of the custody store back"
        )
    return first


def is_behind(connection: Connection, seen: Seen) -> bool:
    """Say whether the store has leased or written down less than the database has seen of it."""
    newest = connection.execute(select(func.coalesce(func.max(journal.c.seq), 0))).scalar_one()
    leased = {row.tenant: row.next_row for row in connection.execute(select(tenants))}
    return newest < seen.journal_seq or any(leased.get(tenant, 0) <= row for tenant, row in seen.rows.items())
