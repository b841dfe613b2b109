"""The head of the key tree and its blobs, as functions of an open transaction. CUSTODY.md §2, §4."""

import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, exists, func, insert, literal, select, tuple_, update
from sqlalchemy.exc import DBAPIError, OperationalError

from ..prepared import Prepared
from .faults import CustodyMismatch
from .keytree import BlobName, DirtyBlobs
from .ledger import Book, blank
from .providers.protocol import Handle, KeyCustody
from .records import Named, chunks, retire, strike_pending
from .store import CustodyStore
from .tables import FORMAT, blobs, head, pending, retiring, stale

_SILENT: Final = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
_HEAD: Final = Prepared(
    select(head, blobs.c.sealed)
    .outerjoin(blobs, (blobs.c.prefix == b"") & (blobs.c.epoch == head.c.epoch))
    .where(head.c.id == 1)
)
_LOCK: Final = Prepared(select(head.c.installation_id, head.c.epoch, head.c.ledger).with_for_update())
_EPOCH: Final = Prepared(select(head.c.epoch))
_KEY: Final = Prepared(
    select(head.c.key_name, head.c.key_custody, head.c.epoch).where(head.c.id == 1, head.c.format == FORMAT)
)
_MOVE_HEAD: Final = Prepared(update(head), ["epoch", "key_custody", "key_name", "wrapped_root"])
_INTO_BLOBS: Final = Prepared.into(blobs)
_INTO_STALE: Final = Prepared.into(stale)


@dataclass(frozen=True, slots=True, repr=False)
class Head:
    """The newest state: its epoch, the provider key that opens it, and the root blob."""

    installation_id: str
    epoch: int
    key_custody: KeyCustody
    key_name: Handle
    wrapped_root: bytes
    sealed_root: bytes
    ledger: bytes


@contextmanager
def damage_refused() -> Generator[None]:
    """Turn what only a damaged or foreign store answers into CustodyMismatch; silence stays silence."""
    try:
        yield
    except (DBAPIError, TypeError, ValueError) as exc:
        if _is_silence(exc):
            raise
        raise CustodyMismatch("this is no custody store, or it is damaged; put the newest copy back") from exc


def lock_head(connection: Connection) -> tuple[str, int, bytes]:
    """Keep every other writer out until this transaction ends; return whose it is, its epoch and ledger."""
    with damage_refused():
        row = _LOCK.first(connection)
    if row is None:
        raise CustodyMismatch("the custody store lost its head; put the newest copy back")
    return row[0], row[1], row[2]


def read_head(connection: Connection, *, lock: bool = False) -> Head:
    """Return the head; raise CustodyMismatch if the store has none that this version can read."""
    with damage_refused():
        return _read_head(connection, lock)


def _read_head(connection: Connection, lock: bool) -> Head:
    if lock and connection.dialect.name != "sqlite":  # there, whoever may write is alone
        # On its own: a joined read that had to wait for the lock would pair the new head with older blobs.
        _LOCK.rows(connection)
    found = _HEAD.named(connection)
    if not found and connection.execute(select(blobs.c.epoch).limit(1)).first() is None:
        raise CustodyMismatch(
            "init was interrupted and nothing is sealed here: remove this store and init again"
        )
    return _head(found)


def read_key(connection: Connection) -> Named:
    """Return the key that opens the head, and the head's epoch; raise CustodyMismatch as `read_head` does."""
    with damage_refused():
        found = _KEY.first(connection)
        if found is not None:
            return Named(Handle(found[0]), KeyCustody(found[1]), found[2])
    head = read_head(connection)
    return Named(head.key_name, head.key_custody, head.epoch)


def probed_head(store: CustodyStore) -> Head:
    """Return the head as the disk has it; otherwise as `read_head`."""
    with damage_refused():
        return _head(store.probed(_HEAD))


def _head(found: Sequence[Mapping[str, Any]]) -> Head:
    if not found:
        raise CustodyMismatch("the custody store lost its head; put the newest copy back")
    [row] = found
    if row["format"] != FORMAT:
        raise CustodyMismatch("the custody store has another version's format; use that version")
    if row["sealed"] is None:
        raise CustodyMismatch("the custody store lost the root of its key tree; put the newest copy back")
    return Head(
        installation_id=row["installation_id"],
        epoch=row["epoch"],
        key_custody=KeyCustody(row["key_custody"]),
        key_name=Handle(row["key_name"]),
        wrapped_root=bytes(row["wrapped_root"]),
        sealed_root=bytes(row["sealed"]),
        ledger=bytes(row["ledger"]),
    )


def read_epoch(connection: Connection) -> int:
    """Return the head's epoch alone."""
    [epoch] = _EPOCH.values(connection)
    return epoch


def read_blobs(connection: Connection, names: Sequence[BlobName]) -> dict[BlobName, bytes]:
    """Return those of these blobs that are there."""
    found: dict[BlobName, bytes] = {}
    for chunk in chunks(names):
        wanted = tuple_(blobs.c.prefix, blobs.c.epoch).in_(chunk)
        for row in connection.execute(select(blobs).where(wanted)):
            found[bytes(row.prefix), row.epoch] = bytes(row.sealed)
    return found


def insert_head(connection: Connection, first: Head, dirty: DirtyBlobs, key: bytes, now: int) -> None:
    """Write the first head, whose ledger begins here."""
    connection.execute(
        insert(head).values(
            id=1,
            format=FORMAT,
            installation_id=first.installation_id,
            epoch=first.epoch,
            key_custody=first.key_custody.value,
            key_name=first.key_name,
            wrapped_root=first.wrapped_root,
            ledger=blank(key, first.installation_id, first.epoch),
            created_at=now,
        )
    )
    _insert_blobs(connection, dirty)
    connection.execute(delete(pending))


def advance(book: Book, old: Head, new: Named, wrapped: bytes, dirty: DirtyBlobs) -> None:
    """Move the head: new blobs, new key, the old key's name among those to destroy. CUSTODY.md §4, E3."""
    connection, epoch = book.connection, dirty.tree.epoch
    _MOVE_HEAD.run(
        connection,
        {"epoch": epoch, "key_custody": new.key_custody, "key_name": new.name, "wrapped_root": wrapped},
    )
    book.epoch = epoch
    strike_pending(book, [new])
    retire(book, Named(old.key_name, old.key_custody, epoch))
    _insert_blobs(connection, dirty)
    replaced = [{"prefix": prefix, "epoch": sealed, "since": epoch} for prefix, sealed in dirty.replaced]
    _INTO_STALE.run_all(connection, replaced)
    for prefix in dirty.cut:
        known = exists().where(stale.c.prefix == blobs.c.prefix, stale.c.epoch == blobs.c.epoch)
        within = blobs.c.prefix >= prefix, blobs.c.prefix < _after(prefix), ~known
        under = select(blobs.c.prefix, blobs.c.epoch, literal(epoch)).where(*within)
        connection.execute(insert(stale).from_select(["prefix", "epoch", "since"], under))


def count(connection: Connection) -> tuple[int, int, int]:
    """Return how many blobs and bytes the tree takes, and how many old keys wait to be destroyed."""
    size = select(func.count(), func.coalesce(func.sum(func.length(blobs.c.sealed)), 0)).select_from(blobs)
    number, total = connection.execute(size).one()
    waiting = connection.execute(select(func.count()).select_from(retiring)).scalar_one()
    return number, total, waiting


def _is_silence(exc: Exception) -> bool:
    """Tell a store that only does not answer now from one that is none, or is damaged."""
    if not isinstance(exc, DBAPIError):
        return False
    if isinstance(exc.orig, sqlite3.Error):
        return getattr(exc.orig, "sqlite_errorcode", 0) & 0xFF in _SILENT
    return isinstance(exc, OperationalError)


def _insert_blobs(connection: Connection, dirty: DirtyBlobs) -> None:
    epoch = dirty.tree.epoch
    rows = [{"prefix": prefix, "epoch": epoch, "sealed": sealed} for prefix, sealed in dirty.sealed.items()]
    _INTO_BLOBS.run_all(connection, rows)


def _after(prefix: bytes) -> bytes:
    """Return the first bytes that sort after everything with this prefix."""
    return (
        (int.from_bytes(prefix) + 1).to_bytes(len(prefix) + 1)[1:]
        if prefix.strip(b"\xff")
        else prefix + b"\xff" * 8
    )
