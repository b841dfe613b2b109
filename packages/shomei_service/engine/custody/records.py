"""The epoch log, and the names of keys that may be destroyed, in an open transaction. CUSTODY.md §4."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    delete,
    func,
    insert,
    select,
    tuple_,
)

from ..prepared import Prepared
from .ledger import Book, Choice
from .providers.protocol import Destroyed, DestroyMethod, Finality, Handle, KeyCustody
from .tables import blobs, epochs, pending, punctures, retiring, stale

_Item = TypeVar("_Item")

_CHUNK: Final = 400  # bound variables a statement: two each, under SQLite's oldest limit of 999

# What every erase runs is built once: building a statement costs more than running it.
_STRIKE: Final = Choice.of(pending, pending.c.name == bindparam("struck"))
_PENDING: Final = Prepared(select(pending.c.name).where(pending.c.name == bindparam("wanted")))
_RETIRING: Final = Prepared(select(retiring).where(retiring.c.epoch <= bindparam("opened")))
_PUNCTURED: Final = Prepared(select(punctures).where(punctures.c.path == bindparam("wanted")))
_PUNCTURED_AMONG: Final = select(punctures).where(punctures.c.path.in_(bindparam("several", expanding=True)))
_EPOCH: Final = Prepared(select(epochs).where(epochs.c.epoch == bindparam("wanted")))
_EPOCHS_AMONG: Final = select(epochs).where(epochs.c.epoch.in_(bindparam("several", expanding=True)))
_END: Final = Choice.of(
    epochs,
    epochs.c.epoch == bindparam("number"),
    epochs.c.destroyed_at.is_(None),  # where another process was first, what it wrote stands
    changing=["destroy_method", "finality", "key_final_at", "destroyed_at"],
)
_RETIRED: Final = Choice.of(retiring, retiring.c.name == bindparam("ended"))
_OBSOLETE: Final = select(stale.c.prefix, stale.c.epoch).where(stale.c.since <= bindparam("newest"))
_DROP_BLOBS: Final = Prepared(delete(blobs).where(tuple_(blobs.c.prefix, blobs.c.epoch).in_(_OBSOLETE)))
_DROP_STALE: Final = Prepared(delete(stale).where(stale.c.since <= bindparam("newest")))


Ended = tuple[Destroyed, int]  # how a key ended, and when


@dataclass(frozen=True, slots=True)
class Record:
    """One epoch of the log; how and when its old key ended, None until it has."""

    epoch: int
    at: int
    rotated: bool
    old_custody: KeyCustody
    new_custody: KeyCustody
    ended: Ended | None


@dataclass(frozen=True, slots=True)
class Named:
    """A provider's key that this store may destroy; for a replaced one, the epoch that replaced it."""

    name: Handle
    key_custody: KeyCustody
    epoch: int = 0


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


def finish_epochs(book: Book, ended: Mapping[Named, Ended]) -> None:
    """Record that old keys are destroyed and drop the blobs they led to. CUSTODY.md §4, E5."""
    if not ended:
        return
    for key, (destroyed, at) in ended.items():
        book.drop(_RETIRED, {"ended": key.name})
        end = {
            "destroy_method": destroyed.method.value,
            "finality": destroyed.finality.value,
            "key_final_at": destroyed.final_at,
            "destroyed_at": at,
        }
        book.change(_END, {"number": key.epoch}, end)
    newest = {"newest": max(key.epoch for key in ended)}
    _DROP_BLOBS.run(book.connection, newest)
    _DROP_STALE.run(book.connection, newest)


def add_first_pending(connection: Connection, key: Named) -> None:
    """Write down the name of the very first key; there is no ledger yet."""
    connection.execute(insert(pending), {"name": key.name, "key_custody": key.key_custody.value})


def add_pending(book: Book, key: Named) -> None:
    """Write down the name of a key before it exists."""
    book.add(pending, [{"name": key.name, "key_custody": key.key_custody.value}])


def has_pending(connection: Connection, name: str) -> bool:
    """Say whether the name still stands; recovery elsewhere may have struck it."""
    return _PENDING.first(connection, {"wanted": name}) is not None


def read_pending(connection: Connection) -> list[Named]:
    """Return the names of keys that were to be, or are, but lead nowhere yet."""
    return [
        Named(Handle(row.name), KeyCustody(row.key_custody)) for row in connection.execute(select(pending))
    ]


def strike_pending(book: Book, keys: Iterable[Named]) -> None:
    """Forget these names; their keys are destroyed."""
    for key in keys:
        book.drop(_STRIKE, {"struck": key.name})


def retire(book: Book, key: Named) -> None:
    """Add a key that was replaced to those to destroy."""
    book.add(retiring, [{"name": key.name, "epoch": key.epoch, "key_custody": key.key_custody.value}])


def read_retiring(connection: Connection, opened: int) -> list[Named]:
    """Return the keys that were replaced up to an epoch, with the epochs that replaced them."""
    rows = _RETIRING.rows(connection, {"opened": opened})
    return [Named(Handle(name), KeyCustody(held_by), epoch) for name, epoch, held_by in rows]


def read_punctures(connection: Connection, paths: Sequence[bytes]) -> dict[bytes, tuple[int, str]]:
    """Return the epoch and cause of those of these paths that the log has."""
    found = _among(connection, paths, _PUNCTURED, _PUNCTURED_AMONG)
    return {bytes(steps): (epoch, cause) for steps, epoch, cause in found}


def read_epochs(connection: Connection, numbers: Iterable[int]) -> dict[int, Record]:
    """Return these epochs of the log."""
    found = _among(connection, sorted(set(numbers)), _EPOCH, _EPOCHS_AMONG)
    return {row[0]: _record(row) for row in found}


def _among(
    connection: Connection, items: Sequence[object], one: Prepared, several: Select[*tuple[Any, ...]]
) -> Iterator[Sequence[Any]]:
    """Yield the rows for these items; nearly always there is one."""
    if len(items) == 1:
        yield from one.rows(connection, {"wanted": items[0]})
        return
    for chunk in chunks(items):
        yield from connection.execute(several, {"several": chunk})


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


def _record(row: Sequence[Any]) -> Record:
    epoch, at, rotated, old, new, method, finality, final_at, destroyed_at = row
    ended = None
    if destroyed_at is not None:
        ended = Destroyed(DestroyMethod(method), Finality(finality), final_at), destroyed_at
    return Record(epoch, at, bool(rotated), KeyCustody(old), KeyCustody(new), ended)


def chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield the items in parts that fit into one statement."""
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
