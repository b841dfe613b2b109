"""Bytes changed at rest: a refusal or a fault that says so, never another text, never a raw error. T-27."""

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shomei_service.engine.errors import EngineError
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.search import search
from tests.crash.deep import is_deep, keep
from tests.crash.places import quick_folder
from tests.crash.runs import KILLED, Server, Stored, copied, named
from tests.fakes import Home

ROUNDS, DEEP_ROUNDS = 25, 500
FILES = ("data/shomei.db", "custody/custody.db")


def used(home: Home, texts: set[str]) -> str:
    """Open, read, erase and tend; return how it ended. Whatever is read is what was written."""
    try:
        with home.opened() as house:
            for _ in range(2):
                found = search(
                    house.engine, house.data, "a kettle lamp ladder stone stick", limit=100
                ).results
                assert {one.memory.content.text for one in found} <= texts, "another text"
                for one in found[:1]:
                    erase(house.engine, house.admin, one.memory.memory_id)
            upkeep(house.engine)
    except EngineError as refused:
        told = refused
    else:
        return "used"
    assert "\n" not in told.message
    return type(told).__name__


@pytest.mark.parametrize("name", FILES)
def test_bytes_flipped_anywhere(
    small: Stored, folder: Path, name: str, request: pytest.FixtureRequest
) -> None:
    texts = {text for text, _ in small.rows.values()}
    rounds = DEEP_ROUNDS if is_deep(request) else ROUNDS
    ends: dict[str, int] = {}
    for seed in range(rounds):
        chance = random.Random(seed)
        (folder / "copy").mkdir()
        home = small.copied(folder / "copy")
        path = home.settings.home / name
        content = bytearray(path.read_bytes())
        start, length = chance.randrange(len(content)), chance.choice([1, 16, 512, 4096])
        for at in range(start, min(start + length, len(content))):
            content[at] ^= chance.randrange(1, 256)
        path.write_bytes(content)
        try:
            end = used(home, texts)
        except BaseException as failure:
            failure.add_note(f"{name}, seed {seed}")
            raise
        ends[end] = ends.get(end, 0) + 1
        shutil.rmtree(folder / "copy")
    keep(request, f"flipped {name}", ends)
    assert len(ends) > 1, "some are noticed"


@pytest.mark.parametrize("name", FILES)
def test_a_schema_that_is_no_text(small: Stored, folder: Path, name: str) -> None:
    """SQLite quotes it in what it says, and its driver cannot read that."""
    home = small.copied(folder)
    path = home.settings.home / name
    content = path.read_bytes()
    assert content.count(b"CREATE TABLE ") > 1
    path.write_bytes(content.replace(b"CREATE TABLE ", b"CREATE T\xd5BLE "))
    assert used(home, {text for text, _ in small.rows.values()}) != "used"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_a_file_cut_short(small: Stored, folder: Path, name: str, part: float) -> None:
    home = small.copied(folder)
    path = home.settings.home / name
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    assert used(home, {text for text, _ in small.rows.values()}) != "used"


@pytest.fixture(scope="module")
def killed(server: Server, small: Stored) -> Iterator[Home]:
    """A home whose logs are full, as a kill leaves it."""
    with quick_folder() as folder:
        home = small.copied(folder)
        steps = [["add", "a new stick", "alice"], ["erase", named(small, "a stone")]]
        assert server.run(home, steps, "e4.before:kill").code == KILLED
        yield home


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("part", [0.0, 0.4, 0.8])
def test_a_log_cut_short(killed: Home, small: Stored, folder: Path, name: str, part: float) -> None:
    """What was in it is lost, which nobody can tell from a moment before; nothing that is left is wrong."""
    home = copied(killed, folder)
    path = home.settings.home / (name + "-wal")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    texts = {text for text, _ in small.rows.values()} | {"a new stick"}
    assert used(home, texts)


def tables_of(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as raw:
        listed = raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [row[0] for row in listed if not row[0].startswith("sqlite_")]


@pytest.mark.parametrize("name", FILES)
def test_a_table_that_is_missing(small: Stored, folder: Path, name: str) -> None:
    """Every one in turn; a refusal or a fault, and where it is not needed, nothing."""
    texts = {text for text, _ in small.rows.values()}
    for table in tables_of(small.home.settings.home / name):
        (folder / table).mkdir()
        home = small.copied(folder / table)
        with closing(sqlite3.connect(home.settings.home / name)) as raw, raw:
            raw.execute("PRAGMA foreign_keys=OFF")
            raw.execute(f"DROP TABLE {table}")
        assert used(home, texts)
