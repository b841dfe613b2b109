"""The common design, as the control: a key for each row, wrapped by one key that lives on. CUSTODY.md §1.

It lies in the same database as ours, goes into the same backup and deletes as it should. What differs is only
that the key over the rows' keys survives an erasure, as it does in most stores that promise one.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine, create_engine, text

from ..engine.custody.sealing import KEY_BYTES, open_sealed, seal
from ..engine.errors import IntegrityFault

_MAKE: Final = "CREATE TABLE ordinary_rows (name VARCHAR(64) PRIMARY KEY, dek {blob}, sealed {blob})"


class Ordinary:
    """A table of rows under one living key."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key: Final = key or os.urandom(KEY_BYTES)

    def put(self, url: str, texts: dict[str, bytes]) -> None:
        """Make the table and store rows in it."""
        with _writing(url) as (connection, engine):
            blob = "BLOB" if engine.dialect.name == "sqlite" else "BYTEA"
            connection.execute(text(_MAKE.format(blob=blob)))
            for name, plain in texts.items():
                dek = os.urandom(KEY_BYTES)
                sealed = {
                    "dek": seal(self.key, dek, name.encode()),
                    "sealed": seal(dek, plain, name.encode()),
                }
                put = "INSERT INTO ordinary_rows (name, dek, sealed) VALUES (:name, :dek, :sealed)"
                connection.execute(text(put), {"name": name, **sealed})

    def erase(self, url: str) -> None:
        """Delete every row, as an ordinary store erases."""
        with _writing(url) as (connection, _):
            connection.execute(text("DELETE FROM ordinary_rows"))

    def opened(self, url: str) -> dict[str, bytes]:
        """Return what the living key opens of a database that holds the table."""
        opened: dict[str, bytes] = {}
        with _writing(url) as (connection, _):
            found = connection.execute(text("SELECT name, dek, sealed FROM ordinary_rows")).all()
        for name, dek, sealed in found:
            try:
                key = open_sealed(self.key, bytes(dek), name.encode())
                opened[name] = open_sealed(key, bytes(sealed), name.encode())
            except IntegrityFault:
                continue
        return opened


@contextmanager
def _writing(url: str) -> Generator[tuple[Connection, Engine]]:
    engine = create_engine(url, hide_parameters=True)
    try:
        with engine.begin() as connection:
            yield connection, engine
    finally:
        engine.dispose()
