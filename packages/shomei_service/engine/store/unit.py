"""One transaction in one tenant. Writers queue here, so SQLite never has to refuse one.

A `Unit` is what every store function takes first: no query can be written without a tenant.
"""

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from .. import kept_open
from ..errors import EngineError, StartRefused, StorageUnavailable
from ..model import TenantId
from ..reserve import Reserve
from . import schema, server, walls

_BUSY_TIMEOUT_S = 10
_TRUNCATE_TIMEOUT_MS = 200
_POOL_SIZE = 16  # as many as read at once: one beyond these opens the file anew, which costs more
_RESERVE_BYTES = 8 << 20  # the log of an erasure of some thousand rows; it is emptied after each
_LOG_PAGES = _RESERVE_BYTES // 4096  # then it is copied into the database in the midst of a commit
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "foreign_keys=ON",
    "temp_store=MEMORY",
    # A large forget touches more pages than SQLite keeps by itself, and each of them more than once.
    "cache_size=-8192",
    f"wal_autocheckpoint={_LOG_PAGES}",
)
# After these nobody knows what of the file is on the disk. Other failures undo their transaction and no more.
_UNKNOWN = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
_ASSERTED = {"journal_mode": "wal", "synchronous": "2", "secure_delete": "1", "foreign_keys": "1"}


@dataclass(frozen=True, slots=True)
class Unit:
    """An open transaction, and the only tenant it may touch.

    Where it told custody's journal something, it knows after which line. One that replays tells nothing.
    """

    connection: Connection
    tenant: TenantId
    journaled_after: list[int] = field(default_factory=list[int])
    is_replaying: bool = False

    def part(self) -> AbstractContextManager[object]:
        """Return a part of the transaction that, when it fails, is undone alone."""
        return self.connection.begin_nested()


class Store:
    """The database, opened: by `create` or as `existing`, never by guessing which of the two is meant."""

    def __init__(self, url: str, *, read_only: bool = False, pool: int = server.POOL) -> None:
        self._url = make_url(url)
        self.is_sqlite: bool = self._url.get_backend_name() == "sqlite"
        self._writing: AbstractContextManager[object] = threading.RLock() if self.is_sqlite else nullcontext()
        self.room: Reserve = Reserve(self.path.with_name("reserve") if self.path else None, _RESERVE_BYTES)
        self._engine: Engine = _connect(self._url, read_only=read_only, pool=pool)
        self._writes, self._reads = kept_open.for_writing_and_reading(self._engine, stays=not read_only)
        self.is_fatal: bool = False  # a sync failed: nothing is written any more, see docs/decisions

    @property
    def path(self) -> Path | None:
        """The database file, for SQLite."""
        return Path(self._url.database) if self.is_sqlite and self._url.database else None

    @classmethod
    def create(cls, url: str) -> "Store":
        """Make the database and its schema. Raise StartRefused if it already holds an installation."""
        store = cls(url)
        if store.path is not None:
            _touch_private(store.path)
        with store.transaction() as connection:
            if schema.current(connection) is not None:
                raise StartRefused(
                    "the database already holds an installation; init creates, it never replaces"
                )
            schema.upgrade(connection)
        return store

    @classmethod
    @contextmanager
    def looking(cls, url: str) -> Generator["Store"]:
        """Yield an existing database at the newest schema for reading, and leave no trace of having looked.

        Raises StartRefused if there is none. Whoever may still refuse looks first and opens `existing` after.
        """
        store = cls.existing(url, read_only=True)
        try:
            with store.snapshot() as connection:
                _require_newest(connection)
            yield store
        finally:
            store.close()

    @classmethod
    def existing(cls, url: str, *, read_only: bool = False, pool: int = server.POOL) -> "Store":
        """Connect to a database that is there, at whatever schema. Raise StartRefused if none is."""
        store = cls(url, read_only=read_only, pool=pool)
        if store.path is not None and not store.path.is_file():
            raise StartRefused("there is no database here; run shomei init first")
        return store

    def migrate(self) -> str:
        """Bring an existing database to the newest schema, in one transaction; return the schema's id."""
        with self.transaction() as connection:
            if schema.current(connection) is None:
                raise StartRefused("the database is empty; run shomei init first")
            schema.upgrade(connection)
        return schema.newest()

    @contextmanager
    def transaction(self, tenant: TenantId | None = None) -> Generator[Connection]:
        """Yield a writing transaction that commits at the end; raise StorageUnavailable if it cannot.

        Without a tenant it sees everyone's rows: for what belongs to none.
        """
        with self._writing, self._sync_watched(), self._writes.begun() as connection:
            walls.enter(connection, tenant)
            yield connection

    @contextmanager
    def snapshot(self, tenant: TenantId | None = None) -> Generator[Connection]:
        """Yield a reading transaction: one consistent view, never blocked by a writer on SQLite."""
        with _as_unavailable(), self._reads.begun() as connection:
            walls.enter(connection, tenant)
            yield connection

    @contextmanager
    def unit(self, tenant: TenantId, *, replaying: bool = False) -> Generator[Unit]:
        """Yield a writing unit of one tenant."""
        with self.transaction(tenant) as connection:
            yield Unit(connection, tenant, is_replaying=replaying)

    @contextmanager
    def reading(self, tenant: TenantId) -> Generator[Unit]:
        """Yield a reading unit of one tenant."""
        with self.snapshot(tenant) as connection:
            yield Unit(connection, tenant)

    def is_walled(self) -> bool:
        """Say whether row-level security binds this role; where there is none, nothing can get round it."""
        with self.snapshot() as connection:
            return walls.holds(connection)

    def truncate_log(self) -> bool:
        """Empty SQLite's write-ahead log; return whether nothing of it is left. False elsewhere.

        A reader of an older state prevents it. Writers wait meanwhile, so it is not waited for long.
        """
        if not self.is_sqlite:
            return False
        with self._writing, self._sync_watched():
            raw = self._engine.raw_connection()
            try:
                cursor = raw.cursor()
                cursor.execute(f"PRAGMA busy_timeout={_TRUNCATE_TIMEOUT_MS}")
                try:
                    row = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                finally:
                    cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_S * 1000}")
            finally:
                raw.close()
        return bool(row is not None and row[0] == 0)

    @contextmanager
    def _sync_watched(self) -> Generator[None]:
        """Write nothing after a sync that failed: a second one that succeeds proves nothing. T-05.

        Asked once nobody else writes: whoever waited meanwhile is not to go on either.
        """
        if self.is_fatal:
            raise StorageUnavailable("the disk failed to keep what was written; start again to recover")
        try:
            with _as_unavailable():
                yield
        except StorageUnavailable as exc:
            cause = exc.__cause__
            code = getattr(cause.orig if isinstance(cause, DBAPIError) else cause, "sqlite_errorcode", 0)
            self.is_fatal = self.is_fatal or code in _UNKNOWN
            raise

    def close(self) -> None:
        """Close every connection."""
        self._writes.close()
        self._reads.close()
        self._engine.dispose()


@contextmanager
def _as_unavailable() -> Generator[None]:
    """Turn the driver's errors, which may quote SQL, into our one fixed sentence."""
    try:
        yield
    except EngineError:
        raise
    except (DBAPIError, sqlite3.Error, PoolTimeout, UnicodeDecodeError) as exc:
        # The second where a cursor is used directly, the last where damage stands in what SQLite says of it.
        raise StorageUnavailable("the database does not answer or is full") from exc
    except SQLAlchemyError as exc:
        raise StorageUnavailable("the database could not do that") from exc


def _connect(url: URL, *, read_only: bool, pool: int) -> Engine:
    if url.get_backend_name() != "sqlite":
        return server.connect(url, pool)
    if read_only:
        location = _looking(Path(url.database or ""))
        engine = create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(
                location, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None
            ),
            poolclass=NullPool,
            hide_parameters=True,
        )
    else:
        engine = create_engine(
            url, hide_parameters=True, connect_args={"timeout": _BUSY_TIMEOUT_S}, pool_size=_POOL_SIZE
        )
        event.listen(engine, "connect", _configure_sqlite)
    return engine


def _looking(path: Path) -> str:
    """Return how to read a file and leave no trace: with no log beside it, SQLite need not make one."""
    log = path.with_name(path.name + "-wal")
    has_log = log.exists() and log.stat().st_size
    return f"file:{quote(str(path))}?mode=ro" + ("" if has_log else "&immutable=1")


def _require_newest(connection: Connection) -> None:
    found = schema.current(connection)
    if found is None:
        raise StartRefused("the database is empty; run shomei init first")
    if found != schema.newest():
        raise StartRefused("the database is not at this version's schema; run shomei migrate")


def _touch_private(path: Path) -> None:
    """Create the file 0600 before SQLite does, so that it is never open to others."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.stat().st_size:
            raise StartRefused(
                "the database already holds an installation; init creates, it never replaces"
            ) from None


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Set and read back what durability and erasure stand on. CONTRACT.md §6, T-06."""
    connection.isolation_level = None  # we begin transactions ourselves
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute("PRAGMA " + pragma)
    for name, wanted in _ASSERTED.items():
        found = str(cursor.execute("PRAGMA " + name).fetchone()[0])
        if found != wanted:
            raise StartRefused(
                "SQLite does not keep the durability and erasure settings this service stands on"
            )
    cursor.close()
