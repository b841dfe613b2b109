"""Between rows and frozen records: the column names are the field names."""

import dataclasses
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import RowMapping

_Record = TypeVar("_Record")


def record(kind: type[_Record], row: RowMapping, /, **closed: object) -> _Record:
    """Return the row as a record; `closed` replaces columns whose values are enumerations.

    Columns that the record does not know, such as the tenant of a query over all of them, are left out.
    """
    known = _fields_of(kind)
    fields: dict[str, Any] = {name: value for name, value in row.items() if name in known}
    return kind(**(fields | closed))


@cache
def _fields_of(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind))
