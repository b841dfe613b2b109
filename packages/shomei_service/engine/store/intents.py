"""Intents: erasures that are durable and not finished. What stands here only rolls forward."""

from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, delete, insert, select

from ..model import Basis, Cause, MemoryId, TenantId
from .bound import TENANT, WANTED, within
from .records import record
from .tables import intents
from .unit import Unit


@dataclass(frozen=True, slots=True)
class Intent:
    """One erasure under way; an update's intent names the successor that its completion makes live."""

    intent_id: str
    cause: Cause
    basis: Basis
    actor: str
    created_at: int
    successor_id: MemoryId | None = None


_GET = select(intents).where(intents.c.tenant_id == TENANT, intents.c.intent_id == WANTED)
_LOCK = _GET.with_for_update()
_FINISH = delete(intents).where(intents.c.tenant_id == TENANT, intents.c.intent_id == WANTED)


def _intent(row: RowMapping) -> Intent:
    return record(Intent, row, cause=Cause(row["cause"]), basis=Basis(row["basis"]))


def put(unit: Unit, intent: Intent) -> None:
    """Store a new intent."""
    values = {column.name: getattr(intent, column.name) for column in intents.c if column.name != "tenant_id"}
    unit.connection.execute(insert(intents), values | {"tenant_id": unit.tenant})


def get(unit: Unit, intent_id: str) -> Intent | None:
    """Return the intent as it stands; None once it is done."""
    row = unit.connection.execute(_GET, within(unit, intent_id)).mappings().first()
    return _intent(row) if row else None


def lock(unit: Unit, intent_id: str) -> Intent | None:
    """Return the intent locked until the unit ends, so that one worker at a time completes it."""
    row = unit.connection.execute(_LOCK, within(unit, intent_id)).mappings().first()
    return _intent(row) if row else None


def finish(unit: Unit, intent_id: str) -> None:
    """Remove a finished intent."""
    unit.connection.execute(_FINISH, within(unit, intent_id))


def unfinished(connection: Connection) -> list[tuple[TenantId, str]]:
    """Return every tenant's unfinished intents, oldest first."""
    query = select(intents.c.tenant_id, intents.c.intent_id).order_by(
        intents.c.created_at, intents.c.intent_id
    )
    return [(TenantId(row[0]), row[1]) for row in connection.execute(query)]
