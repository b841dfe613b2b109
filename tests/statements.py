"""The SQL that a database is sent, without its values: equal work takes equal time."""

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, event

from shomei_service.engine.prepared import driver_of
from shomei_service.engine.store.unit import Store

_VALUE = re.compile(r"[xX]?'(?:[^']|'')*'|\b\d+\b")


@contextmanager
def statements(store: Store, into: list[str]) -> Iterator[None]:
    """Take down what this thread sends while the block lasts; SQLite itself is asked."""
    thread = threading.get_ident()

    def take_down(statement: str) -> None:
        if threading.get_ident() == thread:
            into.append(_VALUE.sub("?", statement))

    traced: list[sqlite3.Connection] = []

    def traced_one(taken: Callable[[], Connection]) -> Connection:
        connection = taken()
        traced.append(driver_of(connection))
        traced[-1].set_trace_callback(take_down)
        return connection

    def take_down_query(_c: object, _k: object, statement: str, *_rest: object) -> None:
        take_down(statement)

    lenders: list[Any] = [store._writes, store._reads]
    listener: tuple[Any, str, Any] = (store._engine, "before_cursor_execute", take_down_query)
    if store.is_sqlite:
        for lender in lenders:
            lender._taken = partial(traced_one, lender._taken)
    else:
        event.listen(*listener)
    try:
        yield
    finally:
        if store.is_sqlite:
            for lender in lenders:
                del lender._taken
        else:
            event.remove(*listener)
        for connection in traced:
            connection.set_trace_callback(None)
