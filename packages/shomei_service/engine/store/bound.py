"""Statements are built once, with these parameters: building one costs several times what running it does."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import ARRAY, BindParameter, Boolean, ColumnElement, Dialect, String, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from .unit import Unit

TENANT: Final[BindParameter[str]] = bindparam("tenant")
WANTED: Final[BindParameter[str]] = bindparam("wanted")
ANY: Final[BindParameter[str]] = bindparam("any", expanding=True)
_Item = TypeVar("_Item")
_AT_ONCE: Final = 500  # bound parameters in one statement; SQLite's old default allows 999


class _Several(TypeDecorator[Sequence[str]]):
    """Any number of strings as one parameter: an array where there are arrays, JSON in SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else ARRAY(String))

    def process_bind_param(self, value: Sequence[str] | None, dialect: Dialect) -> str | list[str]:
        several = [str(one) for one in value or ()]
        return json.dumps(several) if dialect.name == "sqlite" else several


_SEVERAL: Final[BindParameter[Sequence[str]]] = bindparam("several", type_=_Several())


class _OneOf(FunctionElement[bool]):
    """Whether a column is one of the strings in the parameter `several`."""

    inherit_cache = True
    type = Boolean()
    _is_implicitly_boolean = True  # a condition as it is: "= 1" behind it would keep SQLite from its index


@compiles(_OneOf, "sqlite")
def _in_json(element: _OneOf, compiler: SQLCompiler, **_: object) -> str:
    column, several = (compiler.process(one) for one in element.clauses)
    return f"({column} IN (SELECT value FROM json_each({several})))"  # noqa: S608 - names of ours


@compiles(_OneOf)
def _in_array(element: _OneOf, compiler: SQLCompiler, **_: object) -> str:
    column, several = (compiler.process(one) for one in element.clauses)
    return f"({column} = ANY ({several}))"


def one_of(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a column is one of the strings given by `any_of`, however many there are."""
    return _OneOf(column, _SEVERAL)


def within(unit: Unit, wanted: object) -> dict[str, object]:
    """Return the parameters of a statement about one thing of the unit's tenant."""
    return {"tenant": unit.tenant, "wanted": wanted}


def any_of(unit: Unit, several: Sequence[str]) -> dict[str, object]:
    """Return the parameters of a statement about any of several things of the unit's tenant."""
    return {"tenant": unit.tenant, "several": several}


def among(unit: Unit, items: Sequence[_Item]) -> Iterable[dict[str, object]]:
    """Yield the parameters of a statement about any of the items, as often as it has to be run."""
    for start in range(0, len(items), _AT_ONCE):
        yield {"tenant": unit.tenant, "any": items[start : start + _AT_ONCE]}
