"""Who does what among several server processes: leases, which end by themselves. CUSTODY.md §4.

A lease saves work and never guards a rule: whatever two processes do at once is decided by row locks and by
custody's epochs. No advisory locks, so that any engine that speaks PostgreSQL will do.
"""

from typing import Final

from sqlalchemy import BigInteger, ColumnElement, Connection, cast, delete, func, literal, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from .tables import leases

_OLD_S: Final = 3_600
LEASE_S: Final = 10  # with upkeep's second and its work, another takes over within 15 s: RELIABILITY T-20


def take(connection: Connection, name: str, holder: str, *, now: int) -> bool:
    """Take or renew a lease; False while somebody else has it."""
    time = _time(connection, now)
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    fresh = dialect.insert(leases).values(name=name, holder=holder, until=time + LEASE_S)
    is_free = or_(leases.c.holder == holder, _is_over(time))
    renewed = fresh.on_conflict_do_update(
        index_elements=[leases.c.name], set_={"holder": holder, "until": time + LEASE_S}, where=is_free
    )
    return connection.execute(renewed.returning(leases.c.name)).first() is not None


def give_up(connection: Connection, name: str) -> None:
    """End a lease; whose it was does not matter, the work is done."""
    connection.execute(delete(leases).where(leases.c.name == name))


def drop_old(connection: Connection, *, now: int) -> None:
    """Drop leases that nobody ended: their holders died, or came too late to do anything."""
    connection.execute(delete(leases).where(leases.c.until < _time(connection, now) - _OLD_S))


def of_others(connection: Connection, holder: str, *, now: int) -> frozenset[str]:
    """Return the names of the leases that somebody else has now."""
    others = select(leases.c.name).where(leases.c.holder != holder, ~_is_over(_time(connection, now)))
    return frozenset(connection.execute(others).scalars())


def _is_over(time: ColumnElement[int]) -> ColumnElement[bool]:
    # Ahead of what a lease can be: the clock went back, and nobody waits for it. RELIABILITY T-14.
    return or_(leases.c.until <= time, leases.c.until > time + LEASE_S)


def _time(connection: Connection, now: int) -> ColumnElement[int]:
    """Return the server's own time, by which all processes go, however their clocks differ; else ours."""
    if connection.dialect.name == "sqlite":
        return literal(now, BigInteger)
    return cast(func.floor(func.extract("epoch", func.clock_timestamp())), BigInteger)
