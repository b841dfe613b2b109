"""Whole copies of an SQLite database: taken while it is in use, judged, put in its place. CUSTODY.md §4."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ..errors import StartRefused, StorageUnavailable
from . import schema
from .unit import Store

Progress = Callable[[int, int], None]

_PAGES: Final = 4096  # copied between two reports: 16 MiB
_NO_DATABASE: Final = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_LOGS: Final = ("-wal", "-shm", "-journal")


def copy(source: Path, target: Path, progress: Progress) -> None:
    """Copy one state of a database into a new file that stands alone; raise StartRefused if it is there.

    Writers go on meanwhile. Raises StorageUnavailable when either disk fails; then nothing is left.
    """
    try:
        descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise StartRefused("the file is there already; a backup never replaces one") from None
    except OSError as exc:
        raise StorageUnavailable("the file can not be written there") from exc
    try:
        try:
            _fill(source, target, progress)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync(target.parent)
    except BaseException as exc:
        target.unlink(missing_ok=True)
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF in _NO_DATABASE:
            raise StartRefused("the file is no database, or it is damaged; take another backup") from exc
        if isinstance(exc, OSError | sqlite3.Error):
            raise StorageUnavailable("the copy was not finished, and is removed") from exc
        raise


def _fill(source: Path, target: Path, progress: Progress) -> None:
    log = source.with_name(source.name + "-wal")
    location = f"file:{quote(str(source))}?mode=ro" + ("" if log.exists() else "&immutable=1")
    reading = sqlite3.connect(location, uri=True, isolation_level=None)
    with closing(reading), closing(sqlite3.connect(target, isolation_level=None)) as writing:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from here on it is one state
        writing.execute("PRAGMA synchronous=OFF")  # synced once, by the caller
        reading.backup(writing, pages=_PAGES, progress=lambda _, left, whole: progress(whole - left, whole))
        writing.execute("PRAGMA journal_mode=DELETE")


def require_database(path: Path) -> None:
    """Bring a copy to the newest schema; raise StartRefused if it is no whole database of ours."""
    store = Store(f"sqlite:///{path}")
    try:
        with store.snapshot() as connection:
            if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one() != "ok":
                raise StartRefused("the backup is damaged; take another one")
            found = schema.current(connection)
        if found is None or not schema.is_known(found):
            raise StartRefused("the file is no backup that this version of shomei knows")
        store.migrate()
    except StorageUnavailable as exc:
        raise StartRefused("the file is no backup of a database, or it is damaged") from exc
    finally:
        store.close()


def put_in_place(copied: Path, database: Path) -> None:
    """Let a copy take the database's place, and let nothing of the old one's logs be read into it."""
    # A log left behind would be replayed into the restored file, so it goes first. Dying between the two
    # leaves the old database at its last checkpoint, which the next opening treats like any restored one.
    for ending in _LOGS:
        database.with_name(database.name + ending).unlink(missing_ok=True)
        copied.with_name(copied.name + ending).unlink(missing_ok=True)
    copied.replace(database)
    _sync(database.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
