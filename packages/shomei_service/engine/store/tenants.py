"""Tenants and the installation: who is here, and each tenant's place in its receipt log."""

import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final, cast

from sqlalchemy import Connection, bindparam, func, insert, select, update

from ..errors import NotFound
from ..model import Policies, PostForget, Tenant, TenantId, Withdrawal
from ..prepared import Prepared
from . import commitments
from .bound import TENANT
from .commitments import KeyRange
from .records import Fields, record
from .tables import installation, memories, tenants
from .unit import Unit

_GET: Final = Prepared(select(tenants).where(tenants.c.tenant_id == TENANT))
_ADVANCE: Final = Prepared(
    update(installation)
    .where(installation.c.custody_epoch < bindparam("epoch"))
    .values(custody_epoch=bindparam("epoch"))
)
_TAKE: Final = {
    name: Prepared(
        update(tenants)
        .where(tenants.c.tenant_id == TENANT)
        .values(
            next_seq=tenants.c.next_seq + bindparam("count"),
            revision=tenants.c.revision + 1,
            last_applied_at=later(tenants.c.last_applied_at, bindparam("now")),
        )
        .returning(*tenants.c)
    )
    for name, later in (("sqlite", func.max), ("postgresql", func.greatest))
}
_POLICIES: Final = 256  # read often, and changed by hand
_CODE_SETS: Final = ("purposes", "semantic_types", "location_codes", "channel_codes", "policy_versions")


def put_installation(connection: Connection, installation_id: str, *, at: int) -> None:
    """Record which installation this database belongs to; once, by init."""
    connection.execute(
        insert(installation).values(installation_id=installation_id, custody_epoch=0, created_at=at)
    )


def read_installation(connection: Connection) -> tuple[str, int] | None:
    """Return the installation id and the custody epoch the database has seen done."""
    row = connection.execute(select(installation.c.installation_id, installation.c.custody_epoch)).first()
    return (row[0], row[1]) if row else None


def advance_epoch(connection: Connection, epoch: int) -> None:
    """Record that everything up to this custody epoch is reflected here; never goes back."""
    _ADVANCE.run(connection, {"epoch": epoch})


def advance_journal(connection: Connection, number: int) -> None:
    """Record that every journal line up to this one is true here; never goes back."""
    table = installation
    connection.execute(update(table).where(table.c.journal_seq < number).values(journal_seq=number))


def journal_seen(connection: Connection, *, lock: bool = False) -> int:
    """Return the newest journal line that is true here; locked, no other unit is between line and commit."""
    query = select(installation.c.journal_seq)
    return connection.execute(query.with_for_update() if lock else query).scalar_one()


def put(connection: Connection, tenant: Tenant) -> None:
    """Store a new tenant, whose log begins with the key of its first leaf."""
    connection.execute(
        insert(tenants).values(
            {column.name: getattr(tenant, column.name) for column in tenants.c if column.name != "policies"}
            | {"policies": _written(tenant.policies)}
        )
    )
    first = KeyRange(tenant.log_origin, 0, tenant.commit_key_id, 0)
    commitments.begin(connection, tenant.tenant_id, first)


def set_policies(unit: Unit, policies: Policies) -> None:
    """Replace the tenant's policies and registered codes."""
    unit.connection.execute(
        update(tenants).where(tenants.c.tenant_id == unit.tenant).values(policies=_written(policies))
    )


def _written(policies: Policies) -> str:
    fields: dict[str, object] = asdict(policies)
    listed = {name: sorted(cast("frozenset[str]", fields[name])) for name in _CODE_SETS}
    return json.dumps(fields | listed)


@lru_cache(_POLICIES)
def _read(text: str) -> Policies:
    fields: dict[str, Any] = json.loads(text)
    sets = {name: frozenset[str](fields[name]) for name in _CODE_SETS if name in fields}
    closed = {"post_forget": PostForget, "withdrawal": Withdrawal}
    enums: dict[str, Any] = {name: kind(fields[name]) for name, kind in closed.items() if name in fields}
    fields |= sets | enums
    return Policies(**fields)


def _tenant(row: Fields, **closed: object) -> Tenant:
    return record(Tenant, row, policies=_read(row["policies"]), **closed)


def everyone(connection: Connection) -> list[Tenant]:
    """Return all tenants, oldest first."""
    return [_tenant(row) for row in connection.execute(select(tenants).order_by(tenants.c.number)).mappings()]


def get(unit: Unit) -> Tenant:
    """Return the unit's tenant. Raise NotFound if there is none."""
    for row in _GET.named(unit.connection, {"tenant": unit.tenant}):
        return _tenant(row)
    raise NotFound("there is no such tenant")


def lock(unit: Unit) -> None:
    """Hold the tenant until the unit ends, so that what is numbered after it has no gap."""
    query = select(tenants.c.tenant_id).where(tenants.c.tenant_id == unit.tenant)
    unit.connection.execute(query.with_for_update())


def take_sequence(unit: Unit, count: int, *, now: int) -> Tenant:
    """Take `count` places in the tenant's log; return the tenant as it was with `last_applied_at` set.

    `next_seq` of the answer is the first place taken, `revision` the tenant's new revision. Times
    never run backwards within a tenant (RELIABILITY.md T-14). The row stays locked until the end.
    """
    taken = {"tenant": unit.tenant, "count": count, "now": now}
    [row] = _TAKE[unit.connection.dialect.name].named(unit.connection, taken)
    return _tenant(row, next_seq=row["next_seq"] - count)


def restart_log(unit: Unit, origin: str) -> None:
    """Begin a new receipt log for the tenant at sequence 0, with the key in use. RECEIPTS.md §2."""
    key_id = get(unit).commit_key_id
    going_on = KeyRange(origin, 0, key_id, commitments.leaves(unit)[key_id])
    commitments.begin(unit.connection, unit.tenant, going_on)
    unit.connection.execute(
        update(tenants).where(tenants.c.tenant_id == unit.tenant).values(log_origin=origin, next_seq=0)
    )


def highest_address(connection: Connection, low: int, high: int) -> int | None:
    """Return the highest leaf address in use between the bounds, low included."""
    column = memories.c.address
    return connection.execute(select(func.max(column)).where(column >= low, column < high)).scalar()


def sizes(connection: Connection) -> dict[TenantId, int]:
    """Return how many memories each tenant has that has any."""
    query = select(memories.c.tenant_id, func.count()).group_by(memories.c.tenant_id)
    return {TenantId(row[0]): row[1] for row in connection.execute(query)}
