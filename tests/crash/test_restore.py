"""A database put back from a backup: what was erased since stays gone, everything else is as it was. T-13."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from shomei_service.engine.errors import NotFound
from shomei_service.engine.model import Caller, NewMemory
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.read import get
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.status import status
from tests import oracle
from tests.crash.runs import KILLED, Server
from tests.fakes import FixedClock, Home, new_home

ALICE = [f"alice's kettle number {number}" for number in range(3)]


THEN = 1_700_000_000  # long before any test: a time that only custody can give back


def database(home: Home) -> Path:
    return home.settings.data / "shomei.db"


def back_up(home: Home, to: Path) -> Path:
    """Copy the database alone, as a backup tool does: whole, while others may have it open."""
    with closing(sqlite3.connect(database(home))) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
    return to


def put_back(home: Home, backup: Path) -> None:
    for path in home.settings.data.glob("shomei.db*"):
        path.unlink()
    shutil.copy(backup, database(home))
    database(home).chmod(0o600)


@dataclass(frozen=True, slots=True)
class Story:
    """A home whose database was backed up, and what was done to it after that."""

    home: Home
    backup: Path
    kept: dict[str, str]
    erased: str
    forgotten: set[str]
    later: str
    stranger: Caller
    before: oracle.Records

    @property
    def gone(self) -> set[str]:
        return {self.erased, *self.forgotten}


@pytest.fixture
def story(folder: Path) -> Story:
    """Two tenants; since the backup a row was added, one erased, a subject forgotten; all is closed."""
    home = new_home(folder)
    with home.opened() as house:
        kept = {house.remember(text, "bob"): text for text in ("a lamp", "a ladder")}
        forgotten = {house.remember(text, "alice") for text in ALICE}
        erased = house.remember("a stone")
        stranger = house.stranger()
        theirs = add(house.engine, stranger, NewMemory("a foreign kettle", "alice"))
        kept[theirs.memory_id] = "a foreign kettle"
        backup = back_up(home, folder / "backup.db")
        later = house.remember("a stick, later", "bob")
        house.engine.clock = FixedClock(THEN)
        erase(house.engine, house.admin, erased)
        forget(house.engine, house.admin, "alice")
    before = oracle.read(home.settings)
    put_back(home, backup)
    return Story(home, backup, kept, erased, forgotten, later, stranger, before)


def log_of(records: oracle.Records, tenant: str) -> list[oracle.Row]:
    return [row for row in records.receipts if row["tenant_id"] == tenant]


def places(records: oracle.Records) -> Iterator[tuple[tuple[str, int], str]]:
    for row in records.receipts:
        yield (row["origin"], row["seq"]), row["receipt_hash"]


def identities(records: oracle.Records) -> set[tuple[str, str, int, str]]:
    names = ("memory_id", "tombstone_id", "erased_at", "cause")
    return {tuple(stone[name] for name in names) for stone in records.tombstones}  # type: ignore[misc]


def holds(story: Story) -> oracle.Records:
    """Open, and assert that what custody knows outweighs what the database forgot."""
    with story.home.opened() as house:
        texts = oracle.settled(house, story.home.settings)
        assert texts == story.kept
        assert search(house.engine, house.data, "kettle stone").results == []
        for memory_id in story.gone:
            assert status(house.engine, house.data, memory_id).failures == ("erased",)
            with pytest.raises(NotFound):
                get(house.engine, house.data, memory_id)
        (foreign,) = search(house.engine, story.stranger, "kettle").results
        assert foreign.memory.content.text == "a foreign kettle"
    records = oracle.read(story.home.settings)
    assert identities(records) == identities(story.before)
    assert {stone["erased_at"] for stone in records.tombstones} == {THEN}
    assert all(stone["physically_purged"] for stone in records.tombstones)
    return records


def test_what_was_erased_since_the_backup_is_erased_again(story: Story) -> None:
    records = holds(story)
    ours = log_of(records, story.home.tenant)
    reerased = [row["statement"] for row in ours if row["schema"] == "shomei.reerase.v1"]
    assert {body["memory_id"] for body in reerased} == story.gone
    assert all(body["backup_detected"] is True for body in reerased)
    assert [body["original_epoch"] for body in reerased] == [1, 2, 2, 2]


def test_the_log_goes_on_under_a_new_origin(story: Story) -> None:
    """No place in a log is given out twice, and the new log says where the old one had come to."""
    records = holds(story)
    old = log_of(story.before, story.home.tenant)
    new = [row for row in log_of(records, story.home.tenant) if row["origin"] != old[0]["origin"]]
    first = new[0]["statement"]
    assert new[0]["schema"] == "shomei.log_restart.v1"
    assert (first["previous_origin"], first["previous_next_seq"]) == (old[0]["origin"], len(old))
    issued = dict(places(story.before))
    assert all(issued.get(place, receipt) == receipt for place, receipt in places(records))


def test_other_tenants_are_undisturbed(story: Story) -> None:
    records = holds(story)
    stranger = story.stranger.tenant
    assert log_of(records, stranger) == log_of(story.before, stranger)
    assert records.tenants[stranger] == story.before.tenants[stranger]


def test_a_second_opening_finds_nothing_to_do(story: Story) -> None:
    once = holds(story)
    assert holds(story) == once


def test_closed_sets_come_back_equal(story: Story) -> None:
    """An auditor who kept the closure from before the restore gets the same commitment after it."""
    holds(story)
    with story.home.opened() as house:
        again = forget(house.engine, house.admin, "alice").closure
    (was,) = [row["statement"] for row in story.before.receipts if "closure" in row["schema"]]
    assert again is not None
    assert again.body["closed_set_commitment"] == was["closed_set_commitment"]
    assert again.body["disposition"] == "noop_no_match"


def test_no_leaf_is_used_again(story: Story) -> None:
    """The row added after the backup is simply absent; what comes next never gets its key."""
    (leaf,) = [row["address"] for row in story.before.memories if row["memory_id"] == story.later]
    holds(story)
    with story.home.opened() as house:
        for number in range(5):
            house.remember(f"new {number}")
    used = [row["address"] for row in oracle.read(story.home.settings).memories]
    assert max(story.before.punctured) < leaf or leaf not in used
    assert leaf not in used
    assert set(used).isdisjoint(story.before.punctured)


@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_a_backup_restored_twice(server: Server, story: Story, ending: str) -> None:
    """Each restore gets an origin of its own, though the second one's database knows nothing of the first."""
    if ending == "killed":
        assert server.run(story.home, [["add", "a stick", "bob"]], "add.before_commit:kill").code == KILLED
        first = oracle.read(story.home.settings)
    else:
        first = holds(story)
    put_back(story.home, story.backup)
    second = holds(story)
    issued = dict(places(story.before)) | dict(places(first))
    assert all(issued.get(place, receipt) == receipt for place, receipt in places(second))
    start = log_of(second, story.home.tenant)[-5]["statement"]
    end_of_first = log_of(first, story.home.tenant)[-1]
    assert start["schema"] == "shomei.log_restart.v1"
    assert start["previous_origin"] == end_of_first["origin"]
    assert start["previous_next_seq"] == end_of_first["seq"] + 1


def test_a_death_while_erasing_again(server: Server, story: Story) -> None:
    """Before the first epoch's rows, after them, and after the second's: it is taken up where it was left."""
    for nth in (1, 2, 2):
        assert server.run(story.home, [], f"boot.reerase:kill:{nth}").code == KILLED
    holds(story)


def test_a_backup_of_an_erasure_under_way(server: Server, story: Story, folder: Path) -> None:
    """The backup holds the intent; its erasure was finished, receipted and answered after it was taken."""
    holds(story)
    (victim, *_) = story.kept
    assert server.run(story.home, [["erase", victim]], "e6.before:kill").code == KILLED
    backup = back_up(story.home, folder / "under_way.db")
    with story.home.opened() as house:
        after = oracle.settled(house, story.home.settings)
    assert victim not in after
    issued = oracle.read(story.home.settings)
    put_back(story.home, backup)
    with story.home.opened() as house:
        assert oracle.settled(house, story.home.settings) == after
    records = oracle.read(story.home.settings)
    assert identities(records) == identities(issued)
    known = dict(places(issued))
    assert all(known.get(place, receipt) == receipt for place, receipt in places(records))


def test_a_backup_of_an_update_under_way(server: Server, story: Story, folder: Path) -> None:
    """The successor, which the backup holds where nobody sees it yet, was erased after all was done."""
    holds(story)
    (victim, *_) = story.kept
    steps = [["update", victim, "a brighter lamp"]]
    assert server.run(story.home, steps, "e6.before:kill").code == KILLED
    backup = back_up(story.home, folder / "under_way.db")
    with story.home.opened() as house:
        texts = oracle.settled(house, story.home.settings)
        (successor,) = [one for one, text in texts.items() if text == "a brighter lamp"]
        erase(house.engine, house.admin, successor)
    put_back(story.home, backup)
    with story.home.opened() as house:
        assert oracle.settled(house, story.home.settings).keys() == texts.keys() - {successor}
        assert status(house.engine, house.data, successor).failures == ("erased",)


def test_a_backup_put_back_after_a_kill(server: Server, story: Story, folder: Path) -> None:
    """Nothing was closed in peace: the marks that custody keeps are enough."""
    holds(story)
    backup = back_up(story.home, folder / "again.db")
    (victim, *_) = story.kept
    steps = [["add", "a stick", "bob"], ["erase", victim]]
    assert server.run(story.home, steps, "e6.before:kill").code == KILLED
    issued = oracle.read(story.home.settings)
    put_back(story.home, backup)
    with story.home.opened() as house:
        assert victim not in oracle.settled(house, story.home.settings)
    records = oracle.read(story.home.settings)
    known = dict(places(issued))
    assert all(known.get(place, receipt) == receipt for place, receipt in places(records))
    restart = log_of(records, story.home.tenant)[-2]["statement"]
    last = log_of(issued, story.home.tenant)[-1]
    assert (restart["previous_origin"], restart["previous_next_seq"]) == (last["origin"], last["seq"] + 1)
