"""Writers and readers that were left behind, on both databases. CUSTODY.md §4, §7 proof 5."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from shomei_service.engine.custody import Custody, CustodyMismatch, Punctured, address
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.providers.protocol import Provider
from shomei_service.engine.errors import CustodyUnavailable
from tests.engine.custody.home import INSTALLATION, Home, Meddling, leaves, punctures
from tests.engine.custody.postgres import Server

ROWS = range(256, 330)
_numbers = count(1)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'custody' / 'custody.db'}"
    running: Server = request.getfixturevalue("cluster")
    return running.database(f"fenced_{next(_numbers)}")


@pytest.fixture
def custody(url: str, tmp_path: Path) -> Iterator[Custody]:
    files = LocalFile.initialise(tmp_path / "keys")
    opened = Custody.create(url, files, installation_id=INSTALLATION, now=1)
    opened.lease_tenant()
    opened.lease_rows(1)
    yield opened
    opened.close()


def beside(url: str, provider: Provider) -> Custody:
    return Custody.open(url, provider, installation_id=INSTALLATION, now=50)


@pytest.mark.parametrize("call", ["create", "unwrap", "destroy"])
def test_a_writer_overtaken_between_two_steps_loses_nothing_of_the_other(
    url: str, custody: Custody, tmp_path: Path, call: str
) -> None:
    """It works on the newest head or not at all: no erase of the other comes undone, no key goes twice."""
    before = leaves(custody, ROWS)
    armed: list[int] = []

    def overtake() -> None:
        if armed:
            custody.puncture(punctures([armed.pop()]), now=7)

    stale = beside(url, Meddling(LocalFile(tmp_path / "keys"), **{call: overtake}))
    armed.append(310)
    stale.puncture(punctures([300]), now=8)
    assert armed == []
    for opened in (custody, stale):
        opened.refresh()
        assert leaves(opened, ROWS) == {**before, 300: None, 310: None}
    assert custody.status().keys_to_destroy == 0
    assert len(list((tmp_path / "keys").iterdir())) == 1
    assert [one.epoch for one in custody.epochs_after(0)] == [1, 2]
    stale.close()


def test_a_writer_left_several_epochs_behind_works_on_the_newest_head(
    url: str, custody: Custody, tmp_path: Path
) -> None:
    stale = beside(url, LocalFile(tmp_path / "keys"))
    before = leaves(stale, ROWS)
    for row in range(300, 304):
        custody.puncture(punctures([row]), now=row)
    assert (stale.epoch, custody.epoch) == (0, 4)
    assert stale.puncture(punctures([310]), now=9).epoch_before == 4
    gone = dict.fromkeys([*range(300, 304), 310])
    assert leaves(stale, ROWS) == {**before, **gone}
    custody.refresh()
    assert leaves(custody, ROWS) == {**before, **gone}
    stale.close()


READS: dict[str, Callable[[Custody], object]] = {
    "refresh": lambda custody: custody.refresh(),
    "writing": lambda custody: custody.puncture(punctures([305]), now=9),
}


@pytest.mark.parametrize("read", sorted(READS))
def test_a_reader_left_behind_reads_again(url: str, custody: Custody, tmp_path: Path, read: str) -> None:
    """Until it does, it holds the old frontier in memory: the window that the limits name."""
    stale = beside(url, LocalFile(tmp_path / "keys"))
    held = stale.derive(address(1, 300))
    custody.puncture(punctures([300]), now=2)
    assert stale.derive(address(1, 300)) == held
    READS[read](stale)
    with pytest.raises(Punctured):
        stale.derive(address(1, 300))
    stale.close()


def test_a_reader_left_behind_misses_no_row_that_lives(url: str, custody: Custody, tmp_path: Path) -> None:
    """The blobs its old frontier leads to are gone: it takes up the newest head by itself."""
    stale = beside(url, LocalFile(tmp_path / "keys"))
    custody.puncture(punctures([300]), now=2)
    other = beside(url, LocalFile(tmp_path / "keys"))
    other.puncture(punctures([301]), now=3)
    before = leaves(other, range(302, 320))
    assert leaves(stale, range(302, 320)) == before
    for opened in (stale, other):
        opened.close()


def test_a_store_put_in_the_place_of_the_open_one_is_found_out_before_a_key_goes(
    home: Home, tmp_path: Path
) -> None:
    """What is written goes on into the file that was moved away; what is read back is what the path names."""
    opened = home.create()
    opened.lease_tenant()
    opened.lease_rows(1)
    opened.puncture(punctures([300]), now=2)
    older = tmp_path / "older.db"
    with closing(sqlite3.connect(home.custody_dir / "custody.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(older),))
    opened.puncture(punctures([301]), now=3)
    keys = home.key_names()
    for name in ("custody.db", "custody.db-wal", "custody.db-shm"):
        (home.custody_dir / name).rename(tmp_path / name)
    older.rename(home.custody_dir / "custody.db")
    with pytest.raises(CustodyUnavailable) as failed:
        opened.puncture(punctures([302]), now=4)
    assert isinstance(failed.value.__cause__, CustodyMismatch)
    assert keys <= home.key_names()
    opened.close()
