"""An installation on either database, its backups, and a thief who has both of its stores."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from shomei_service.proof.thief import Loot, SealedRow, Thief, key_files, reading, rows
from tests.crash.test_restore import put_back
from tests.engine.custody.postgres import Server
from tests.fakes import Home, new_home

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Stage:
    """A home whose database and custody store are files, or databases of one server."""

    home: Home
    folder: Path
    cluster: Server | None

    @classmethod
    def set_up(cls, folder: Path, cluster: Server | None) -> "Stage":
        if cluster is None:
            return cls(new_home(folder), folder, None)
        number = next(_numbers)
        urls = {name: cluster.database(f"stage_{number}_{name}") for name in ("database", "custody")}
        home = new_home(folder, database_url=urls["database"], custody_url=urls["custody"])
        return cls(home, folder, cluster)

    def back_up(self) -> str:
        """Copy the database, which nobody has open; return the copy's URL."""
        return self._copied(self.home.settings.database, "shomei.db")

    def copied_custody(self) -> str:
        """Copy the custody store."""
        return self._copied(self.home.settings.custody_database, "custody.db")

    def _copied(self, url: str, file: str) -> str:
        if self.cluster is not None:
            return self.cluster.copied(url, f"copy_{next(_numbers)}")
        to = self.folder / f"copy_{next(_numbers)}.db"
        source = self.home.settings.data if file == "shomei.db" else self.home.settings.custody_store
        return f"sqlite:///{_sqlite_copy(source / file, to)}"

    def put_back(self, backup: str) -> None:
        """Let a backup take the database's place."""
        if self.cluster is None:
            put_back(self.home, Path(backup.removeprefix("sqlite:///")))
        else:
            self._replaced(self.home.settings.database, backup)

    def put_back_custody(self, copy: str) -> None:
        """Let an old copy take the custody store's place, which nobody should do."""
        if self.cluster is not None:
            self._replaced(self.home.settings.custody_database, copy)
            return
        store = self.home.settings.custody_store
        for path in store.glob("custody.db*"):
            path.unlink()
        file = Path(copy.removeprefix("sqlite:///"))
        (store / "custody.db").write_bytes(file.read_bytes())
        (store / "custody.db").chmod(0o600)

    def _replaced(self, url: str, copy: str) -> None:
        assert self.cluster is not None
        ours, theirs = (one.partition("?")[0].rpartition("/")[2] for one in (url, copy))
        self.cluster.say(f"DROP DATABASE {ours}")
        self.cluster.say(f"CREATE DATABASE {ours} TEMPLATE {theirs} OWNER service STRATEGY file_copy")

    def loot(self) -> Loot:
        """Take what the custody store holds now."""
        return Loot.take(self.home.settings.custody_database)

    def keys(self) -> list[bytes]:
        """Take the epoch keys there are now."""
        return key_files(self.home.settings.keys / "custody")

    def rows(self, url: str | None = None) -> list[SealedRow]:
        """Take the rows of a copy, or those there are now."""
        return rows(url or self.home.settings.database)


def opened(loots: Iterable[Loot], keys: list[bytes], sealed: list[SealedRow]) -> set[str]:
    """Return the rows that somebody opens who has these stores and these keys."""
    return set(Thief(list(loots), reading(keys)).opened(sealed))


def elsewhere(home: Home, database: str) -> Home:
    """Return the same installation with its database in another place."""
    return replace(home, settings=home.settings.model_copy(update={"database_url": database}))


def _sqlite_copy(source: Path, to: Path) -> Path:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(source)) as reading_from, closing(sqlite3.connect(to)) as writing_to:
        reading_from.backup(writing_to)
    return to
