"""What must refuse to open, in one line, and leave every byte where it was. DEV-37, T-08, T-13."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shomei_service.engine.errors import StartRefused
from shomei_service.engine.model import NewMemory
from shomei_service.engine.verbs.erase import erase
from tests import oracle
from tests.crash.places import quick_folder
from tests.crash.runs import KILLED, Server, Stored, copied, named, snapshot, stored
from tests.fakes import Home

Damage = Callable[[Home, Home], None]  # what is done to a home, given another installation


def folder_of(home: Home, name: str) -> Path:
    return home.settings.home / name


def replace_folder(home: Home, other: Home, name: str) -> None:
    shutil.rmtree(folder_of(home, name))
    shutil.copytree(folder_of(other, name), folder_of(home, name))


def epoch_key(home: Home) -> Path:
    """Return the file of the key that opens custody's head: in mid-erase it is not the only one."""
    store = folder_of(home, "custody") / "custody.db"
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        (name,) = connection.execute("SELECT key_name FROM custody_head").fetchone()
    return folder_of(home, "keys") / "custody" / f"{name}.key"


def without_custody(home: Home, _: Home) -> None:
    shutil.rmtree(folder_of(home, "custody"))


def without_custody_file(home: Home, _: Home) -> None:
    for path in folder_of(home, "custody").iterdir():
        path.unlink()


def without_database(home: Home, _: Home) -> None:
    for path in folder_of(home, "data").glob("shomei.db*"):
        path.unlink()


def empty_database(home: Home, _: Home) -> None:
    without_database(home, home)
    (folder_of(home, "data") / "shomei.db").touch(0o600)


def without_keys(home: Home, _: Home) -> None:
    shutil.rmtree(folder_of(home, "keys"))


def without_epoch_keys(home: Home, _: Home) -> None:
    shutil.rmtree(folder_of(home, "keys") / "custody")


def without_epoch_key(home: Home, _: Home) -> None:
    epoch_key(home).unlink()


def without_signer(home: Home, _: Home) -> None:
    (folder_of(home, "keys") / "signer.key").unlink()


def changed(pick: Callable[[Home], Path], change: Callable[[bytes], bytes]) -> Damage:
    def damage(home: Home, _: Home) -> None:
        path = pick(home)
        path.write_bytes(change(path.read_bytes()))

    return damage


def signer_key(home: Home) -> Path:
    return folder_of(home, "keys") / "signer.key"


def foreign(*names: str) -> Damage:
    def damage(home: Home, other: Home) -> None:
        for name in names:
            replace_folder(home, other, name)

    return damage


DAMAGES: dict[str, Damage] = {
    "no custody directory": without_custody,
    "no custody file": without_custody_file,
    "no database": without_database,
    "empty database": empty_database,
    "no key directory": without_keys,
    "no directory of epoch keys": without_epoch_keys,
    "no epoch key": without_epoch_key,
    "epoch key cut short": changed(epoch_key, lambda key: key[:-1]),
    "epoch key and a newline": changed(epoch_key, lambda key: key + b"\n"),
    "another epoch key": changed(epoch_key, lambda key: bytes(byte ^ 1 for byte in key)),
    "no signer key": without_signer,
    "signer key cut short": changed(signer_key, lambda key: key[:-1]),
    "signer key and a newline": changed(signer_key, lambda key: key + b"\n"),
    "foreign custody": foreign("custody"),
    "foreign keys": foreign("keys"),
    "foreign custody and keys": foreign("custody", "keys"),
    "foreign database": foreign("data"),
}


@pytest.fixture(scope="module")
def other() -> Iterator[Home]:
    """Another installation, which has done more."""
    with quick_folder() as folder:
        yield stored(folder, [NewMemory(f"row {number}") for number in range(5)]).home


def refuses(home: Home) -> str:
    """Open, which must refuse with every byte as it was; return the one line."""
    before = snapshot(home)
    with pytest.raises(StartRefused) as refusal, home.opened():
        pass
    assert snapshot(home) == before
    assert refusal.value.message
    assert "\n" not in refusal.value.message
    return refusal.value.message


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_home_that_was_closed(small: Stored, other: Home, folder: Path, damage: str) -> None:
    home = small.copied(folder)
    refused_and_put_right(home, other, folder, damage)
    with home.opened() as house:
        assert oracle.settled(house, home.settings) == {one: text for one, (text, _) in small.rows.items()}


@pytest.fixture(scope="module")
def killed(server: Server, small: Stored) -> Iterator[Home]:
    """A home that died in mid erase: both logs are full, an intent is open, a key waits to be destroyed."""
    with quick_folder() as folder:
        home = small.copied(folder)
        assert server.run(home, [["erase", named(small, "a stone")]], "e4.before:kill").code == KILLED
        yield home


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_home_that_was_killed_in_mid_erase(killed: Home, other: Home, folder: Path, damage: str) -> None:
    home = copied(killed, folder)
    refused_and_put_right(home, other, folder, damage)
    with home.opened() as house:
        assert "a stone" not in oracle.settled(house, home.settings).values()


def refused_and_put_right(home: Home, other: Home, folder: Path, damage: str) -> None:
    (folder / "right").mkdir()
    right = copied(home, folder / "right")
    DAMAGES[damage](home, other)
    refuses(home)
    shutil.rmtree(home.settings.home)
    shutil.copytree(right.settings.home, home.settings.home)


@pytest.mark.parametrize("with_keys", [False, True])
def test_custody_from_before_the_newest_erase(small: Stored, folder: Path, with_keys: bool) -> None:
    home = small.copied(folder)
    (folder / "old").mkdir()
    old = copied(home, folder / "old")
    with home.opened() as house:
        erase(house.engine, house.admin, next(iter(small.rows)))
    replace_folder(home, old, "custody")
    if with_keys:
        replace_folder(home, old, "keys")
    assert "older than the database" in refuses(home)


def test_custody_from_before_the_newest_rows(folder: Path) -> None:
    """It would hand the same leaves out twice."""
    home = stored(folder, []).home
    (folder / "old").mkdir()
    old = copied(home, folder / "old")
    with home.opened() as house:
        house.remember("a stone")
    replace_folder(home, old, "custody")
    assert "older than the database" in refuses(home)


def test_custody_that_lost_its_tables(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    with sqlite3.connect(folder_of(home, "custody") / "custody.db") as raw:
        raw.execute("DROP TABLE custody_head")
    raw.close()
    refuses(home)


def test_a_home_that_was_never_opened_gets_no_new_file(folder: Path) -> None:
    home = stored(folder, []).home
    (folder / "fresh").mkdir()
    home = copied(home, folder / "fresh")
    names = set(snapshot(home))
    without_signer(home, home)
    refuses(home)
    assert set(snapshot(home)) == names - {"keys/signer.key"}


def test_all_three_of_one_moment_open(small: Stored, folder: Path) -> None:
    """The limit we print: database, custody and keys restored together are a state that once was."""
    home = small.copied(folder)
    (folder / "old").mkdir()
    old = copied(home, folder / "old")
    with home.opened() as house:
        erase(house.engine, house.admin, next(iter(small.rows)))
    with old.opened() as house:
        assert oracle.settled(house, old.settings).keys() == small.rows.keys()
