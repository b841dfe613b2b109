"""What keeps custody's records from being edited, dropped, doubled or reordered unseen. RELIABILITY T-27.

Each row counts as a keyed hash of its table and its values. The sum of a table's rows, modulo 2**256, lies
sealed in the head, bound to the epoch: records put back from an earlier epoch do not fit a later head. The
key is a leaf of the tree that nobody's row has, so whoever holds the store alone can make no sum come out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    delete,
    select,
    update,
)

from ..errors import IntegrityFault
from ..prepared import Prepared
from .faults import RecordAltered
from .sealing import bind, expand, open_sealed, seal
from .tables import epochs, head, journal, log_marks, pending, punctures, retiring, signers, tenants

KEPT: Final = (pending, retiring, epochs, punctures, tenants, log_marks, journal, signers)

_BYTES: Final = 32
_AT_ONCE: Final = 1000
_MODULUS: Final = 1 << 8 * _BYTES
_LABEL: Final = b"shomei/v1/ledger"
_READ: Final = Prepared(select(head.c.ledger))
_WRITE: Final = Prepared(update(head), ["ledger"])
_INTO: Final = {table: Prepared.into(table) for table in KEPT}

Values = Mapping[str, object]
Totals = dict[str, int]


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows of a kept table by a condition, built once: building a statement costs more than running it."""

    table: Table
    found: Prepared
    gone: Prepared
    changed: Prepared | None

    @classmethod
    def of(cls, table: Table, *conditions: ColumnElement[bool], changing: Sequence[str] = ()) -> "Choice":
        """Return the choice of those rows for which all conditions hold, and which columns may change."""
        return cls(
            table,
            Prepared(select(table).where(*conditions)),
            Prepared(delete(table).where(*conditions).returning(*table.c)),
            Prepared(update(table).where(*conditions), changing) if changing else None,
        )


def ledger_key(leaf: bytes) -> bytes:
    """Return the key of the installation's ledger."""
    return expand(leaf, _LABEL)


def blank(key: bytes, domain: str, epoch: int) -> bytes:
    """Return the sealed ledger of a store that keeps nothing yet."""
    return _seal(key, domain, epoch, dict.fromkeys((table.name for table in KEPT), 0))


@dataclass(slots=True)
class Book:
    """A writing transaction on the kept records, the head's row locked; `close` before it commits."""

    connection: Connection
    key: bytes = field(repr=False)
    domain: str
    epoch: int
    sealed: bytes = field(repr=False)
    _totals: Totals = field(init=False, repr=False)
    _opened_at: tuple[int, Totals] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Open the totals; raise RecordAltered if they are not what was sealed."""
        self._totals = _open(self.key, self.domain, self.epoch, self.sealed)
        self._opened_at = self.epoch, dict(self._totals)

    def add(self, table: Table, rows: Sequence[Values]) -> None:
        """Insert rows."""
        names = [column.name for column in table.c]
        whole = [{name: row.get(name) for name in names} for row in rows]
        _INTO[table].run_all(self.connection, whole)
        self._count(table, sum(_weigh(self.key, table.name, list(row.values())) for row in whole))

    def drop(self, choice: Choice, parameters: Values) -> None:
        """Delete the chosen rows."""
        gone = choice.gone.rows(self.connection, parameters)
        self._count(choice.table, -sum(_weigh(self.key, choice.table.name, row) for row in gone))

    def change(self, choice: Choice, parameters: Values, values: Values) -> None:
        """Update the chosen rows, in columns that the choice says may change."""
        assert choice.changed is not None, "no column of this choice may change"  # noqa: S101
        rows = choice.found.named(self.connection, parameters)
        choice.changed.run(self.connection, {**parameters, **values})
        for row in rows:
            self._count(choice.table, -_weigh(self.key, choice.table.name, row.values()))
            self._count(choice.table, _weigh(self.key, choice.table.name, {**row, **values}.values()))

    def close(self) -> None:
        """Seal the totals anew if they, or the epoch, are others now."""
        if self._opened_at != (self.epoch, self._totals):
            sealed = _seal(self.key, self.domain, self.epoch, self._totals)
            _WRITE.run(self.connection, {"ledger": sealed})

    def _count(self, table: Table, weight: int) -> None:
        self._totals[table.name] = (self._totals[table.name] + weight) % _MODULUS


def require_kept(connection: Connection, key: bytes, domain: str, epoch: int) -> None:
    """Raise RecordAltered unless every kept record is as it was written, and none is missing or new."""
    totals = _open(key, domain, epoch, _READ.values(connection)[0])
    for table in KEPT:
        rows = connection.execute(select(table), execution_options={"yield_per": _AT_ONCE})
        if sum(_weigh(key, table.name, row) for row in rows) % _MODULUS != totals[table.name]:
            raise RecordAltered("a record of the custody store was altered, removed or added")


def _weigh(key: bytes, table: str, values: Iterable[object]) -> int:
    parts = [b"" if value is None else _spelled(value) for value in values]
    return int.from_bytes(blake2b(bind(table.encode(), *parts), key=key, digest_size=_BYTES).digest())


def _spelled(value: object) -> bytes:
    """Return a value with its kind, so that no two values of one column are spelled alike."""
    if isinstance(value, bytes):
        return b"b" + value
    return (f"s{value}" if isinstance(value, str) else f"i{value:d}").encode()


def _seal(key: bytes, domain: str, epoch: int, totals: Totals) -> bytes:
    return seal(key, b"".join(totals[table.name].to_bytes(_BYTES) for table in KEPT), _aad(domain, epoch))


def _open(key: bytes, domain: str, epoch: int, sealed: bytes) -> Totals:
    try:
        plain = open_sealed(key, sealed, _aad(domain, epoch))
    except IntegrityFault as exc:
        raise RecordAltered("the custody store's ledger is not the one that was sealed") from exc
    if len(plain) != _BYTES * len(KEPT):
        raise RecordAltered("the custody store's ledger is not in a format this version writes")
    return {table.name: int.from_bytes(plain[i * _BYTES : (i + 1) * _BYTES]) for i, table in enumerate(KEPT)}


def _aad(domain: str, epoch: int) -> bytes:
    return bind(_LABEL, domain.encode(), epoch.to_bytes(8))
