"""From every schema to the newest: what was there is there, whole or not at all, never backwards. T-16."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Boolean, Connection, Integer, LargeBinary, MetaData, Table, select, text

from shomei_service.engine.errors import StartRefused
from shomei_service.engine.store import schema
from shomei_service.engine.store.unit import Store
from tests.crash.runs import KILLED, Server, Stored, snapshot
from tests.crash.strace import counted, killing, logging, needs_strace, spread
from tests.engine.custody.postgres import Server as PostgreSQL

TENANT = "ab" * 16
_NUMBERS = count(1)
REVISIONS = [
    one.revision for one in reversed(list(ScriptDirectory.from_config(schema._config()).walk_revisions()))
]
# What a migration works out anew from the rest, or put elsewhere before anything was released.
ANEW = {("audit", "prev_hash"), *(("intents", name) for name in ("subject", "matched_count", "erased_count"))}
VALUES = {"memory_ids": "[]", "life": "live", "policies": "{}", "state": "open"}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'old.db'}"
    server: PostgreSQL = request.getfixturevalue("postgres")
    return server.database(f"migrated_{next(_NUMBERS)}")


def to_revision(connection: Connection, revision: str) -> None:
    config = schema._config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def tables(connection: Connection) -> list[Table]:
    found = MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != "alembic_version"]


def filled(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Put two rows into every table there is, one where a tenant has one; return them."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for table in tables(connection):
        number = 1 if table.name in {"installation", "tenants", "stated_rotations"} else 2
        rows[table.name] = [
            {column.name: _value(table.name, column, at) for column in table.c} for at in range(number)
        ]
        connection.execute(table.insert(), rows[table.name])
    return rows


def _value(table: str, column: Any, at: int) -> Any:
    if column.name == "tenant_id":
        return TENANT
    if column.name in VALUES:
        return VALUES[column.name]
    if isinstance(column.type, Boolean):
        return True
    if isinstance(column.type, Integer):
        return at
    if isinstance(column.type, LargeBinary):
        return bytes([at]) * 32
    return f"{column.name[:8]}{at}"[: column.type.length]


def stored(connection: Connection, rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return what is left of the rows, in the columns they had."""
    left: dict[str, list[dict[str, Any]]] = {}
    for table in tables(connection):
        if table.name in rows:
            names = [name for name in rows[table.name][0] if (table.name, name) not in ANEW]
            found = connection.execute(select(*(table.c[name] for name in names))).mappings()
            left[table.name] = sorted((dict(row) for row in found), key=repr)
    return left


def wanted(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: sorted(
            ({key: value for key, value in row.items() if (name, key) not in ANEW} for row in each), key=repr
        )
        for name, each in rows.items()
    }


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_every_older_schema_becomes_the_newest_and_loses_nothing(url: str, revision: str) -> None:
    store = Store(url)
    with store.transaction() as connection:
        to_revision(connection, revision)
        rows = filled(connection)
    with pytest.raises(StartRefused), Store.looking(url):
        pass
    assert store.migrate() == schema.newest()
    with store.transaction() as connection:
        assert schema.drift(connection) == []
        assert stored(connection, rows) == wanted(rows)
    assert store.migrate() == schema.newest(), "once more changes nothing"
    store.close()


def test_a_migration_that_fails_is_none(url: str) -> None:
    """It stumbles over a table of that name: what it had done before is undone with it."""
    store = Store(url)
    with store.transaction() as connection:
        to_revision(connection, REVISIONS[0])
        rows = filled(connection)
        connection.execute(text("CREATE TABLE leases (a INTEGER)"))
    with pytest.raises(Exception, match="database"):
        store.migrate()
    with store.transaction() as connection:
        assert schema.current(connection) == REVISIONS[0]
        assert stored(connection, rows) == wanted(rows)
        connection.execute(text("DROP TABLE leases"))
    assert store.migrate() == schema.newest()
    with store.transaction() as connection:
        assert stored(connection, rows) == wanted(rows)
    store.close()


def test_a_newer_schema_is_left_alone(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    with closing(sqlite3.connect(home.settings.data / "shomei.db")) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    before = snapshot(home)
    with pytest.raises(StartRefused), home.opened():
        pass
    assert snapshot(home) == before


@pytest.fixture(scope="module")
def migrating() -> Iterator[Server]:
    """An interpreter whose children migrate."""
    server = Server()
    yield server
    server.stop()


@needs_strace
def test_a_kill_during_a_migration(migrating: Server, small: Stored, folder: Path) -> None:
    """At writes spread over the whole of it: the old schema or the new one, with everything in it."""
    original = folder / "original"
    original.mkdir()
    home = small.copied(original)
    database = home.settings.data / "shomei.db"
    database.unlink()
    store = Store(home.settings.database)
    with store.transaction() as connection:
        to_revision(connection, REVISIONS[0])
        rows = filled(connection)
    store.close()
    old = database.read_bytes()
    run = migrating.run(home, [["migrate"]], trace=logging(folder / "log", "pwrite64"))
    assert run.code == 0, run.errors
    for nth in spread(counted(folder / "log")["pwrite64"], 6):
        for path in home.settings.data.glob("shomei.db*"):
            path.unlink()
        database.write_bytes(old)
        database.chmod(0o600)
        assert migrating.run(home, [["migrate"]], trace=killing("pwrite64", nth)).code == KILLED
        store = Store(home.settings.database)
        with store.transaction() as connection:
            assert schema.current(connection) in {REVISIONS[0], schema.newest()}
            assert stored(connection, rows) == wanted(rows)
        assert store.migrate() == schema.newest()
        store.close()


def test_every_log_of_before_is_at_its_tenants_first_commitment_key(url: str) -> None:
    store = Store(url)
    with store.transaction() as connection:
        to_revision(connection, "0006")
        rows = filled(connection)
    store.migrate()
    with store.transaction() as connection:
        (table,) = [one for one in tables(connection) if one.name == "commitment_ranges"]
        found = {row.origin: row for row in connection.execute(select(table))}
    store.close()
    (tenant,) = rows["tenants"]
    assert found.keys() == {tenant["log_origin"], *(one["origin"] for one in rows["receipts"])}
    assert {tuple(row)[2:] for row in found.values()} == {(0, tenant["commit_key_id"], 0)}
