"""T-13, all four cases on both databases: which of the three places went back, and what follows."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from shomei_service.engine.errors import StartRefused
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.status import status
from tests import oracle
from tests.crash.runs import Stored, snapshot
from tests.fakes import Home


@dataclass(frozen=True, slots=True)
class Past:
    """An installation as it was, as it is now, and a row that was erased in between."""

    then: Home
    now: Home
    kept: dict[str, str]
    erased: str

    def mixed(self, *, database: bool, custody: bool, keys: bool) -> Home:
        """Return the installation with some of its places put back to what they were."""
        main, other, holder = (
            (self.then if back else self.now).settings for back in (database, custody, keys)
        )
        places = {
            "data_dir": main.data,
            "database_url": main.database_url,
            "custody_dir": other.custody_store,
            "custody_url": other.custody_url,
            "key_dir": holder.keys,
        }
        return replace(self.now, settings=self.now.settings.model_copy(update=places))


@pytest.fixture
def past(either_small: Stored, folder: Path) -> Past:
    for name in ("then", "now"):
        (folder / name).mkdir()
    then = either_small.copied(folder / "then")
    now = either_small.again(then, folder / "now")
    erased, *kept = either_small.rows
    with now.opened() as house:
        erase(house.engine, house.admin, erased)
    return Past(then, now, {one: either_small.rows[one][0] for one in kept}, erased)


def test_the_database_alone_is_brought_up_to_date(past: Past) -> None:
    home = past.mixed(database=True, custody=False, keys=False)
    before = oracle.read(past.now.settings).tombstones
    with home.opened() as house:
        assert oracle.settled(house, home.settings) == past.kept
        assert status(house.engine, house.data, past.erased).failures == ("erased",)
    records = oracle.read(home.settings)
    assert [one["tombstone_id"] for one in records.tombstones] == [one["tombstone_id"] for one in before]
    ours = [row["schema"].split(".")[1] for row in records.receipts if row["tenant_id"] == home.tenant]
    assert ours[-2:] == ["log_restart", "reerase"]


@pytest.mark.parametrize("database", [False, True], ids=["custody", "custody and database"])
def test_custody_without_its_provider_is_refused(past: Past, database: bool) -> None:
    """The current provider has no key for it: refused, with a line that says what to do, and untouched."""
    home = past.mixed(database=database, custody=True, keys=False)
    before = [snapshot(one) for one in (past.then, past.now)]
    with pytest.raises(StartRefused) as refusal, home.opened():
        pass
    assert "back" in refusal.value.message
    assert [snapshot(one) for one in (past.then, past.now)] == before
    with past.now.opened() as house:
        assert oracle.settled(house, past.now.settings) == past.kept


def test_custody_and_its_provider_are_refused_by_the_database(past: Past) -> None:
    """Both went back together and fit each other; the database has seen more."""
    home = past.mixed(database=False, custody=True, keys=True)
    before = [snapshot(one) for one in (past.then, past.now)]
    with pytest.raises(StartRefused, match="older than the database"), home.opened():
        pass
    assert [snapshot(one) for one in (past.then, past.now)] == before


def test_all_three_can_not_be_noticed_from_inside(past: Past) -> None:
    """The limit that the documents print: it is a state that once was."""
    home = past.mixed(database=True, custody=True, keys=True)
    with home.opened() as house:
        assert past.erased in oracle.settled(house, home.settings)
