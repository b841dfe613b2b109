"""Bring a database to the newest schema, or say that it is not there. Migrations run in one transaction."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from . import governance_tables, signing_tables

assert governance_tables.metadata is signing_tables.metadata, "every table is known"  # noqa: S101
_MIGRATIONS = Path(__file__).with_name("migrations")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


@cache
def newest() -> str:
    """Return the id of the newest migration this code knows."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "the package ships its migrations"  # noqa: S101
    return head


def current(connection: Connection) -> str | None:
    """Return the id of the migration the database is at; None for an empty database."""
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(connection: Connection) -> None:
    """Run every migration the database lacks, inside the caller's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def drift(connection: Connection) -> list[object]:
    """Return what differs between the database and the tables; empty when they agree."""
    return list(compare_metadata(MigrationContext.configure(connection), governance_tables.metadata))


def is_known(revision: str) -> bool:
    """Say whether this code has the migration that a database is at."""
    known = ScriptDirectory.from_config(_config()).walk_revisions()
    return revision in {script.revision for script in known}
