"""Connections that stay open: one from a pool costs more than a transaction of SQLite's."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine

_KEPT: Final = 4  # fewer than a pool has: whoever wants one of its own finds one


class KeptOpen:
    """Lends connections, each for one transaction; where they stay, some wait for whoever comes next."""

    def __init__(self, engine: Engine, *, stays: bool) -> None:
        """Take an engine with the options that its transactions are to have."""
        self._engine: Final = engine
        self._kept: int = _KEPT if stays else 0
        self._idle: Final[deque[Connection]] = deque()

    @contextmanager
    def begun(self) -> Generator[Connection]:
        """Yield a connection in a transaction, which commits at the end or is undone."""
        connection = self._taken()
        try:
            with connection.begin():
                yield connection
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
