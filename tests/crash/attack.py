"""The common design down to its pages: what a thief carves out of a log of its database. CUSTODY.md §7."""

import sqlite3
from contextlib import closing
from pathlib import Path


def rows(database: Path, query: str) -> list[sqlite3.Row]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query).fetchall()


class Ordinary:
    """The common design: a DEK for each row, wrapped by one key that lives on. It deletes as it should."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self.database = folder / "ordinary.db"
        self.key = key
        self._connection = sqlite3.connect(self.database, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            self._connection.execute("PRAGMA " + pragma)
        self._connection.execute("CREATE TABLE rows (id TEXT PRIMARY KEY, dek BLOB, sealed BLOB)")

    def put(self, name: str, wrapped: bytes, sealed: bytes) -> None:
        """Store a row."""
        self._connection.execute("INSERT INTO rows VALUES (?, ?, ?)", [name, wrapped, sealed])

    def erase(self, name: str) -> None:
        """Delete a row."""
        self._connection.execute("DELETE FROM rows WHERE id = ?", [name])

    def tidy(self) -> None:
        """Empty the log."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
