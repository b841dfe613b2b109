"""The database as somebody who got hold of it sees and edits it: no engine, no schema, no checks."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, create_engine, text

from tests.fakes import Home

Row = dict[str, Any]


class Raw:
    """Plain SQL on the database of an installation."""

    def __init__(self, home: Home) -> None:
        # On PostgreSQL as its superuser, for whom no wall between tenants stands.
        self._engine = create_engine(home.settings.database.replace("://service@", "://shomei@"))
        self.is_sqlite = self._engine.dialect.name == "sqlite"

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _writing(self) -> Generator[Connection]:
        with self._engine.begin() as connection:
            if not self.is_sqlite:
                connection.exec_driver_sql("SET LOCAL session_replication_role = replica")  # no foreign keys
            yield connection

    def row(self, memory_id: str) -> Row:
        with self._engine.connect() as connection:
            wanted = text("SELECT * FROM memories WHERE memory_id = :id")
            return dict(connection.execute(wanted, {"id": memory_id}).mappings().one())

    def ids(self) -> set[str]:
        with self._engine.connect() as connection:
            return set(connection.exec_driver_sql("SELECT memory_id FROM memories").scalars())

    def put(self, which: str, **values: object) -> None:
        """Overwrite columns of a row."""
        named = ", ".join(f"{name} = :{name}" for name in values)
        with self._writing() as connection:
            done = connection.execute(
                text(f"UPDATE memories SET {named} WHERE memory_id = :wanted_id"),
                values | {"wanted_id": which},
            )
            assert done.rowcount == 1

    def remove(self, memory_id: str) -> None:
        with self._writing() as connection:
            connection.execute(text("DELETE FROM memories WHERE memory_id = :id"), {"id": memory_id})

    def insert(self, row: Row) -> None:
        """Put a whole row back."""
        names = ", ".join(row)
        with self._writing() as connection:
            connection.execute(
                text(f"INSERT INTO memories ({names}) VALUES ({', '.join(':' + name for name in row)})"), row
            )
