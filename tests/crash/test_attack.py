"""A backup of the database and everything custody holds now: the attack that other designs fall to. §7.2."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shomei_service.engine.custody.sealing import SEALED_DEK_BYTES, open_sealed, seal
from shomei_service.engine.errors import IntegrityFault
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.proof.thief import Loot, Thief, key_files, reading, rows
from tests.crash.attack import Ordinary
from tests.crash.runs import copied
from tests.crash.test_restore import back_up
from tests.fakes import Home, new_home

SECRET = b"the stone is under the lamp"


@pytest.fixture
def ordinary(folder: Path) -> Iterator[Ordinary]:
    """A store of the common design with one row in it."""
    with closing(Ordinary(folder, os.urandom(32))) as store:
        dek = os.urandom(32)
        store.put("row", seal(store.key, dek, b"row"), seal(dek, SECRET, b"row"))
        yield store


def windows(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(len(data) - size + 1))


def carve(data: bytes, key: bytes, size: int) -> list[bytes]:
    """Return whatever the key opens, at any place of the bytes."""
    found: list[bytes] = []
    for window in windows(data, size):
        try:
            found.append(open_sealed(key, window, b"row"))
        except IntegrityFault:
            continue
    return found


def test_the_common_design_falls_to_its_backup(ordinary: Ordinary) -> None:
    """The row is deleted, the log is emptied, pages are overwritten; the key that wrapped it lives on."""
    ordinary.tidy()
    backup = ordinary.database.read_bytes()
    ordinary.erase("row")
    ordinary.tidy()
    (dek,) = carve(backup, ordinary.key, SEALED_DEK_BYTES)
    assert carve(backup, dek, len(SECRET) + 28) == [SECRET]
    assert carve(ordinary.database.read_bytes(), ordinary.key, SEALED_DEK_BYTES) == []


def test_the_common_design_falls_to_its_own_log(ordinary: Ordinary) -> None:
    """No backup is needed while the log has not been emptied, whatever the database does with its pages."""
    ordinary.erase("row")
    log = ordinary.database.with_name("ordinary.db-wal").read_bytes()
    (dek, *_) = carve(log, ordinary.key, SEALED_DEK_BYTES)
    assert SECRET in carve(log, dek, len(SECRET) + 28)


@pytest.fixture
def home(folder: Path) -> Home:
    """An installation."""
    return new_home(folder)


def thief(home: Home, keys: Home | None = None) -> Thief:
    held = key_files((keys or home).settings.keys / "custody")
    return Thief([Loot.take(home.settings.custody_database)], reading(held))


def test_ours_does_not(home: Home, folder: Path) -> None:
    """With a backup from before, the custody store of today and of then, and every key there is today."""
    with home.opened() as house:
        kept = house.remember("a lamp", "bob")
        erased = [house.remember(f"stone {number}", "alice") for number in range(3)]
        erase(house.engine, house.admin, house.remember("a first stone"))  # the tree is not untouched
    (folder / "then").mkdir()
    then = copied(home, folder / "then")
    backup = back_up(home, folder / "backup.db")
    with home.opened() as house:
        later = house.remember("a later lamp", "bob")
        erase(house.engine, house.admin, erased[0])
        forget(house.engine, house.admin, "alice")
        upkeep(house.engine)
    everything = {kept, *erased}
    sealed, today = rows(f"sqlite:///{backup}"), rows(home.settings.database)
    assert {row.memory_id for row in sealed} == everything
    # The control: with that moment's own keys the thief opens all of it, and today's keys open what is alive.
    assert thief(then).opened(sealed).keys() == everything
    assert thief(home).opened(today).keys() == {kept, later}
    # The promise.
    assert thief(home).opened(sealed).keys() == {kept}
    assert thief(then, keys=home).secrets == []
