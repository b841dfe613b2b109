"""Events: a content-free table that later deliveries read. SEMANTICS.md §16."""

import json
from collections.abc import Sequence

from sqlalchemy import func, insert, select

from ..model import EventKind, Pseudonym
from .governance_tables import events
from .unit import Unit


def append(
    unit: Unit, kind: EventKind, ids: Sequence[str], *, at: int, pseudonym: Pseudonym | None = None
) -> None:
    """Write an event down: opaque ids and a pseudonym, nothing else."""
    newest = select(func.coalesce(func.max(events.c.number), 0)).where(events.c.tenant_id == unit.tenant)
    number = unit.connection.execute(newest).scalar_one() + 1
    unit.connection.execute(
        insert(events).values(
            tenant_id=unit.tenant,
            number=number,
            kind=kind,
            ids=json.dumps(list(ids)),
            pseudonym=pseudonym,
            at=at,
        )
    )


def after(unit: Unit, number: int, limit: int) -> list[tuple[int, EventKind, list[str]]]:
    """Return later events in order: number, kind and ids."""
    query = (
        select(events.c.number, events.c.kind, events.c.ids)
        .where(events.c.tenant_id == unit.tenant, events.c.number > number)
        .order_by(events.c.number)
        .limit(limit)
    )
    return [(row[0], EventKind(row[1]), json.loads(row[2])) for row in unit.connection.execute(query)]
