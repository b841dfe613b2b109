"""Statements are built once, with these parameters: building one costs several times what running it does."""

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Dialect,
    Integer,
    String,
    Text,
    bindparam,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from .unit import Unit

TENANT: Final[BindParameter[str]] = bindparam("tenant")
WANTED: Final[BindParameter[str]] = bindparam("wanted")


class _Several(TypeDecorator[Sequence[Any]]):
    """Any number of strings, or of integers, as one parameter: an array, or JSON in SQLite."""

    impl = Text
    cache_ok = True

    def __init__(self, *, integers: bool) -> None:
        super().__init__()
        self.integers = integers

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        # Not the column's own length: a cast to it would cut a longer string down to one that is there.
        return dialect.type_descriptor(ARRAY(BigInteger if self.integers else String))

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> str | list[Any]:
        several = list(value or ())
        return json.dumps(several) if dialect.name == "sqlite" else several


class _OneOf(FunctionElement[bool]):
    """Whether a column is one of those in the parameter `several`."""

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
    """Return the condition that a column is one of those given as `several`, however many there are."""
    integers = isinstance(column.type, Integer)
    several: BindParameter[Sequence[Any]] = bindparam("several", type_=_Several(integers=integers))
    return _OneOf(column, several)


def within(unit: Unit, wanted: object) -> dict[str, object]:
    """Return the parameters of a statement about one thing of the unit's tenant."""
    return {"tenant": unit.tenant, "wanted": wanted}


def any_of(unit: Unit, several: Sequence[str] | Sequence[int]) -> dict[str, object]:
    """Return the parameters of a statement about any of several things of the unit's tenant."""
    return {"tenant": unit.tenant, "several": several}
