"""Which key signs which part of a tenant's receipt log, and how far rotations have been stated."""

from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from ..model import TenantId
from ..prepared import Prepared
from . import ranges
from .signing_tables import signing_ranges, stated_rotations
from .tables import tenants as tenants_table
from .unit import Unit

_LATEST: Final = Prepared(
    select(signing_ranges.c.signer_id)
    .where(signing_ranges.c.tenant_id == bindparam("tenant"), signing_ranges.c.origin == bindparam("log"))
    .order_by(signing_ranges.c.first_seq.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Range:
    """From here on, in this log, this key signs; until the next range begins, or the log ends."""

    origin: str
    first_seq: int
    signer_id: str
    public_key_hex: str


@dataclass(frozen=True, slots=True)
class Retired:
    """A key that signs no more, and one part of a log that it signed, both ends included."""

    signer_id: str
    public_key_hex: str
    origin: str
    first_seq: int
    last_seq: int


def latest(unit: Unit, origin: str) -> str | None:
    """Return the id of the key a log is signed with now; None for a log without a signed receipt."""
    return next(iter(_LATEST.values(unit.connection, {"tenant": unit.tenant, "log": origin})), None)


def begin(unit: Unit, new: Range) -> None:
    """Write down that a key signs from here on; once, whoever says it again."""
    ranges.begin(unit.connection, signing_ranges, unit.tenant, asdict(new))


def not_at(connection: Connection, signer_id: str) -> list[TenantId]:
    """Return the tenants whose present log is signed by another key than this."""
    table, tenants = signing_ranges, tenants_table
    newest = (
        select(table.c.tenant_id, table.c.origin, func.max(table.c.first_seq).label("first_seq"))
        .group_by(table.c.tenant_id, table.c.origin)
        .subquery()
    )
    query = (
        select(table.c.tenant_id)
        .join(tenants, (tenants.c.tenant_id == table.c.tenant_id) & (tenants.c.log_origin == table.c.origin))
        .join(
            newest,
            (newest.c.tenant_id == table.c.tenant_id)
            & (newest.c.origin == table.c.origin)
            & (newest.c.first_seq == table.c.first_seq),
        )
        .where(table.c.signer_id != signer_id)
        .order_by(tenants.c.number)
    )
    return [TenantId(one) for one in connection.execute(query).scalars()]


def retired(unit: Unit, current_id: str) -> list[Retired]:
    """Return what every other key than the current one signed, in the order of the logs."""
    return [
        Retired(row["signer_id"], row["public_key_hex"], row["origin"], row["first_seq"], last)
        for row, last in ranges.parts(unit, signing_ranges)
        if row["signer_id"] != current_id
    ]


def stated(unit: Unit) -> int:
    """Return the newest custody epoch whose rotation the tenant has a receipt of; 0 for none."""
    query = select(stated_rotations.c.epoch).where(stated_rotations.c.tenant_id == unit.tenant)
    return unit.connection.execute(query).scalar() or 0


def least_stated(connection: Connection) -> int:
    """Return the epoch up to which every tenant has its receipts of rotations."""
    table, tenants = stated_rotations, tenants_table
    query = select(func.min(func.coalesce(table.c.epoch, 0))).select_from(
        tenants.outerjoin(table, table.c.tenant_id == tenants.c.tenant_id)
    )
    return connection.execute(query).scalar() or 0


def set_stated(unit: Unit, epoch: int) -> None:
    """Write down up to which epoch the tenant has its receipts."""
    table = stated_rotations
    unit.connection.execute(delete(table).where(table.c.tenant_id == unit.tenant))
    unit.connection.execute(insert(table).values(tenant_id=unit.tenant, epoch=epoch))
