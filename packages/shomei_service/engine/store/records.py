"""Between rows and frozen records: the column names are the field names."""

from typing import Any, TypeVar

from sqlalchemy import RowMapping

_Record = TypeVar("_Record")


def record(kind: type[_Record], row: RowMapping, /, **closed: object) -> _Record:
    """Return the row as a record; `closed` replaces columns whose values are enumerations.

    Columns that the record does not know, such as the tenant of a query over all of them, are left out.
    """
    fields: dict[str, Any] = {name: row[name] for name in kind.__dataclass_fields__ if name in row}  # type: ignore[attr-defined]
    return kind(**(fields | closed))
