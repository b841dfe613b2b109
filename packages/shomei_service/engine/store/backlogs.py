"""How much waits, over all tenants: what an operator watches. Counts alone, no id and no tenant."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from ..model import Life, ObligationState
from .governance_tables import obligations
from .tables import NOT_EMBEDDED, intents, memories


@dataclass(frozen=True, slots=True)
class Backlogs:
    """Rows without vectors, erasures that are durable and not finished, and obligations past their day."""

    embeddings: int
    erasures: int
    overdue: int


def count(connection: Connection, *, now: int) -> Backlogs:
    """Return what waits."""
    lacking = NOT_EMBEDDED, memories.c.life == Life.LIVE
    unembedded = select(func.count()).select_from(memories).where(*lacking)
    erasures = select(func.count()).select_from(intents)
    overdue = select(func.count()).where(
        obligations.c.state == ObligationState.OPEN, obligations.c.due_at <= now
    )
    return Backlogs(*(connection.execute(query).scalar_one() for query in (unembedded, erasures, overdue)))
