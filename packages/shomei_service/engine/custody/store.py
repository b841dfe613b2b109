"""The custody store, opened: its own SQLite file or its own Postgres database. CUSTODY.md §2."""

import errno
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event, inspect, make_url
from sqlalchemy.exc import DatabaseError, DBAPIError, SQLAlchemyError

from .. import kept_open
from ..errors import CustodyUnavailable, EngineError
from ..prepared import Prepared
from .faults import CustodyMismatch
from .files import Aside, create_private, looking, opened, require_private, sqlite_path
from .mirrors import Mirrors
from .tables import head, metadata

_PRAGMAS: Final = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY")
_ASSERTED: Final = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
_UNKNOWN: Final = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
_CONNECT_TIMEOUT_S: Final = 5
_POOL_SIZE: Final = 8


class CustodyStore:
    """Transactions on the custody store, and what must hold of its files before there is one."""

    def __init__(self, url: str, *, read_only: bool = False, mirrors: Sequence[Path] = ()) -> None:
        self._url = make_url(url)
        self.is_sqlite: Final = self._url.get_backend_name() == "sqlite"
        if mirrors and not self.is_sqlite:
            raise CustodyMismatch(
                "SHOMEI_CUSTODY_MIRRORS is for a custody store in a file; mirror Postgres by synchronous "
                "replication"
            )
        self.mirrors: Final = Mirrors(Path(self._url.database or ""), mirrors)
        self.mirrors.require_there()
        self.is_fatal: bool = False
        self._engine: Final = self._connect(read_only) if self.is_sqlite else self._reach(pooled=True)
        self._probe: Final = None if self.is_sqlite else self._reach(pooled=False)
        self._aside: Final = Aside(Path(self._url.database or ""))
        self._writes, self._reads = kept_open.for_writing_and_reading(self._engine, stays=not read_only)

    @classmethod
    def create(cls, url: str, *, mirrors: Sequence[Path] = ()) -> "CustodyStore":
        """Make an empty store; raise CustodyMismatch if anything is there, or in a mirror, already."""
        where = sqlite_path(url)
        if where is not None:
            if any((directory / where.name).exists() for directory in mirrors):
                raise CustodyMismatch("a mirror holds a custody store already; init never replaces one")
            create_private(where)
        store = cls(url, mirrors=mirrors)
        with store._or_closed():
            store._require_durable()
            store._make_tables()
        return store

    @classmethod
    def open(cls, url: str, *, read_only: bool = False, mirrors: Sequence[Path] = ()) -> "CustodyStore":
        """Open an existing store, creating nothing; raise CustodyMismatch if missing or open to others."""
        where = sqlite_path(url)
        if where is not None:
            require_private(where)
        store = cls(url, read_only=read_only, mirrors=mirrors)
        with store._or_closed():
            store._require_durable()
        return store

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Yield a transaction that may write, commits at the end and is mirrored after.

        Raises CustodyUnavailable; as MirrorBehind when it is committed and not mirrored.
        """
        if self.is_fatal:
            raise CustodyUnavailable("the custody store failed to reach its disk; restart to recover")
        with self._guarded(), self._writes.begun() as connection:
            yield connection
        self.mirrors.bring_up()

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Yield a transaction that sees one state; raise CustodyUnavailable."""
        with self._guarded(), self._reads.begun() as connection:
            yield connection

    def probed(self, statement: Prepared) -> list[dict[str, Any]]:
        """Return what a connection reads that never wrote: nothing comes from a page cache of ours."""
        with self._guarded():
            if self._probe is not None:
                with self._probe.connect() as connection, connection.begin():
                    return statement.named(connection)
            with self._aside.opened() as driver:
                return statement.told(driver, self._engine.dialect)

    def require_sound(self) -> None:
        """Raise CustodyMismatch if the file's own structure is damaged; a server looks after its own."""
        if not self.is_sqlite:
            return
        with self.reading() as connection:
            try:
                found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            except DatabaseError:
                found = "damaged"
        if found != "ok":
            raise CustodyMismatch("the custody store's file is damaged; put the newest copy back")

    def beside(self, name: str) -> Path | None:
        """Return the path of a file beside an SQLite store; None for a server."""
        return Path(self._url.database or "").with_name(name) if self.is_sqlite else None

    def settle(self) -> None:
        """Bring everything committed into the database file and sync it.

        Run before recovery destroys a key: a commit whose sync failed may be visible and still be
        lost with the power, so what recovery stands on is written anew.
        """
        if not self.is_sqlite:
            return
        with self._guarded():
            raw = self._engine.raw_connection()
            try:
                row = raw.cursor().execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            finally:
                raw.close()
        if row is None or row[0] != 0:
            raise CustodyUnavailable("the custody store is busy; nothing was destroyed")

    def close(self) -> None:
        """Close every connection."""
        self._writes.close()
        self._reads.close()
        self._aside.close()
        self._engine.dispose()
        if self._probe is not None:
            self._probe.dispose()

    def _reach(self, *, pooled: bool) -> Engine:
        pool = {"pool_size": _POOL_SIZE, "pool_pre_ping": True} if pooled else {"poolclass": NullPool}
        waiting = {"connect_timeout": _CONNECT_TIMEOUT_S}
        return create_engine(self._url, hide_parameters=True, connect_args=waiting, **pool)

    def _connect(self, read_only: bool) -> Engine:
        where = Path(self._url.database or "")
        mode = looking(where) if read_only else "mode=rw"
        engine = create_engine(
            "sqlite://", creator=lambda: opened(where, mode), poolclass=QueuePool, hide_parameters=True
        )
        if not read_only:
            event.listen(engine, "connect", _configure)
        return engine

    def _require_durable(self) -> None:
        """Raise unless what a server has committed survives its crash. RELIABILITY T-06."""
        if self.is_sqlite:
            return  # asserted for each connection
        with self.reading() as connection:
            settings = ("fsync", "full_page_writes", "synchronous_commit")
            found = [connection.exec_driver_sql("SHOW " + name).scalar_one() for name in settings]
        if "off" in found:
            raise CustodyMismatch("the Postgres server may lose what it has committed; turn its syncs on")

    @contextmanager
    def _or_closed(self) -> Generator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _make_tables(self) -> None:
        with self.writing() as connection:
            if inspect(connection).has_table(head.name):
                raise CustodyMismatch("a custody store is there already; init creates, it never replaces")
            metadata.create_all(connection)

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """Turn the driver's errors into our fixed sentence, and remember a disk that failed a sync."""
        try:
            yield
        except EngineError:
            raise
        except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as exc:
            # The second where SQLAlchemy only passes through, the last where SQLite quotes what is damaged.
            self.is_fatal = self.is_fatal or _is_disk_failure(exc)
            raise CustodyUnavailable("the custody store does not answer or is full") from exc
        except OSError as exc:
            self.is_fatal = self.is_fatal or exc.errno == errno.EIO
            raise CustodyUnavailable("the custody store's disk failed or is full") from exc


def _is_disk_failure(exc: Exception) -> bool:
    """Say whether SQLite reports a failed sync, after which nobody knows what is on the disk."""
    cause = exc.orig if isinstance(exc, DBAPIError) else exc
    return getattr(cause, "sqlite_errorcode", 0) in _UNKNOWN


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    """Set, and read back, what durability and erasure stand on. RELIABILITY T-06."""
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute("PRAGMA " + pragma)
    for name, wanted in _ASSERTED.items():
        if cursor.execute("PRAGMA " + name).fetchone()[0] != wanted:
            connection.close()
            raise CustodyMismatch("SQLite does not keep the settings that durability and erasure stand on")
    cursor.close()
