"""The ground a proof stands on: a throw-away installation and whole backups of it, nothing of the operator's.

On PostgreSQL it makes databases of its own beside the configured one, and drops them; a backup there is a
copy of the database's files by the server itself.
"""

import secrets
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import URL, create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from .. import backups, provider
from ..backups import Restored
from ..engine.custody.providers.protocol import Handle
from ..engine.errors import Fault, StartRefused
from ..settings import CustodyKind, Settings
from .thief import Loot

_MARK: Final = "shomei_proof_"


@dataclass(frozen=True, slots=True)
class Ground:
    """A throw-away installation's settings, and where its backups go."""

    settings: Settings
    folder: Path
    by_way_of: str | None

    @property
    def is_postgres(self) -> bool:
        """Say whether the database is on a server."""
        return make_url(self.settings.database).get_backend_name() == "postgresql"

    def back_up(self, name: str) -> str:
        """Copy the database, which nobody has open, as an operator would; return the copy's URL."""
        if not self.is_postgres:
            file = self.folder / f"{name}.db"
            backups.back_up(self.settings, file, lambda _done, _whole: None)
            return f"sqlite:///{file.absolute()}"
        ours = make_url(self.settings.database)
        copied = ours.set(database=f"{ours.database}_{name}")
        self._administer(f"CREATE DATABASE {copied.database} TEMPLATE {ours.database}")
        return copied.render_as_string(hide_password=False)

    def restore(self, backup: str) -> Restored:
        """Put a backup in the database's place and open it as an operator does."""
        if not self.is_postgres:
            file = Path(make_url(backup).database or "")
            return backups.restore(self.settings, file, lambda _done, _whole: None)
        ours = make_url(self.settings.database)
        self._administer(f"DROP DATABASE {ours.database}")
        self._administer(f"CREATE DATABASE {ours.database} TEMPLATE {make_url(backup).database}")
        return backups.restore(self.settings, None, lambda _done, _whole: None)

    def _administer(self, statement: str) -> None:
        _administer(make_url(self.settings.database).set(database=self.by_way_of), statement)


@contextmanager
def throw_away(settings: Settings, keep: Path | None = None) -> Generator[Ground]:
    """Yield a ground for an installation with the configured kinds of database and of key custody.

    Nothing of the configured installation is opened. At the end everything is gone, the last epoch key too
    unless the attack was kept in a file, to be made again.
    Raises StartRefused when the PostgreSQL role may not make databases.
    """
    with ExitStack() as undo:
        folder = Path(tempfile.mkdtemp(prefix="shomei-proof-"))
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        changes: dict[str, object] = {
            "home": folder / "home",
            "data_dir": None,
            "custody_dir": None,
            "key_dir": None,
            "custody_mirrors": "",
            "embedder": "none",
            "failpoints": settings.failpoints,
        }
        for name in ("database_url", "custody_url"):
            url = getattr(settings, name)
            if url is not None and make_url(url).get_backend_name() == "postgresql":
                changes[name] = undo.enter_context(_own_database(make_url(url)))
            else:
                changes[name] = None
        configured = make_url(settings.database_url).database if settings.database_url else None
        ground = Ground(settings.model_copy(update=changes), folder, configured)
        undo.callback(_end_keys, ground, keep)
        yield ground


@contextmanager
def _own_database(configured: URL) -> Generator[str]:
    own = configured.set(database=_MARK + secrets.token_hex(6))
    try:
        _administer(configured, f"CREATE DATABASE {own.database}")
    except SQLAlchemyError as exc:
        raise StartRefused(
            "the PostgreSQL role may not make databases of its own: grant it CREATEDB, or name another role"
        ) from exc
    try:
        yield own.render_as_string(hide_password=False)
    finally:
        for name in _databases(configured, str(own.database)):
            _administer(configured, f"DROP DATABASE IF EXISTS {name}")


def _databases(configured: URL, beginning: str) -> list[str]:
    engine = create_engine(configured, hide_parameters=True)
    try:
        with engine.connect() as connection:
            query = text("SELECT datname FROM pg_database WHERE starts_with(datname, :beginning)")
            return list(connection.execute(query, {"beginning": beginning}).scalars())
    finally:
        engine.dispose()


def _administer(url: URL, statement: str) -> None:
    """Run a statement outside any transaction, from a database that it is not about."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT", hide_parameters=True)
    try:
        with engine.connect() as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()


def _end_keys(ground: Ground, kept: Path | None) -> None:
    """Destroy the key of the last epoch, which a provider elsewhere would keep for ever."""
    if ground.settings.custody is CustodyKind.LOCAL_FILE or (kept is not None and kept.exists()):
        return
    try:
        loot = Loot.take(ground.settings.custody_database)
        holder = provider.opened(ground.settings)
        for name in (loot.key_name, *loot.names):
            holder.destroy(Handle(name))
    except (Fault, SQLAlchemyError):
        return  # it was never made, or its holder does not answer: nothing hangs on it
