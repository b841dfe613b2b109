"""The key tree's rows in the custody store, as functions of an open transaction. CUSTODY.md §2, §4."""

import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from sqlalchemy import (
    Connection,
    Row,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import DBAPIError, OperationalError

from .faults import CustodyMismatch
from .keytree import BlobName, DirtyBlobs
from .ledger import Book, Choice, blank
from .providers.protocol import Destroyed, DestroyMethod, Finality, Handle, KeyCustody
from .tables import FORMAT, blobs, epochs, head, pending, punctures, retiring, stale

_Item = TypeVar("_Item")

_SILENT: Final = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
_CHUNK: Final = 400  # bound variables a statement: two each, under SQLite's oldest limit of 999
_HEAD: Final = (
    select(head, blobs.c.sealed)
    .outerjoin(blobs, (blobs.c.prefix == b"") & (blobs.c.epoch == head.c.epoch))
    .where(head.c.id == 1)
)
_LOCK: Final = select(head.c.installation_id, head.c.epoch).with_for_update()

# What every erase runs is built once: building a statement costs more than running it.
_MOVE_HEAD: Final = update(head)
_STRIKE: Final = Choice.of(pending, pending.c.name == bindparam("struck"))
_PENDING: Final = select(pending.c.name).where(pending.c.name == bindparam("wanted"))
_RETIRING: Final = select(retiring).where(retiring.c.epoch <= bindparam("opened"))
_PUNCTURED: Final = select(punctures).where(punctures.c.path.in_(bindparam("paths", expanding=True)))
_EPOCHS: Final = select(epochs).where(epochs.c.epoch.in_(bindparam("numbers", expanding=True)))
_END: Final = Choice.of(epochs, epochs.c.epoch == bindparam("number"))
_RETIRED: Final = Choice.of(retiring, retiring.c.name == bindparam("ended"))
_OBSOLETE: Final = select(stale.c.prefix, stale.c.epoch).where(stale.c.since <= bindparam("newest"))
_DROP_BLOBS: Final = delete(blobs).where(tuple_(blobs.c.prefix, blobs.c.epoch).in_(_OBSOLETE))
_DROP_STALE: Final = delete(stale).where(stale.c.since <= bindparam("newest"))


@dataclass(frozen=True, slots=True, repr=False)
class Head:
    """The newest state: its epoch, the provider key that opens it, and the root blob."""

    installation_id: str
    epoch: int
    key_custody: KeyCustody
    key_name: Handle
    wrapped_root: bytes
    sealed_root: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """One epoch of the log; how and when its old key ended, None until it has."""

    epoch: int
    at: int
    rotated: bool
    old_custody: KeyCustody
    new_custody: KeyCustody
    ended: tuple[Destroyed, int] | None


@dataclass(frozen=True, slots=True)
class Named:
    """A provider's key that this store may destroy; for a replaced one, the epoch that replaced it."""

    name: Handle
    key_custody: KeyCustody
    epoch: int = 0


@contextmanager
def damage_refused() -> Generator[None]:
    """Turn what only a damaged or foreign store answers into CustodyMismatch; silence stays silence."""
    try:
        yield
    except (DBAPIError, TypeError, ValueError) as exc:
        if _is_silence(exc):
            raise
        raise CustodyMismatch("this is no custody store, or it is damaged; put the newest copy back") from exc


def lock_head(connection: Connection) -> tuple[str, int]:
    """Keep every other writer out until this transaction ends; return whose store it is and its epoch."""
    with damage_refused():
        row = connection.execute(_LOCK).one_or_none()
    if row is None:
        raise CustodyMismatch("the custody store lost its head; put the newest copy back")
    return row.installation_id, row.epoch


def read_head(connection: Connection, *, lock: bool = False) -> Head:
    """Return the head; raise CustodyMismatch if the store has none that this version can read."""
    with damage_refused():
        return _read_head(connection, lock)


def _read_head(connection: Connection, lock: bool) -> Head:
    if lock:
        # On its own: a joined read that had to wait for the lock would pair the new head with older blobs.
        connection.execute(_LOCK)
    row = connection.execute(_HEAD).one_or_none()
    if row is None:
        if connection.execute(select(blobs.c.epoch).limit(1)).first() is None:
            raise CustodyMismatch(
                "init was interrupted and nothing is sealed here: remove this store and init again"
            )
        raise CustodyMismatch("the custody store lost its head; put the newest copy back")
    if row.format != FORMAT:
        raise CustodyMismatch("the custody store has another version's format; use that version")
    if row.sealed is None:
        raise CustodyMismatch("the custody store lost the root of its key tree; put the newest copy back")
    held_by, key_name = KeyCustody(row.key_custody), Handle(row.key_name)
    return Head(row.installation_id, row.epoch, held_by, key_name, bytes(row.wrapped_root), bytes(row.sealed))


def read_epoch(connection: Connection) -> int:
    """Return the head's epoch alone."""
    return connection.execute(select(head.c.epoch)).scalar_one()


def read_blobs(connection: Connection, names: Sequence[BlobName]) -> dict[BlobName, bytes]:
    """Return those of these blobs that are there."""
    found: dict[BlobName, bytes] = {}
    for chunk in _chunks(names):
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
    connection.execute(
        _MOVE_HEAD,
        {"epoch": epoch, "key_custody": new.key_custody, "key_name": new.name, "wrapped_root": wrapped},
    )
    book.epoch = epoch
    book.drop(_STRIKE, {"struck": new.name})
    book.add(retiring, [{"name": old.key_name, "epoch": epoch, "key_custody": old.key_custody.value}])
    _insert_blobs(connection, dirty)
    replaced = [{"prefix": prefix, "epoch": sealed, "since": epoch} for prefix, sealed in dirty.replaced]
    connection.execute(insert(stale), replaced)
    for prefix in dirty.cut:
        known = exists().where(stale.c.prefix == blobs.c.prefix, stale.c.epoch == blobs.c.epoch)
        within = blobs.c.prefix >= prefix, blobs.c.prefix < _after(prefix), ~known
        under = select(blobs.c.prefix, blobs.c.epoch, literal(epoch)).where(*within)
        connection.execute(insert(stale).from_select(["prefix", "epoch", "since"], under))


def log_epoch(book: Book, record: Record, causes: Mapping[bytes, str]) -> None:
    """Add the epoch and what it punctured to the log."""
    row = {
        "epoch": record.epoch,
        "at": record.at,
        "rotated": record.rotated,
        "old_custody": record.old_custody.value,
        "new_custody": record.new_custody.value,
    }
    book.add(epochs, [row])
    rows = [{"path": path, "epoch": record.epoch, "cause": cause} for path, cause in causes.items()]
    book.add(punctures, rows)


def finish_epochs(book: Book, ended: Mapping[Named, Destroyed], now: int) -> None:
    """Record that old keys are destroyed and drop the blobs they led to. CUSTODY.md §4, E5."""
    log = read_epochs(book.connection, [key.epoch for key in ended])
    for key, destroyed in ended.items():
        book.drop(_RETIRED, {"ended": key.name})
        if log[key.epoch].ended is not None:
            continue  # another process was first, and what it wrote stands
        end = {
            "destroy_method": destroyed.method.value,
            "finality": destroyed.finality.value,
            "key_final_at": destroyed.final_at,
            "destroyed_at": now,
        }
        book.change(_END, {"number": key.epoch}, end)
    newest = {"newest": max((key.epoch for key in ended), default=-1)}
    book.connection.execute(_DROP_BLOBS, newest)
    book.connection.execute(_DROP_STALE, newest)


def add_first_pending(connection: Connection, key: Named) -> None:
    """Write down the name of the very first key; there is no ledger yet."""
    connection.execute(insert(pending), {"name": key.name, "key_custody": key.key_custody.value})


def add_pending(book: Book, key: Named) -> None:
    """Write down the name of a key before it exists."""
    book.add(pending, [{"name": key.name, "key_custody": key.key_custody.value}])


def has_pending(connection: Connection, name: str) -> bool:
    """Say whether the name still stands; recovery elsewhere may have struck it."""
    return connection.execute(_PENDING, {"wanted": name}).first() is not None


def read_pending(connection: Connection) -> list[Named]:
    """Return the names of keys that were to be, or are, but lead nowhere yet."""
    return [
        Named(Handle(row.name), KeyCustody(row.key_custody)) for row in connection.execute(select(pending))
    ]


def strike_pending(book: Book, keys: Iterable[Named]) -> None:
    """Forget these names; their keys are destroyed."""
    for key in keys:
        book.drop(_STRIKE, {"struck": key.name})


def read_retiring(connection: Connection, opened: int) -> list[Named]:
    """Return the keys that were replaced up to an epoch, with the epochs that replaced them."""
    rows = connection.execute(_RETIRING, {"opened": opened})
    return [Named(Handle(row.name), KeyCustody(row.key_custody), row.epoch) for row in rows]


def read_punctures(connection: Connection, paths: Sequence[bytes]) -> dict[bytes, tuple[int, str]]:
    """Return the epoch and cause of those of these paths that the log has."""
    found: dict[bytes, tuple[int, str]] = {}
    for chunk in _chunks(paths):
        for row in connection.execute(_PUNCTURED, {"paths": chunk}):
            found[bytes(row.path)] = (row.epoch, row.cause)
    return found


def read_epochs(connection: Connection, numbers: Iterable[int]) -> dict[int, Record]:
    """Return these epochs of the log."""
    found: dict[int, Record] = {}
    for chunk in _chunks(sorted(set(numbers))):
        for row in connection.execute(_EPOCHS, {"numbers": chunk}):
            found[row.epoch] = _record(row)
    return found


def newest_epochs(connection: Connection, limit: int) -> list[Record]:
    """Return the newest epochs of the log, newest first."""
    query = select(epochs).order_by(epochs.c.epoch.desc()).limit(limit)
    return [_record(row) for row in connection.execute(query)]


def rotations_after(connection: Connection, epoch: int) -> list[Record]:
    """Return the later epochs in which somebody asked for a new key, in order."""
    query = select(epochs).where(epochs.c.rotated, epochs.c.epoch > epoch).order_by(epochs.c.epoch)
    return [_record(row) for row in connection.execute(query)]


def count_punctured(connection: Connection, numbers: Sequence[int]) -> dict[int, int]:
    """Return how many paths each of these epochs punctured."""
    query = select(punctures.c.epoch, func.count()).where(punctures.c.epoch.in_(numbers))
    return {row[0]: row[1] for row in connection.execute(query.group_by(punctures.c.epoch))}


def punctured_after(connection: Connection, epoch: int) -> Iterator[tuple[int, int, str, bytes]]:
    """Yield epoch, time, cause and path of everything punctured in later epochs, in order."""
    query = (
        select(epochs.c.epoch, epochs.c.at, punctures.c.cause, punctures.c.path)
        .join(punctures, punctures.c.epoch == epochs.c.epoch)
        .where(epochs.c.epoch > epoch)
        .order_by(epochs.c.epoch, punctures.c.cause, punctures.c.path)
    )
    for row in connection.execute(query):
        yield row.epoch, row.at, row.cause, bytes(row.path)


def count(connection: Connection) -> tuple[int, int, int]:
    """Return how many blobs and bytes the tree takes, and how many old keys wait to be destroyed."""
    size = select(func.count(), func.coalesce(func.sum(func.length(blobs.c.sealed)), 0)).select_from(blobs)
    number, total = connection.execute(size).one()
    waiting = connection.execute(select(func.count()).select_from(retiring)).scalar_one()
    return number, total, waiting


def _record(row: Row[tuple[object, ...]]) -> Record:
    ended = None
    if row.destroyed_at is not None:
        method, finality = DestroyMethod(row.destroy_method), Finality(row.finality)
        ended = Destroyed(method, finality, row.key_final_at), row.destroyed_at
    old, new = KeyCustody(row.old_custody), KeyCustody(row.new_custody)
    return Record(row.epoch, row.at, bool(row.rotated), old, new, ended)


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
    connection.execute(insert(blobs), rows)


def _after(prefix: bytes) -> bytes:
    """Return the first bytes that sort after everything with this prefix."""
    return (
        (int.from_bytes(prefix) + 1).to_bytes(len(prefix) + 1)[1:]
        if prefix.strip(b"\xff")
        else prefix + b"\xff" * 8
    )


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
