"""What fails without a death: the same process goes on, and the erasure with it. CUSTODY.md §4."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import address
from shomei_service.engine.custody.keytree import path
from shomei_service.engine.errors import ErasurePending, NotFound
from shomei_service.engine.failpoints import CUSTODY_POINTS, InjectedError
from shomei_service.engine.model import NewMemory
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.status import status
from tests import oracle
from tests.crash.runs import Stored, named
from tests.fakes import Home

LATE = ["e1.after", *sorted(CUSTODY_POINTS), "e6.before", "e6.after_sign", "e6.after_commit", "answer.before"]


@pytest.mark.parametrize("point", LATE)
def test_an_erasure_that_failed_is_finished_by_upkeep(small: Stored, folder: Path, point: str) -> None:
    home = small.copied(folder)
    stone = named(small, "a stone")
    with home.opened() as house:
        failpoints.arm(f"{point}:raise")
        with pytest.raises((ErasurePending, InjectedError)):
            erase(house.engine, house.admin, stone)
        failpoints.disarm()
        assert search(house.engine, house.data, "stone").results == []
        upkeep(house.engine)
        assert oracle.settled(house, home.settings).keys() == small.rows.keys() - {stone}
        assert status(house.engine, house.data, stone).physically_purged
        with pytest.raises(NotFound):
            erase(house.engine, house.admin, stone)


@pytest.mark.parametrize("point", [point for point in LATE if point not in CUSTODY_POINTS or "e3" in point])
def test_an_erasure_that_failed_is_finished_by_a_repeat(small: Stored, folder: Path, point: str) -> None:
    """Whoever asks again takes it over, with its proof; only what was on record by then is not found."""
    home = small.copied(folder)
    stone = named(small, "a stone")
    with home.opened() as house:
        failpoints.arm(f"{point}:raise")
        with pytest.raises((ErasurePending, InjectedError)):
            erase(house.engine, house.admin, stone)
        failpoints.disarm()
        if point in {"e6.after_commit", "answer.before"}:
            with pytest.raises(NotFound):
                erase(house.engine, house.admin, stone)
        else:
            assert erase(house.engine, house.admin, stone).memory_id == stone
        assert oracle.settled(house, home.settings).keys() == small.rows.keys() - {stone}


def damage(home: Home, prefix: bytes) -> None:
    """Flip a byte in the part of the key tree under a prefix."""
    with closing(sqlite3.connect(home.settings.custody_store / "custody.db")) as custody, custody:
        done = custody.execute(
            "UPDATE custody_blob SET sealed = zeroblob(length(sealed)) WHERE prefix = ?", [prefix]
        )
        assert done.rowcount == 1


def test_one_damaged_key_keeps_no_other_erasure_from_its_end(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    stone, stick = named(small, "a stone"), named(small, "a stick")
    with home.opened() as house:
        stranger = house.stranger()
        ids = [add(house.engine, stranger, NewMemory(f"fact {number}")).memory_id for number in range(2)]
        erase(house.engine, stranger, ids[0])  # so that a part of the tree is theirs alone
        number = oracle.read(home.settings).tenants[stranger.tenant]["number"]
    damage(home, path(address(number, 256))[:-1])
    with home.opened() as house:
        with pytest.raises(ErasurePending):
            erase(house.engine, stranger, ids[1])
        assert erase(house.engine, house.admin, stone).memory_id == stone
        with pytest.raises(ErasurePending):
            upkeep(house.engine)
        assert status(house.engine, house.data, stone).physically_purged
    with home.opened() as house:
        assert status(house.engine, stranger, ids[1]).failures == ("erasure_pending",)
        assert search(house.engine, stranger, "fact").results == []
        assert erase(house.engine, house.admin, stick).memory_id == stick
