"""Copies of the custody store: as new as the store before anything stands on them. CUSTODY.md §2, §4."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, CustodyMismatch
from shomei_service.engine.custody.journal import WITHDRAWN
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.store import CustodyStore
from shomei_service.engine.errors import CustodyUnavailable
from shomei_service.engine.verbs.restrict import restrict
from shomei_service.engine.verbs.search import search
from tests.engine.custody.home import INSTALLATION, Home, leaves, punctures
from tests.engine.custody.test_together import at_once
from tests.fakes import new_home

ROWS = range(256, 330)


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    places = [tmp_path / "mirror_a", tmp_path / "mirror_b"]
    for place in places:
        place.mkdir(mode=0o700)
    return places


@pytest.fixture
def mirrored(home: Home, places: list[Path]) -> Iterator[Custody]:
    custody = home.create(mirrors=places)
    custody.lease_tenant()
    custody.lease_rows(1)
    yield custody
    custody.close()


def lost(home: Home, mirror: Path) -> None:
    """Lose the store's disk, and put the mirror's copy in its place as docs/restore.md says."""
    shutil.rmtree(home.custody_dir)
    home.custody_dir.mkdir(mode=0o700)
    shutil.copy(mirror / "custody.db", home.custody_dir / "custody.db")
    (home.custody_dir / "custody.db").chmod(0o600)


def unwritable(place: Path) -> None:
    """Take the place away; works for root too."""
    place.rename(place.with_name("away"))


def back(place: Path) -> None:
    place.with_name("away").rename(place)


ACTS: dict[str, Callable[[Custody], object]] = {
    "erase": lambda custody: custody.puncture(punctures([300]), now=2),
    "rotation": lambda custody: custody.rotate(now=2),
    "lease": lambda custody: custody.lease_rows(1, 5),
    "tenant": lambda custody: custody.lease_tenant(),
    "journal": lambda custody: custody.journal_append(tenant="t_1", kind="hold_placed", at=2),
    "mark": lambda custody: custody.set_log_mark("t_1", "origin-a", 2),
}


@pytest.mark.parametrize("act", sorted(ACTS))
def test_whatever_was_answered_is_in_every_mirror(
    home: Home, mirrored: Custody, places: list[Path], act: str
) -> None:
    ACTS[act](mirrored)
    before = leaves(mirrored, ROWS)
    seen = mirrored.given_out()
    marks, lines = mirrored.log_marks(), mirrored.journal_after(0)
    mirrored.close()
    for place in places:
        lost(home, place)
        custody = home.open(seen=seen)
        assert leaves(custody, ROWS) == before
        assert (custody.log_marks(), custody.journal_after(0)) == (marks, lines)
        custody.close()


@pytest.mark.parametrize("act", sorted(ACTS))
def test_a_mirror_that_fails_fails_the_act(mirrored: Custody, places: list[Path], act: str) -> None:
    unwritable(places[1])
    with pytest.raises(CustodyUnavailable):
        ACTS[act](mirrored)
    back(places[1])
    ACTS[act](mirrored)


def test_no_key_is_destroyed_while_a_mirror_fails(home: Home, mirrored: Custody, places: list[Path]) -> None:
    """The old mirror still opens, so losing the store in this moment loses nothing; then it rolls forward."""
    before = leaves(mirrored, ROWS)
    mirrored.rotate(now=2)
    (key,) = home.key_names()
    unwritable(places[0])
    for _ in range(3):
        with pytest.raises(CustodyUnavailable):
            mirrored.puncture(punctures([300]), now=3)
        assert key in home.key_names()
    mirrored.close()
    with pytest.raises(CustodyMismatch, match="SHOMEI_CUSTODY_MIRRORS"):
        home.open(mirrors=places)
    back(places[0])
    saved = home.copy(places[0].parent / "saved")
    lost(saved, places[0])
    old = saved.open()
    assert leaves(old, ROWS) == before
    old.close()
    custody = home.open(mirrors=places)
    assert custody.puncture(punctures([300]), now=9).at == 3
    assert key not in home.key_names()
    assert len(home.key_names()) == 1
    assert leaves(custody, ROWS) == {**before, 300: None}
    custody.close()


def test_a_line_that_reached_no_mirror_is_taken_back(places: list[Path], tmp_path: Path) -> None:
    """Its caller heard 503: no later opening may do what it says."""
    home = new_home(tmp_path, custody_mirrors=":".join(map(str, places)))
    with home.opened() as house:
        memory_id = house.remember("a kettle")
        unwritable(places[0])
        with pytest.raises(CustodyUnavailable):
            restrict(house.engine, house.admin, memory_id)
        back(places[0])
        line, taken_back = house.engine.custody.journal_after(0)
        assert (taken_back.kind, taken_back.codes) == (WITHDRAWN, {"line": line.seq})
    with home.opened() as house:
        found = search(house.engine, house.data, "kettle").results
        assert [one.memory.memory_id for one in found] == [memory_id]


def test_a_store_older_than_its_mirror_refuses(
    home: Home, mirrored: Custody, places: list[Path], tmp_path: Path
) -> None:
    """Even within one epoch, where the key still opens it."""
    earlier = home.copy(tmp_path / "earlier")
    mirrored.journal_append(tenant="t_1", kind="hold_placed", at=2)
    mirrored.close()
    before = earlier.bytes()
    with pytest.raises(CustodyMismatch, match="older than its mirror"):
        earlier.open(mirrors=places)
    assert earlier.bytes() == before
    home.open(mirrors=places).close()


def test_a_mirror_of_another_installation_is_never_overwritten(
    home: Home, custody: Custody, places: list[Path], tmp_path: Path
) -> None:
    custody.close()
    other = Custody.create(
        f"sqlite:///{tmp_path / 'other' / 'custody.db'}",
        LocalFile.initialise(tmp_path / "other_keys"),
        installation_id="cd" * 16,
        now=1,
        mirrors=[places[0]],
    )
    other.close()
    theirs = (places[0] / "custody.db").read_bytes()
    with pytest.raises(CustodyMismatch, match="another installation"):
        home.open(mirrors=places)
    with pytest.raises(CustodyMismatch, match="init never replaces"):
        Custody.create(
            f"sqlite:///{tmp_path / 'third' / 'custody.db'}",
            LocalFile.initialise(tmp_path / "third_keys"),
            installation_id=INSTALLATION,
            now=1,
            mirrors=[places[0]],
        )
    assert (places[0] / "custody.db").read_bytes() == theirs


def test_a_damaged_mirror_is_named_and_not_overwritten(
    home: Home, mirrored: Custody, places: list[Path]
) -> None:
    mirrored.close()
    where = places[1] / "custody.db"
    intact = where.read_bytes()
    for damaged in (b"", b"no database" * 500, intact[:8192] + b"\xff" * (len(intact) - 8192)):
        where.write_bytes(damaged)
        with pytest.raises(CustodyMismatch, match="a mirror of the custody store is damaged"):
            home.open(mirrors=places)
        assert where.read_bytes() == damaged
    where.unlink()
    custody = home.open(mirrors=places)
    assert {one.state.value for one in custody.status().mirrors} == {"current"}
    where.write_bytes(b"")
    assert [one.state.value for one in custody.status().mirrors] == ["current", "unreadable"]
    where.unlink()
    assert [one.state.value for one in custody.status().mirrors] == ["current", "missing"]
    custody.close()


def test_a_mirror_that_is_new_is_filled_by_the_next_opening(
    home: Home, custody: Custody, places: list[Path]
) -> None:
    custody.puncture(punctures([300]), now=2)
    before = leaves(custody, ROWS)
    custody.close()
    home.open(mirrors=places).close()
    lost(home, places[1])
    custody = home.open()
    assert leaves(custody, ROWS) == before
    custody.close()


def test_a_directory_that_is_no_mirror_refuses(home: Home, custody: Custody, tmp_path: Path) -> None:
    custody.close()
    for place in (tmp_path / "missing", home.custody_dir):
        with pytest.raises(CustodyMismatch, match="SHOMEI_CUSTODY_MIRRORS"):
            home.open(mirrors=[place])
    with pytest.raises(CustodyMismatch, match="synchronous"):
        CustodyStore("postgresql+psycopg://nobody@/nowhere", mirrors=[tmp_path])


def test_two_openings_never_put_an_older_copy_in_place(
    home: Home, mirrored: Custody, places: list[Path]
) -> None:
    other = home.open(mirrors=places)
    rows = range(300, 316)
    results = at_once(
        [
            lambda row=row, opened=opened: opened.puncture(punctures([row]), now=row)
            for row, opened in zip(rows, [mirrored, other] * 8, strict=True)
        ]
    )
    assert [result for result in results if isinstance(result, Exception)] == []
    mirrored.refresh()
    before = leaves(mirrored, ROWS)
    for opened in (mirrored, other):
        opened.close()
    for place in places:
        lost(home, place)
        custody = home.open()
        assert leaves(custody, ROWS) == before
        custody.close()


def test_a_copy_cut_short_is_begun_again(mirrored: Custody, places: list[Path]) -> None:
    (places[0] / "custody.db.part").write_bytes(b"half a copy")
    mirrored.rotate(now=2)
    assert [path.name for path in places[0].iterdir()] == ["custody.db"]
    assert (places[0] / "custody.db").stat().st_mode & 0o777 == 0o600


def test_a_failure_between_commit_and_mirror_is_recovered(
    home: Home, mirrored: Custody, places: list[Path]
) -> None:
    failpoints.arm("e3.after:raise")
    with pytest.raises(CustodyUnavailable):
        mirrored.puncture(punctures([300]), now=2)
    failpoints.disarm()
    unwritable(places[0])
    with pytest.raises(CustodyUnavailable):
        mirrored.puncture(punctures([300]), now=3)
    back(places[0])
    assert mirrored.puncture(punctures([300]), now=4).at == 2
