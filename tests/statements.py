"""The SQL that a database is sent, without its values: equal work takes equal time."""

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from shomei_service.engine.store.unit import Store

_VALUE = re.compile(r"[xX]?'(?:[^']|'')*'|\b\d+\b")


@contextmanager
def statements(store: Store, into: list[str]) -> Iterator[None]:
    """Take down what this thread sends while the block lasts; SQLite itself is asked."""
    thread = threading.get_ident()

    def take_down(statement: str) -> None:
        if threading.get_ident() == thread:
            into.append(_VALUE.sub("?", statement))

    def trace(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_trace_callback(take_down)

    def untrace(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_trace_callback(None)

    def take_down_query(_c: object, _k: object, statement: str, *_rest: object) -> None:
        take_down(statement)

    engine = store._engine
    listeners: list[tuple[str, Any]] = [("before_cursor_execute", take_down_query)]
    if store.is_sqlite:
        listeners = [("checkout", trace), ("checkin", untrace)]
    for name, listener in listeners:
        event.listen(engine, name, listener)
    try:
        yield
    finally:
        for name, listener in listeners:
            event.remove(engine, name, listener)
