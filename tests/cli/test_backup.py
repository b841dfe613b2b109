"""`shomei backup` and `shomei restore`, as an operator runs them. CONTRACT.md §5."""

import io
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stderr
from pathlib import Path

import httpx
import pytest

from shomei_service import backups
from shomei_service.backups import BackedUp, Restored
from shomei_service.engine.errors import EngineError, StartRefused, Unsupported
from shomei_service.engine.recovery import Recovered
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import restrict
from shomei_service.settings import Settings
from tests import oracle
from tests.cli.test_commands import _answer, _run
from tests.fakes import Home, new_home
from tests.service import environment, serving


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


def bytes_of(home: Home) -> dict[Path, bytes]:
    files = (path for path in home.settings.home.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if not path.name.endswith("-shm")}


def back_up(home: Home, to: Path) -> BackedUp:
    return backups.back_up(home.settings, to, _unseen)


def restore(home: Home, file: Path | None) -> Restored:
    with redirect_stderr(io.StringIO()):
        return backups.restore(home.settings, file, _unseen)


def _unseen(_done: int, _whole: int) -> None:
    pass


def refuses(home: Home, act: Callable[[Home, Path], object], file: Path) -> str:
    before = bytes_of(home)
    with pytest.raises(EngineError) as refusal:
        act(home, file)
    assert bytes_of(home) == before
    return refusal.value.message


def texts(home: Home) -> dict[str, str]:
    with home.opened() as house:
        return oracle.settled(house, home.settings)


def test_a_backup_is_taken_while_the_service_runs_and_put_back(home: Home, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    with serving(home, tmp_path) as service, httpx.Client(base_url=service.url, trust_env=False) as client:
        client.headers["authorization"] = f"Bearer {home.admin_token}"
        for text in ("a kettle", "a lamp"):
            client.post("/v1/memories", json=_message(text, "alice")).raise_for_status()
        kept = client.post("/v1/memories", json=_message("a stone", "bob")).raise_for_status().json()
        made = _answer(home, "backup", str(backup))
        assert made["bytes"] == backup.stat().st_size
        assert backup.stat().st_mode & 0o777 == 0o600
        client.post("/v1/forget", json={"user_id": "alice"}).raise_for_status()
    before = oracle.read(home.settings)
    done = _answer(home, "restore", str(backup))
    assert (done["erased_again"], done["receipt_logs_restarted"]) == (2, 1)
    assert done["tenants"] == [
        {
            "tenant": home.tenant,
            "memories": 1,
            "log": "restarted",
            "origin": oracle.read(home.settings).tenants[home.tenant]["log_origin"],
        }
    ]
    assert texts(home) == {kept["results"][0]["id"]: "a stone"}
    after = oracle.read(home.settings)
    assert {one["tombstone_id"] for one in after.tombstones} == {
        one["tombstone_id"] for one in before.tombstones
    }


def test_nothing_is_put_back_under_a_running_server(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shomei_service.home._WAIT_S", 0.05)
    with home.opened():
        back_up(home, tmp_path / "backup.db")
        for file in (tmp_path / "backup.db", None):
            with pytest.raises(StartRefused, match="another shomei serve already runs"):
                restore(home, file)


def _message(text: str, user: str) -> dict[str, object]:
    return {"messages": text, "user_id": user}


def test_a_log_of_the_old_database_is_not_read_into_the_restored_one(home: Home, tmp_path: Path) -> None:
    """A write-ahead log left behind would be replayed into the file that takes the database's place."""
    with home.opened() as house:
        house.remember("a kettle")
    backup = tmp_path / "backup.db"
    back_up(home, backup)
    database = home.settings.data / "shomei.db"
    other = sqlite3.connect(database)
    other.execute("BEGIN")
    other.execute("SELECT * FROM tenants").fetchall()
    with home.opened() as house:
        house.remember("a lamp")
    shutil.copy(f"{database}-wal", tmp_path / "log")
    other.close()
    shutil.copy(tmp_path / "log", f"{database}-wal")
    Path(f"{database}-shm").touch()
    restore(home, backup)
    assert set(texts(home).values()) == {"a kettle"}
    assert [path.name for path in home.settings.data.glob("shomei.db*")] == ["shomei.db"]


def test_a_restore_into_an_empty_place(home: Home, tmp_path: Path) -> None:
    """The database's disk is lost; custody and keys are not."""
    with home.opened() as house:
        kept = house.remember("a kettle", "alice")
        gone = house.remember("a lamp", "bob")
        back_up(home, tmp_path / "backup.db")
        erase(house.engine, house.admin, gone)
        restrict(house.engine, house.admin, kept)
    shutil.rmtree(home.settings.data)
    done = restore(home, tmp_path / "backup.db").done
    assert (done.erased_again, done.lines_replayed) == (1, 1)
    assert (home.settings.data.stat().st_mode & 0o777) == 0o700
    assert set(texts(home)) == {kept}
    (row,) = oracle.read(home.settings).memories
    assert row["grounds"] > 0


def test_a_death_in_a_restore_is_taken_up_by_whatever_opens_next(home: Home, tmp_path: Path) -> None:
    with home.opened() as house:
        kept, gone = house.remember("a kettle"), house.remember("a lamp")
        back_up(home, tmp_path / "backup.db")
        erase(house.engine, house.admin, gone)
    for nth in (1, 2):
        failpoint = {"SHOMEI_FAILPOINTS": f"boot.reerase:kill:{nth}"}
        assert _run(home, "restore", str(tmp_path / "backup.db"), **failpoint).returncode == -signal.SIGKILL
    assert set(texts(home)) == {kept}


def test_what_is_no_backup_of_ours_is_refused(home: Home, tmp_path: Path) -> None:
    with home.opened() as house:
        house.remember("a kettle")
    good = tmp_path / "good.db"
    back_up(home, good)
    damaged = tmp_path / "damaged.db"
    intact = good.read_bytes()
    damaged.write_bytes(intact[:8192] + b"\xff" * 4096 + intact[12288:])
    text = tmp_path / "text.db"
    text.write_bytes(b"no database at all" * 400)
    (tmp_path / "b").mkdir()
    other = new_home(tmp_path / "b")
    back_up(other, tmp_path / "other.db")
    newer = tmp_path / "newer.db"
    shutil.copy(good, newer)
    with closing(sqlite3.connect(newer)) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
        raw.commit()
    assert "no such file" in refuses(home, restore, tmp_path / "missing.db")
    assert "damaged" in refuses(home, restore, damaged)
    assert "damaged" in refuses(home, restore, text)
    assert "another installation" in refuses(home, restore, tmp_path / "other.db")
    assert "no backup that this version" in refuses(home, restore, newer)
    custody = home.settings.custody_store / "custody.db"
    assert "no backup that this version" in refuses(home, restore, custody)
    database = home.settings.data / "shomei.db"
    assert "the database itself" in refuses(home, restore, database)
    assert set(texts(home).values()) == {"a kettle"}


def test_a_backup_newer_than_custody_is_refused(home: Home, tmp_path: Path) -> None:
    """Custody was rolled back: the line says what to do, and the database is as it was."""
    custody = home.settings.custody_store
    shutil.copytree(custody, tmp_path / "old")
    with home.opened() as house:
        house.remember("a kettle", "alice")
        forget(house.engine, house.admin, "alice")
    back_up(home, tmp_path / "backup.db")
    shutil.copytree(custody, tmp_path / "new")
    shutil.rmtree(custody)
    shutil.copytree(tmp_path / "old", custody)
    assert "put the newest copy back" in refuses(home, restore, tmp_path / "backup.db")
    shutil.rmtree(custody)
    shutil.copytree(tmp_path / "new", custody)
    assert restore(home, tmp_path / "backup.db").done.erased_again == 0


def test_a_backup_replaces_no_file_and_stays_out_of_custody(home: Home, tmp_path: Path) -> None:
    there = tmp_path / "there.db"
    there.write_bytes(b"something else")
    assert "never replaces" in refuses(home, back_up, there)
    assert there.read_bytes() == b"something else"
    assert "custody directory" in refuses(home, back_up, home.settings.custody_store / "b.db")
    assert "can not be written" in refuses(home, back_up, tmp_path / "missing" / "b.db")


def test_postgres_has_its_own_tools(tmp_path: Path) -> None:
    elsewhere = Settings(home=tmp_path, database_url="postgresql+psycopg://nobody@/nothing")
    for act in (backups.back_up, backups.restore):
        with pytest.raises(Unsupported, match=r"docs/restore.md"):
            act(elsewhere, tmp_path / "b.db", _unseen)


def test_a_restore_without_a_file_says_what_it_found(home: Home, tmp_path: Path) -> None:
    """For a database that was put back by other means."""
    with home.opened() as house:
        gone = house.remember("a kettle", "alice")
        back_up(home, tmp_path / "copy.db")
        erase(house.engine, house.admin, gone)
    assert restore(home, None).done == Recovered(0, 0, ())
    shutil.copy(tmp_path / "copy.db", home.settings.data / "shomei.db")
    assert restore(home, None).done == Recovered(1, 0, (home.tenant,))


def _tty(*arguments: str, home: Home) -> str:
    """Run a command whose stderr is a terminal; return what it drew there."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "shomei_service.cli.main", *arguments]
    subprocess.run(command, env=environment(home), stderr=theirs, stdout=subprocess.DEVNULL, check=True)
    os.close(theirs)
    drawn = os.read(ours, 1 << 16).decode()
    os.close(ours)
    return drawn


def test_a_terminal_is_shown_how_far_it_has_come(home: Home, tmp_path: Path) -> None:
    assert "100%" in _tty("backup", str(tmp_path / "b.db"), home=home)
    assert "100%" in _tty("restore", str(tmp_path / "b.db"), home=home)
