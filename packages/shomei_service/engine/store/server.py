"""A PostgreSQL server, or an engine that speaks its protocol, such that no call waits for it without end."""

from typing import Any, Final

from sqlalchemy import URL, Engine, create_engine, event

from ..errors import StartRefused

POOL: Final = 10
_PATIENCE_S: Final = 5
# A lock that a stopped process holds, and that process's transaction, end by themselves.
WAITS: Final = {"lock_timeout": 5, "statement_timeout": 30, "idle_in_transaction_session_timeout": 60}
_SYNCS: Final = ("fsync", "full_page_writes", "synchronous_commit")


def connect(url: URL, pool: int) -> Engine:
    """Return an engine of so many connections at most; whoever waits longer than seconds is refused."""
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_pre_ping=True,
        pool_size=pool,
        max_overflow=0,
        pool_timeout=_PATIENCE_S,
        connect_args={"connect_timeout": _PATIENCE_S, "tcp_user_timeout": _PATIENCE_S * 1000},
    )
    event.listen(engine, "connect", _configure)
    return engine


def _configure(connection: Any, _record: object) -> None:
    """Bound waits, and read back what durability stands on. CONTRACT.md §6, T-06."""
    with connection.cursor() as cursor:
        for name, seconds in WAITS.items():
            cursor.execute(f"SET {name} = '{seconds}s'")
        found = [cursor.execute("SHOW " + name).fetchone()[0] for name in _SYNCS]
    connection.commit()
    if "off" in found:
        raise StartRefused("the PostgreSQL server may lose what it has committed; turn its syncs on")
