"""The custody store's file: made, found, and opened. CUSTODY.md §2."""

import os
import sqlite3
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import make_url

from .faults import CustodyMismatch
from .providers.local_file import sync_directory

_BUSY_TIMEOUT_S: Final = 30
_OTHERS: Final = 0o077


class Aside:
    """Lends connections that never write and keep no page, to the file that the path names by then."""

    def __init__(self, where: Path) -> None:
        self._where: Final = where
        self._idle: Final[deque[tuple[tuple[int, int], sqlite3.Connection]]] = deque()

    @contextmanager
    def opened(self) -> Generator[sqlite3.Connection]:
        """Yield a connection; one to a file that was moved away meanwhile is not used again."""
        there = self._where.stat()
        named = there.st_dev, there.st_ino
        driver = self._taken(named)
        try:
            yield driver
        except BaseException:
            driver.close()
            raise
        self._idle.append((named, driver))

    def _taken(self, named: tuple[int, int]) -> sqlite3.Connection:
        with suppress(IndexError):
            while True:
                known, driver = self._idle.pop()
                if known == named:
                    return driver
                driver.close()
        driver = opened(self._where, "mode=ro")
        driver.execute("PRAGMA cache_size=0")
        return driver

    def close(self) -> None:
        """Close those that nobody has."""
        with suppress(IndexError):
            while True:
                self._idle.pop()[1].close()


def sqlite_path(url: str) -> Path | None:
    """Return the file of an SQLite URL; None for a server. Raise CustodyMismatch for a database in memory."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database.startswith((":", "file:")):
        raise CustodyMismatch("the custody store must be a file: sqlite:///directory/custody.db")
    return Path(parsed.database)


def create_private(where: Path) -> None:
    """Make an empty file that nobody else may read; raise CustodyMismatch if it is there already."""
    where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(where, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        raise CustodyMismatch("a custody store is there already; init creates, it never replaces") from None
    sync_directory(where.parent)
    sync_directory(where.parent.parent)


def opened(where: Path, mode: str) -> sqlite3.Connection:
    """Return a connection of our own to a file, for any thread."""
    return sqlite3.connect(
        f"file:{quote(str(where))}?{mode}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def looking(where: Path) -> str:
    """Return how to read a file and leave no trace: without a log beside it, nobody has it open."""
    return "mode=ro" if where.with_name(where.name + "-wal").exists() else "mode=ro&immutable=1"


def require_private(where: Path) -> None:
    """Raise CustodyMismatch unless the file is there and nobody else may read it."""
    try:
        mode = where.lstat().st_mode
    except OSError as exc:
        raise CustodyMismatch(
            "the custody store is missing; put the newest copy back, a new one opens no data"
        ) from exc
    if not stat.S_ISREG(mode) or mode & _OTHERS:
        raise CustodyMismatch("the custody store must be a file of mode 0600; ask who may have read it")
