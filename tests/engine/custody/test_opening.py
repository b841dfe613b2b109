"""What must refuse to start, and must leave every byte as it was. DEV-37, T-06, T-08, T-13."""

import resource
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, CustodyMismatch, Seen
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.store import _configure
from shomei_service.engine.errors import CustodyUnavailable, StartRefused
from tests.engine.custody.home import INSTALLATION, Home, Meddling, leaves, punctures

ROWS = range(256, 266)
Closed = tuple[Home, dict[int, bytes | None]]


@pytest.fixture
def closed(home: Home, custody: Custody) -> Closed:
    """A home with ten rows, one erased, closed cleanly."""
    custody.puncture(punctures([300]), now=2)
    custody.journal_append(tenant="t_1", kind="restricted", ids=["lm_1"], at=3)
    found = leaves(custody, ROWS)
    custody.close()
    return home, found


def key_of(home: Home) -> Path:
    (name,) = home.key_names()
    return home.keys_dir / name


def refuses(home: Home, **changes: object) -> str:
    """Open, which must refuse with everything untouched; return the sentence."""
    before = home.bytes()
    with pytest.raises(CustodyMismatch) as refusal:
        home.open(**changes).close()
    assert home.bytes() == before
    assert isinstance(refusal.value, StartRefused)
    return refusal.value.message


WRONG_KEYS: dict[str, Callable[[bytes], bytes]] = {
    "newline": lambda key: key + b"\n",
    "one character dropped": lambda key: key[:-1],
    "empty": lambda _: b"",
    "another valid key": lambda key: bytes(byte ^ 1 for byte in key),
}


@pytest.mark.parametrize("wrong", sorted(WRONG_KEYS))
def test_a_wrong_key_file_refuses_and_the_right_one_opens_all(closed: Closed, wrong: str) -> None:
    home, before = closed
    where = key_of(home)
    right = where.read_bytes()
    where.write_bytes(WRONG_KEYS[wrong](right))
    refuses(home)
    where.write_bytes(right)
    custody = home.open()
    assert leaves(custody, ROWS) == before
    custody.close()


def test_a_missing_key_file_refuses_and_makes_none(closed: Closed) -> None:
    home, before = closed
    where = key_of(home)
    elsewhere = where.rename(home.directory / "aside")
    assert "put the newest store, or the key, back" in refuses(home)
    assert home.key_names() == set()
    elsewhere.rename(where)
    custody = home.open()
    assert leaves(custody, ROWS) == before
    custody.close()


def test_a_missing_key_directory_refuses(closed: Closed) -> None:
    home, _ = closed
    home.keys_dir.rename(home.directory / "aside")
    refuses(home)
    assert not home.keys_dir.exists()


@pytest.mark.parametrize("place", ["file", "directory"])
def test_keys_open_to_others_refuse(closed: Closed, place: str) -> None:
    home, _ = closed
    (key_of(home) if place == "file" else home.keys_dir).chmod(0o755)
    assert "mode" in refuses(home)


def test_a_link_in_place_of_a_key_is_not_followed(closed: Closed) -> None:
    home, _ = closed
    where = key_of(home)
    elsewhere = where.rename(home.directory / "aside")
    where.symlink_to(elsewhere)
    with pytest.raises(CustodyUnavailable):
        home.open()


def test_a_missing_store_refuses_and_makes_none(closed: Closed) -> None:
    home, _ = closed
    shutil.rmtree(home.custody_dir)
    refuses(home)
    assert not home.custody_dir.exists()


def test_a_store_open_to_others_refuses(closed: Closed) -> None:
    home, _ = closed
    (home.custody_dir / "custody.db").chmod(0o640)
    assert "0600" in refuses(home)


@pytest.mark.parametrize(
    "damage", ["empty", "text", "no tables", "no head", "no root", "other format", "no bytes"]
)
def test_a_store_that_is_none_refuses(closed: Closed, damage: str) -> None:
    home, _ = closed
    where = home.custody_dir / "custody.db"
    if damage == "empty":
        where.write_bytes(b"")
    elif damage == "text":
        where.write_bytes(b"this is no database" * 500)
    else:
        raw = sqlite3.connect(where)
        raw.executescript(
            {
                "no tables": "DROP TABLE custody_head",
                "no head": "DELETE FROM custody_head",
                "no root": "DELETE FROM custody_blob WHERE prefix = x''",
                "no bytes": "UPDATE custody_head SET wrapped_root = 'text'",
                "other format": "UPDATE custody_head SET format = 1",
            }[damage]
        )
        raw.close()
    refuses(home)


def test_a_flipped_byte_at_the_top_refuses(closed: Closed) -> None:
    home, _ = closed
    where = home.custody_dir / "custody.db"
    whole = where.read_bytes()
    for table, column in (("custody_head", "wrapped_root"), ("custody_blob", "sealed")):
        raw = sqlite3.connect(where)
        rows = raw.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        flipped = [(sealed[:20] + bytes([sealed[20] ^ 1]) + sealed[21:], rowid) for rowid, sealed in rows]
        raw.executemany(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", flipped)
        raw.commit()
        raw.close()
        refuses(home)
        where.write_bytes(whole)
    home.open().close()


def test_a_store_in_memory_is_none(closed: Closed) -> None:
    home, _ = closed
    for url in ("sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory"):
        with pytest.raises(CustodyMismatch):
            Custody.open(url, LocalFile(home.keys_dir), installation_id=INSTALLATION, now=1)


def test_another_installation_refuses(closed: Closed) -> None:
    home, _ = closed
    assert "another installation" in refuses(home, installation_id="cd" * 16)


@pytest.mark.parametrize(
    "seen", [Seen(epoch=2), Seen(journal_seq=2), Seen(rows={1: 1280}), Seen(rows={2: 256})], ids=str
)
def test_a_store_that_did_less_than_the_database_saw_refuses(closed: Closed, seen: Seen) -> None:
    home, _ = closed
    assert "older than the database" in refuses(home, seen=seen)


def test_a_store_that_did_as_much_as_the_database_saw_opens(
    closed: Closed,
) -> None:
    home, before = closed
    custody = home.open(seen=Seen(epoch=1, journal_seq=1, rows={1: 1279}))
    assert leaves(custody, ROWS) == before
    custody.close()


def test_a_rolled_back_store_refuses_and_destroys_nothing(
    home: Home, custody: Custody, tmp_path: Path
) -> None:
    custody.puncture(punctures([300]), now=2)
    custody.close()
    old = home.copy(tmp_path / "old")
    custody = home.open()
    for row in range(301, 304):
        custody.puncture(punctures([row]), now=row)
        before = leaves(custody, ROWS)
    custody.close()
    newest = home.copy(tmp_path / "newest")
    shutil.rmtree(home.custody_dir)
    shutil.copytree(old.custody_dir, home.custody_dir)
    assert "rolled back" in refuses(home)
    # The trap this guards: the old store lists a name of its own, yet the live key is not touched.
    shutil.rmtree(home.custody_dir)
    shutil.copytree(newest.custody_dir, home.custody_dir)
    custody = home.open()
    assert leaves(custody, ROWS) == before
    custody.close()


@pytest.mark.parametrize("point", ["e2.created", "e3.after", "e4.before", "e4.after"])
def test_a_store_rolled_back_from_the_middle_of_an_erase_refuses(
    home: Home, custody: Custody, tmp_path: Path, point: str
) -> None:
    failpoints.arm(f"{point}:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([300]), now=2)
    middle = home.copy(tmp_path / "middle")
    custody.puncture(punctures([300]), now=2)
    custody.puncture(punctures([301]), now=3)
    custody.close()
    shutil.rmtree(home.custody_dir)
    shutil.copytree(middle.custody_dir, home.custody_dir)
    refuses(home)


def test_the_store_and_the_keys_rolled_back_together_can_not_be_seen_from_inside(
    home: Home, custody: Custody, tmp_path: Path
) -> None:
    """The limit we print: all of it restored together is a state that once was."""
    before = leaves(custody, [300])
    copied = home.copy(tmp_path / "copied")
    custody.puncture(punctures([300]), now=2)
    restored = copied.open()
    assert leaves(restored, [300]) == before
    restored.close()


def test_a_refusal_after_a_crash_touches_not_even_the_log(
    home: Home, custody: Custody, tmp_path: Path
) -> None:
    failpoints.arm("e4.before:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([300]), now=2)
    crashed = home.copy(tmp_path / "crashed")
    assert crashed.bytes()["custody/custody.db-wal"]
    refuses(crashed, installation_id="cd" * 16)
    aside = [key.rename(crashed.directory / key.name) for key in crashed.keys_dir.iterdir()]
    refuses(crashed)
    for key in aside:
        key.rename(crashed.keys_dir / key.name)
    opened = crashed.open()
    assert leaves(opened, [300]) == {300: None}
    opened.close()


def test_nothing_is_created_twice(home: Home, custody: Custody) -> None:
    custody.close()
    before = home.bytes()
    with pytest.raises(CustodyMismatch):
        LocalFile.initialise(home.keys_dir)
    with pytest.raises(CustodyMismatch):
        Custody.create(home.url, LocalFile(home.keys_dir), installation_id="cd" * 16, now=9)
    assert home.bytes() == before


def test_an_interrupted_creation_says_so(home: Home) -> None:
    def dies() -> None:
        raise CustodyUnavailable("the provider went away")

    with pytest.raises(CustodyUnavailable):
        Custody.create(
            home.url,
            Meddling(LocalFile.initialise(home.keys_dir), create=dies),
            installation_id=INSTALLATION,
            now=1,
        )
    assert "init again" in refuses(home)


def test_a_store_altered_to_destroy_its_own_key_refuses(closed: Closed) -> None:
    home, _ = closed
    raw = sqlite3.connect(home.custody_dir / "custody.db")
    raw.execute("INSERT INTO custody_retiring SELECT key_name, epoch, key_custody FROM custody_head")
    raw.commit()
    raw.close()
    keys = home.key_names()
    with pytest.raises(CustodyMismatch):
        home.open()
    assert home.key_names() == keys


def test_a_name_that_leads_out_of_the_key_directory_is_refused(
    closed: Closed,
) -> None:
    home, _ = closed
    victim = home.directory / "victim.key"
    victim.write_bytes(b"\x01" * 32)
    raw = sqlite3.connect(home.custody_dir / "custody.db")
    raw.execute("INSERT INTO custody_pending VALUES ('../victim', 'dev_local_file')")
    raw.commit()
    raw.close()
    with pytest.raises(CustodyMismatch):
        home.open()
    assert victim.read_bytes() == b"\x01" * 32


def test_files_and_directories_are_private_from_the_start(home: Home, custody: Custody) -> None:
    custody.puncture(punctures([300]), now=2)
    for place in (home.custody_dir, home.keys_dir):
        assert place.stat().st_mode & 0o777 == 0o700
    for entry in [*home.custody_dir.iterdir(), *home.keys_dir.iterdir()]:
        assert entry.stat().st_mode & 0o777 == 0o600, entry.name


def test_a_disk_that_takes_nothing_is_unavailable_and_says_no_more(closed: Closed) -> None:
    home, before = closed
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(CustodyUnavailable):
            home.open()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    opened = home.open()
    assert leaves(opened, ROWS) == before
    opened.close()


def test_settings_that_do_not_hold_refuse() -> None:
    memory = sqlite3.connect(":memory:")  # has no write-ahead log
    with pytest.raises(CustodyMismatch):
        _configure(memory, None)
