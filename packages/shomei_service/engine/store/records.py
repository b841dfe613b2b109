"""Between rows and frozen records: the column names are the field names."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import RowMapping

_Record = TypeVar("_Record")

Fields = RowMapping | Mapping[str, Any]  # a row, its values by the names of its columns


def record(kind: type[_Record], row: Fields, /, **closed: object) -> _Record:
    """Return the row as a record; `closed` replaces columns whose values are enumerations.

    Columns that the record does not know, such as the tenant of a query over all of them, are left out.
    """
    known = _fields_of(kind)
    # Not row.items(), which looks each value up by its name again.
    fields: dict[str, Any] = {
        name: value for name, value in zip(row.keys(), row.values(), strict=True) if name in known
    }
    fields.update(closed)
    return kind(**fields)


@cache
def _fields_of(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind))
