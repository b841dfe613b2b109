"""Facts that residue hangs on: core dumps, and what databases really leave. SEMANTICS.md §10, T-06, T-12."""

import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from shomei_service.engine.errors import StartRefused
from shomei_service.engine.store.unit import _configure_sqlite
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.status import status
from shomei_service.proof.residue import scan
from shomei_service.proof.spellings import Needle
from tests.crash.places import quick_folder
from tests.engine.custody.postgres import Server, running
from tests.fakes import House, new_home
from tests.service import serving

_SEGFAULT = "import signal, os; os.kill(os.getpid(), signal.SIGSEGV)"


_SAY_IT = """
import ctypes, pathlib, signal
def say(*_):
    pathlib.Path("saying").write_text(str(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)))
    pathlib.Path("saying").rename("dumpable")
signal.signal(signal.SIGUSR1, say)
"""


def test_the_service_can_not_be_dumped(tmp_path: Path) -> None:
    """Neither to a file, which a limit forbids, nor through a pipe, for which the kernel asks no limit."""
    with serving(new_home(tmp_path), tmp_path, before=_SAY_IT) as service:
        limits = Path("/proc", str(service.process.pid), "limits").read_text().splitlines()
        (line,) = [one for one in limits if "core file" in one]
        assert line.split()[-3:-1] == ["0", "0"]
        service.process.send_signal(signal.SIGUSR1)
        said = tmp_path / "dumpable"
        while not said.exists():
            assert service.process.poll() is None
            time.sleep(0.02)
        assert said.read_text() == "0"


@pytest.mark.parametrize("switched_off", [True, False])
def test_a_crash_leaves_no_image(switched_off: bool) -> None:
    """By what the kernel itself says of the end: a process that was dumped says so."""
    before = (
        "from shomei_service.engine import core_dumps; core_dumps.switch_off()" if switched_off else "pass"
    )
    state = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)"
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\n{state}\n{_SEGFAULT}"], capture_output=True, text=True
    )
    assert done.returncode < 0
    assert done.stdout.strip() == ("0" if switched_off else "1"), "the control: it is dumpable otherwise"


def test_a_machine_that_keeps_its_core_dumps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from shomei_service.engine import core_dumps

    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(resource, "getrlimit", lambda *_: (1, 1))
    with pytest.raises(StartRefused, match="core dumps"):
        core_dumps.switch_off()


# T-06: each setting that durability and erasure stand on, and what a SQLite might do instead.
DEAF = {
    "journal_mode=WAL": "journal_mode=DELETE",
    "synchronous=FULL": "synchronous=NORMAL",
    "secure_delete=ON": "secure_delete=OFF",
    "foreign_keys=ON": "foreign_keys=OFF",
}


def deaf_to(asked: str) -> type[sqlite3.Connection]:
    """Return a connection that hears something else when it is asked for a setting."""

    class Deaf(sqlite3.Cursor):
        def execute(self, query: str, *parameters: object) -> sqlite3.Cursor:  # type: ignore[override]
            return super().execute(query.replace(asked, DEAF[asked]), *parameters)  # type: ignore[arg-type]

    class Forgetful(sqlite3.Connection):
        def cursor(self, *_: object) -> sqlite3.Cursor:  # type: ignore[override]
            return super().cursor(Deaf)  # type: ignore[arg-type]

    return Forgetful


@pytest.mark.parametrize("asked", DEAF)
def test_a_sqlite_that_does_not_keep_a_setting_is_refused(tmp_path: Path, asked: str) -> None:
    with closing(sqlite3.connect(tmp_path / "one.db")) as genuine:
        _configure_sqlite(genuine, None)
    with (
        closing(sqlite3.connect(tmp_path / "two.db", factory=deaf_to(asked))) as forgetful,
        pytest.raises(StartRefused, match="durability and erasure"),
    ):
        _configure_sqlite(forgetful, None)


def test_without_secure_delete_a_deleted_row_stays_in_its_page(tmp_path: Path) -> None:
    """The control of the setting, and why it is asserted: the plain DELETE of most stores."""
    left = {}
    for setting in ("OFF", "ON"):
        file = tmp_path / f"{setting}.db"
        with closing(sqlite3.connect(file)) as plain:
            plain.execute(f"PRAGMA secure_delete={setting}")
            plain.execute("CREATE TABLE memories (text)")
            plain.execute("INSERT INTO memories VALUES ('a canary nobody else has')")
            plain.commit()
            plain.execute("DELETE FROM memories")
            plain.commit()
        left[setting] = len(scan([file], [Needle.word(1, "a canary nobody else has")]).seen)
    assert left["OFF"] > 0
    assert left["ON"] == 0


# PostgreSQL keeps what it deletes: so of a row there it is never said that its bytes are gone.


@pytest.fixture(scope="module")
def cluster() -> Iterator[Server]:
    """A server whose directory is looked through."""
    with running() as server:
        yield server


def sealed_of(cluster: Server, name: str, memory_id: str) -> bytes:
    engine = create_engine(cluster.superuser_url(name))
    with engine.connect() as connection:
        query = text("SELECT sealed_content FROM memories WHERE memory_id = :id")
        found = connection.execute(query, {"id": memory_id}).scalar_one()
    engine.dispose()
    return bytes(found)


def is_purged(house: House, memory_id: str) -> bool:
    return status(house.engine, house.data, memory_id).physically_purged


def test_postgres_keeps_old_versions_and_the_status_never_says_otherwise(cluster: Server) -> None:
    with quick_folder() as folder:
        home = new_home(folder, database_url=cluster.database("kept"))
        with home.opened() as house:
            memory_id = house.remember("a stone " * 40, "alice")
            sealed = Needle.sealed(1, sealed_of(cluster, "kept", memory_id)[:24])
            heap, log = cluster.directory / "data" / "base", cluster.directory / "data" / "pg_wal"
            erase(house.engine, house.admin, memory_id)
            for statement in (
                "CHECKPOINT",
                "VACUUM memories",
                "CHECKPOINT",
                "VACUUM FULL memories",
                "CHECKPOINT",
            ):
                cluster.say(statement, "kept")
                upkeep(house.engine)
                residue = scan([heap, log], [sealed]).seen
                assert residue or not is_purged(house, memory_id)
                assert not is_purged(house, memory_id)
            cluster.say("SELECT pg_switch_wal()")
            assert {one.file.parent.name for one in scan([heap, log], [sealed]).seen} == {"pg_wal"}
            assert not is_purged(house, memory_id)


def test_a_compressed_value_in_a_heap_is_seen(cluster: Server) -> None:
    """The control of every scan of a PostgreSQL directory: a store that keeps text, and deletes it."""
    cluster.database("plain")
    canary = "zqcanary5e1f90quince"
    filler = "so it goes on and on, " * 200
    cluster.say("CREATE TABLE memories (text text)", "plain")
    cluster.say(f"INSERT INTO memories VALUES ('{canary}{filler}')", "plain")
    cluster.say("DELETE FROM memories", "plain")
    cluster.say("CHECKPOINT", "plain")
    data = cluster.directory / "data"
    seen = scan([data / "base", data / "pg_wal"], [Needle.word(1, canary)]).seen
    assert {one.file.parent.parent.name for one in seen} >= {"base"}
