"""Backups of the database, taken and put back; custody is never among them. docs/restore.md."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .bootstrap import inside, require_fitting
from .engine.errors import StartRefused, Unsupported
from .engine.model import TenantId
from .engine.recovery import Recovered, seen
from .engine.store import copies, tenants
from .engine.store.copies import Progress
from .engine.store.unit import Store
from .home import held, make_private
from .settings import Settings

_PART: Final = "shomei.db.restoring"


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What a backup holds: whose it is, how new, and how large."""

    installation_id: str
    epoch: int
    size: int


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did, for each tenant by id."""

    memories: dict[TenantId, int]
    origins: dict[TenantId, str]
    done: Recovered


def back_up(settings: Settings, to: Path, progress: Progress) -> BackedUp:
    """Copy the database, while it is in use, into a new file of mode 0600.

    Raises Unsupported on Postgres, which has its own tools; StartRefused where there is no database, or a
    file already.
    """
    if settings.database_url is not None and not settings.database_url.startswith("sqlite"):
        raise Unsupported(
            "the database is on Postgres: back that database up with pg_basebackup or pg_dump, and never "
            "custody's; docs/restore.md has the commands"
        )
    with Store.looking(settings.database) as store:
        source = store.path
        assert source is not None, "an SQLite database is a file"  # noqa: S101
        if settings.custody_store.resolve() in to.resolve().parents:
            raise StartRefused("a backup does not belong into the custody directory; name another place")
        copies.copy(source, to, progress)
    with Store.looking(f"sqlite:///{to.absolute()}") as copied:
        installation_id, done = seen(copied)
    return BackedUp(installation_id, done.epoch, to.stat().st_size)


def restore(settings: Settings, file: Path | None, progress: Progress) -> Restored:
    """Put a backup in the database's place, erase again what was erased since, and put in force what was.

    Without a file the database was put back by other means. Raises StartRefused, with everything left as it
    was, when a server runs, or when the file is no backup, another installation's, or newer than custody.
    """
    if file is None:
        return _recovered(settings)
    if settings.database_url is not None and not settings.database_url.startswith("sqlite"):
        raise Unsupported(
            "the database is on Postgres: put it back with Postgres's own tools, then run shomei restore "
            "without a file; docs/restore.md has the commands"
        )
    if not file.is_file():
        raise StartRefused("there is no such file")
    database = Path(settings.database.removeprefix("sqlite:///"))
    if database.exists() and database.samefile(file):
        raise StartRefused("that is the database itself; name a backup of it")
    make_private(database.parent)
    with held(settings, alone=True):
        _put_back(settings, file, database, progress)
        return _opened(settings)


def _put_back(settings: Settings, file: Path, database: Path, progress: Progress) -> None:
    part = database.with_name(_PART)
    part.unlink(missing_ok=True)
    try:
        copies.copy(file, part, progress)
        copies.require_database(part)
        require_fitting(settings, f"sqlite:///{part.absolute()}")
        copies.put_in_place(part, database)
    finally:
        for leftover in part.parent.glob(_PART + "*"):
            leftover.unlink()


def _recovered(settings: Settings) -> Restored:
    with held(settings, alone=True):
        return _opened(settings)


def _opened(settings: Settings) -> Restored:
    with inside(settings, is_alone=True) as (engine, done):
        assert done is not None, "whoever is alone recovers"  # noqa: S101
        with engine.store.snapshot() as connection:
            everyone = tenants.everyone(connection)
            counts = tenants.sizes(connection)
    return Restored(counts, {one.tenant_id: one.log_origin for one in everyone}, done)
