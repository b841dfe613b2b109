"""Connections that stay open: one from a pool costs more than a transaction of SQLite's."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine

from .prepared import driver_of

_KEPT: Final = 4  # fewer than a pool has: whoever wants one of its own finds one


def for_writing_and_reading(engine: Engine, *, stays: bool) -> tuple["KeptOpen", "KeptOpen"]:
    """Return who lends connections to write with, and who to read one state; SQLite's may stay open."""
    if engine.dialect.name != "sqlite":
        one_state = engine.execution_options(isolation_level="REPEATABLE READ")
        return KeptOpen(engine), KeptOpen(one_state)
    kept = _KEPT if stays else 0
    return KeptOpen(engine, "BEGIN IMMEDIATE", kept), KeptOpen(engine, "BEGIN", kept)


class KeptOpen:
    """Lends connections, each for one transaction; where they stay, some wait for whoever comes next."""

    def __init__(self, engine: Engine, words: str | None = None, kept: int = 0) -> None:
        """Take an engine with the options that its transactions are to have.

        With the words that begin one on SQLite its driver is told them, and the end: what SQLAlchemy does
        around each takes as long as three statements.
        """
        self._engine: Final = engine
        self._words: Final = words
        self._kept: int = kept
        self._idle: Final[deque[Connection]] = deque()

    @contextmanager
    def begun(self) -> Generator[Connection]:
        """Yield a connection in a transaction, which commits at the end or is undone."""
        connection = self._taken()
        try:
            if self._words is None:
                with connection.begin():
                    yield connection
            else:
                driver = driver_of(connection)
                driver.execute(self._words)
                yield connection
                # SQLAlchemy thinks of a transaction as begun as soon as it has executed anything.
                (connection if connection.in_transaction() else driver).commit()
        except BaseException:
            connection.close()  # nobody knows what state it is in
            raise
        if len(self._idle) < self._kept:
            self._idle.append(connection)
        else:
            connection.close()

    def _taken(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._engine.connect()

    def close(self) -> None:
        """Close those that nobody has; those in use are closed when they come back."""
        self._kept = 0
        while self._idle:
            self._idle.pop().close()
