"""Who was given which slot: high-water marks that a restored database can not turn back. CUSTODY.md §3."""

from typing import Final

from sqlalchemy import Connection, bindparam, func, select

from .faults import CustodyMismatch, Exhausted
from .keytree import ROW_BITS, TENANT_BITS
from .ledger import Book, Choice
from .tables import journal, tenants
from .values import Seen

_OF: Final = Choice.of(tenants, tenants.c.tenant == bindparam("number"), changing=["next_row"])
_NEWEST: Final = select(func.coalesce(func.max(tenants.c.tenant), 0))  # 0 is the installation's own


def lease_tenant(book: Book, first_row: int) -> int:
    """Return the next unused tenant number, written down as used; raise Exhausted."""
    tenant: int = book.connection.execute(_NEWEST).scalar_one() + 1
    if tenant >= 1 << TENANT_BITS:
        raise Exhausted("every tenant number is used")
    book.add(tenants, [{"tenant": tenant, "next_row": first_row}])
    return tenant


def lease_rows(book: Book, tenant: int, count: int) -> int:
    """Return the first of so many rows that were never leased, written down as leased; raise Exhausted."""
    first = read_high_water(book.connection, tenant)
    if first + count > 1 << ROW_BITS:
        raise Exhausted("every row of this tenant is used")
    book.change(_OF, {"number": tenant}, {"next_row": first + count})
    return first


def read_high_water(connection: Connection, tenant: int) -> int:
    """Return the first row of a tenant that was never leased; raise CustodyMismatch for an unknown tenant."""
    query = select(tenants.c.next_row).where(tenants.c.tenant == tenant)
    first = connection.execute(query).scalar_one_or_none()
    if first is None:
        raise CustodyMismatch(
            "custody does not know this tenant; put the newest copy of the custody store back"
        )
    return first


def given_out(connection: Connection, epoch: int) -> Seen:
    """Return what this store has done, in the terms in which another one may be behind it."""
    newest = connection.execute(select(func.coalesce(func.max(journal.c.seq), 0))).scalar_one()
    rows = {row.tenant: row.next_row - 1 for row in connection.execute(select(tenants))}
    return Seen(epoch, newest, rows)


def is_behind(mine: Seen, seen: Seen) -> bool:
    """Say whether a store has done, leased or written down less than somebody has seen of it."""
    return (
        mine.epoch < seen.epoch
        or mine.journal_seq < seen.journal_seq
        or any(mine.rows.get(tenant, -1) < row for tenant, row in seen.rows.items())
    )
