"""Intents: erasures that are durable and not finished. What stands here only rolls forward."""

from dataclasses import dataclass, fields

from sqlalchemy import Connection, delete, select

from ..model import Basis, Cause, MemoryId, TenantId
from ..prepared import Prepared
from .bound import TENANT, WANTED, within
from .records import Fields, record
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


_THIS = intents.c.tenant_id == TENANT, intents.c.intent_id == WANTED
_NAMES = [field.name for field in fields(Intent)]
_FOUND = select(*(intents.c[name] for name in _NAMES)).where(*_THIS)
_GET = Prepared(_FOUND)
_LOCK = Prepared(_FOUND.with_for_update())
_FINISH = Prepared(delete(intents).where(*_THIS))
_INTO = Prepared.into(intents)


def _intent(row: Fields) -> Intent:
    return record(Intent, row, cause=Cause(row["cause"]), basis=Basis(row["basis"]))


def put(unit: Unit, intent: Intent) -> None:
    """Store a new intent."""
    values = {name: getattr(intent, name) for name in _NAMES}
    _INTO.run(unit.connection, values | {"tenant_id": unit.tenant})


def get(unit: Unit, intent_id: str) -> Intent | None:
    """Return the intent as it stands; None once it is done."""
    return next(map(_intent, _GET.named(unit.connection, within(unit, intent_id))), None)


def lock(unit: Unit, intent_id: str) -> Intent | None:
    """Return the intent locked until the unit ends, so that one worker at a time completes it."""
    return next(map(_intent, _LOCK.named(unit.connection, within(unit, intent_id))), None)


def finish(unit: Unit, intent_id: str) -> None:
    """Remove a finished intent."""
    _FINISH.run(unit.connection, within(unit, intent_id))


def unfinished(connection: Connection) -> list[tuple[TenantId, str]]:
    """Return every tenant's unfinished intents, oldest first."""
    query = select(intents.c.tenant_id, intents.c.intent_id).order_by(
        intents.c.created_at, intents.c.intent_id
    )
    return [(TenantId(row[0]), row[1]) for row in connection.execute(query)]
