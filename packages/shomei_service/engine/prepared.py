"""Statements that are put into words once. docs/decisions/0044.

SQLite answers within microseconds, and what SQLAlchemy does around each execution takes many times as
long: so there the driver is given the text itself. A server's answer takes longer, and SQLAlchemy asks it.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    Boolean,
    CompoundSelect,
    Connection,
    Delete,
    Dialect,
    Insert,
    Select,
    Table,
    Update,
    insert,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

Parameters = Mapping[str, object]
Statement = Select[*tuple[Any, ...]] | CompoundSelect[*tuple[Any, ...]] | Insert | Update | Delete
_Row = tuple[Any, ...]
_Converters = Sequence[tuple[int, Callable[[Any], Any]]]

_NOTHING: Final[Parameters] = {}


@dataclass(frozen=True, slots=True)
class _Words:
    """A statement as SQLite is told it, and how values differ on their way to it and back."""

    text: str
    order: Sequence[str]
    constants: Parameters
    given: _Converters
    found: _Converters

    def values(self, parameters: Parameters) -> Sequence[object]:
        """Return the parameters in the order in which the text asks for them."""
        if self.constants:
            parameters = {**self.constants, **parameters}
        values = [parameters[name] for name in self.order]
        for at, convert in self.given:
            values[at] = convert(values[at])
        return values

    def read(self, rows: list[_Row]) -> list[_Row]:
        """Return the rows with the values that Python has for them."""
        return [self._converted(row) for row in rows] if self.found else rows

    def _converted(self, row: _Row) -> _Row:
        values = list(row)
        for at, convert in self.found:
            values[at] = convert(values[at])
        return tuple(values)


class Prepared:
    """One statement, to be executed as often as one likes; it raises what SQLAlchemy raises."""

    __slots__ = ("_keys", "_names", "_statement", "_words")

    def __init__(self, statement: Statement, keys: Iterable[str] = ()) -> None:
        """Take a statement, and the columns that it sets to parameters of their names."""
        self._statement: Final = statement
        self._keys: Final = list(keys)
        self._names: Final = [str(column.key) for column in statement.exported_columns]
        self._words: _Words | None = None

    @classmethod
    def into(cls, table: Table, keys: Iterable[str] | None = None) -> "Prepared":
        """Return the statement that adds rows to a table: whole ones, unless their columns are named."""
        return cls(insert(table), table.c.keys() if keys is None else keys)

    def rows(self, connection: Connection, parameters: Parameters = _NOTHING) -> list[_Row]:
        """Return every row."""
        if connection.dialect.name != "sqlite":
            return [tuple(row) for row in connection.execute(self._statement, parameters)]
        words = self._words or self._put(connection.dialect)
        try:
            found = driver_of(connection).execute(words.text, words.values(parameters)).fetchall()
        except sqlite3.Error as exc:
            raise _translated(connection, exc) from exc
        return words.read(found)

    def first(self, connection: Connection, parameters: Parameters = _NOTHING) -> _Row | None:
        """Return the first row; None if there is none."""
        found = self.rows(connection, parameters)
        return found[0] if found else None

    def named(self, connection: Connection, parameters: Parameters = _NOTHING) -> list[dict[str, Any]]:
        """Return every row, its values by the names of its columns."""
        return [dict(zip(self._names, row, strict=True)) for row in self.rows(connection, parameters)]

    def told(self, driver: sqlite3.Connection, dialect: Dialect) -> list[dict[str, Any]]:
        """Return every row that SQLite itself tells, to a statement without parameters."""
        words = self._words or self._put(dialect)
        found = words.read(driver.execute(words.text, words.values(_NOTHING)).fetchall())
        return [dict(zip(self._names, row, strict=True)) for row in found]

    def values(self, connection: Connection, parameters: Parameters = _NOTHING) -> list[Any]:
        """Return the first value of every row."""
        return [row[0] for row in self.rows(connection, parameters)]

    def run(self, connection: Connection, parameters: Parameters = _NOTHING) -> None:
        """Execute it for its effect."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, parameters)
            return
        words = self._words or self._put(connection.dialect)
        try:
            driver_of(connection).execute(words.text, words.values(parameters))
        except sqlite3.Error as exc:
            raise _translated(connection, exc) from exc

    def run_all(self, connection: Connection, several: Sequence[Parameters]) -> None:
        """Execute it for its effect with each of these, in order; with none of them, not at all."""
        if not several:
            return
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, several)
            return
        words = self._words or self._put(connection.dialect)
        try:
            driver_of(connection).executemany(words.text, map(words.values, several))
        except sqlite3.Error as exc:
            raise _translated(connection, exc) from exc

    def add(self, connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        """Add rows whose values stand in the order of the columns that were named; with none, do nothing."""
        is_sqlite = connection.dialect.name == "sqlite"  # alone is worded here, and kept
        words = (self._words or self._put(connection.dialect)) if is_sqlite else None
        if words is None or words.given or words.order != self._keys:
            self.run_all(connection, [dict(zip(self._keys, row, strict=True)) for row in rows])
            return
        try:
            driver_of(connection).executemany(words.text, rows)
        except sqlite3.Error as exc:
            raise _translated(connection, exc) from exc

    def _put(self, dialect: Dialect) -> _Words:
        compiled = self._statement.compile(dialect=dialect, column_keys=self._keys or None)
        assert isinstance(compiled, SQLCompiler), "a statement, not a definition"  # noqa: S101
        order = compiled.positiontup or []
        asked = [_towards(compiled.binds[name].type, dialect) for name in order]
        told = [
            column.type.dialect_impl(dialect).result_processor(dialect, None)
            for column in self._statement.exported_columns
        ]
        # Two threads may do this at once, and come to the same.
        self._words = _Words(
            text=compiled.string,
            order=order,
            constants={
                name: compiled.binds[name].effective_value
                for name in order
                if not compiled.binds[name].required
            },
            given=[(at, convert) for at, convert in enumerate(asked) if convert is not None],
            found=[(at, convert) for at, convert in enumerate(told) if convert is not None],
        )
        return self._words


def _towards(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """Return how a value is changed for SQLite, if it is; its driver takes booleans as they are."""
    return None if isinstance(kind, Boolean) else kind.dialect_impl(dialect).bind_processor(dialect)


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Return SQLite's own connection."""
    driver: Any = connection.connection.dbapi_connection
    return driver


def _translated(connection: Connection, failure: sqlite3.Error) -> BaseException:
    """Return the driver's error as SQLAlchemy would raise it, without the statement."""
    return DBAPIError.instance(
        None, None, failure, sqlite3.Error, hide_parameters=True, dialect=connection.dialect
    )
