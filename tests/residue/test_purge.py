"""`physically_purged` is said when it is true, soon, and never before. SEMANTICS.md §10, RELIABILITY T-12."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from shomei_service.engine.custody import Address
from shomei_service.engine.custody.sealing import Column, RowPlace, column_key, open_dek
from shomei_service.engine.model import MemoryRow
from shomei_service.engine.store import memories
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.status import status
from tests.crash.places import quick_folder
from tests.fakes import Home, House, new_home

PIECE = 24  # bytes of ciphertext that cannot be there by chance


@pytest.fixture
def home() -> Iterator[Home]:
    """A fresh installation."""
    with quick_folder() as folder:
        yield new_home(folder)


@pytest.fixture
def house(home: Home) -> Iterator[House]:
    """It, open."""
    with home.opened() as house:
        yield house


def row_of(house: House, memory_id: str) -> MemoryRow:
    with house.engine.reading(house.data.tenant) as unit:
        row = memories.find(unit, memory_id)
    assert row is not None
    return row


def holders(home: Home, *pieces: bytes) -> set[str]:
    """Return the files that hold any of these bytes."""
    files = [path for path in home.settings.home.rglob("*") if path.is_file()]
    return {path.name for path in files if any(piece in path.read_bytes() for piece in pieces)}


def ciphertext(row: MemoryRow) -> list[bytes]:
    """Return pieces of everything sealed in the row."""
    return [sealed[:PIECE] for sealed in (row.sealed_dek, row.sealed_content, row.sealed_recall)]


@contextmanager
def reader(home: Home) -> Iterator[None]:
    """Hold a read transaction open on the database, as an export or a backup would."""
    with closing(sqlite3.connect(home.settings.data / "shomei.db", isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM memories").fetchone()
        yield


def purged(house: House, memory_id: str) -> bool:
    return status(house.engine, house.data, memory_id).physically_purged


@pytest.mark.parametrize("size", [10, 10_000], ids=["in a page", "over many pages"])
@pytest.mark.parametrize("where", ["in the log", "in the file"])
def test_the_bytes_are_gone_when_it_is_said(house: House, home: Home, where: str, size: int) -> None:
    memory_id = house.remember("stone " * size, "alice")
    row = row_of(house, memory_id)
    if where == "in the file":
        assert house.engine.store.truncate_log()
    assert holders(home, *ciphertext(row)) == {"shomei.db" if where == "in the file" else "shomei.db-wal"}
    erase(house.engine, house.admin, memory_id)
    assert not purged(house, memory_id)
    assert holders(home, *ciphertext(row)), "the control: until then they are there to be found"
    upkeep(house.engine)  # one round
    assert purged(house, memory_id)
    assert holders(home, *ciphertext(row)) == set()


@pytest.mark.parametrize("where", ["in the log", "in the file"])
def test_an_open_reader_keeps_it_from_being_said(house: House, home: Home, where: str) -> None:
    memory_id = house.remember("a stone", "alice")
    row = row_of(house, memory_id)
    if where == "in the file":
        assert house.engine.store.truncate_log()
    with reader(home):
        erase(house.engine, house.admin, memory_id)
        for _ in range(3):
            upkeep(house.engine)
            assert holders(home, *ciphertext(row))
            assert not purged(house, memory_id)
    upkeep(house.engine)
    assert purged(house, memory_id)
    assert holders(home, *ciphertext(row)) == set()


def test_an_open_reader_holds_nobody_up(house: House, home: Home) -> None:
    """Purging waits for no reader, since every writer would wait with it."""
    memory_id = house.remember("a stone", "alice")
    with reader(home):
        erase(house.engine, house.admin, memory_id)
        began = time.monotonic()
        upkeep(house.engine)
        house.remember("a stick")
        assert time.monotonic() - began < 8  # seconds; a writer that has to wait does so for ten


def test_what_is_erased_after_the_look_is_not_said_to_be_purged(house: House) -> None:
    ids = [house.remember(f"stone {number}", "alice") for number in range(3)]
    erase(house.engine, house.admin, ids[0])
    upkeep(house.engine)
    erase(house.engine, house.admin, ids[1])
    assert [purged(house, one) for one in ids] == [True, False, False]
    forget(house.engine, house.admin, "alice")
    upkeep(house.engine)
    assert all(purged(house, one) for one in ids)


def test_no_key_of_a_row_is_ever_on_a_disk(house: House, home: Home) -> None:
    """Not its leaf, not its DEK, not its column keys: neither while it lives nor after. I-14."""
    memory_id = house.remember("a stone", "alice")
    row = row_of(house, memory_id)
    engine = house.engine
    leaf = engine.custody.derive(Address(row.address))
    place = RowPlace(engine.custody.installation_id, house.data.tenant, row.memory_id, row.version)
    dek = open_dek(leaf, place, row.sealed_dek).dek
    keys = [leaf, dek, *(column_key(dek, column) for column in Column)]
    assert holders(home, *keys) == set()
    erase(engine, house.admin, memory_id)
    assert holders(home, *keys) == set()
    upkeep(engine)
    assert holders(home, *keys, *(key.hex().encode() for key in keys)) == set()
