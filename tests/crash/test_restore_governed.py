"""A restored database forgot holds, restrictions, revocations, requests; custody did not. CUSTODY.md §4."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from shomei_service.engine.errors import Held, SigningFault, Unauthenticated
from shomei_service.engine.model import Authority, Release, Scope, Tenant
from shomei_service.engine.receipts.signer import ReceiptSigner
from shomei_service.engine.signing import Signing
from shomei_service.engine.store.unit import Unit
from shomei_service.engine.verbs import access, hold, restrict
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.search import search
from tests import oracle
from tests.crash.runs import KILLED, Server, copied
from tests.crash.test_restore import back_up, put_back
from tests.fakes import Home, new_home

ALICE = ("a kettle of alice", "a chair of alice", "a picture of alice")


@dataclass(frozen=True, slots=True)
class Story:
    """A home whose database was put back from before it was governed, and what was in force until then."""

    home: Home
    gone: set[str]
    held: str
    restricted: str
    token: str
    before: oracle.Records


@pytest.fixture
def story(folder: Path) -> Story:
    """After the backup: a hold, a forget that the hold defers in part, a restriction and a revocation."""
    home = new_home(folder)
    with home.opened() as house:
        first, second, held = (house.remember(text, "alice") for text in ALICE)
        restricted = house.remember("a lamp of bob", "bob")
        key = access.create_key(house.engine, house.admin.tenant, Scope.ADMIN)
        backup = back_up(home, folder / "backup.db")
        hold.place(house.engine, house.admin, hold.NewHold(Authority.LITIGATION, memory_id=held))
        forget(house.engine, house.admin, "alice")
        restrict.restrict(house.engine, house.admin, restricted)
        access.revoke_key(house.engine, house.admin.tenant, key.key_id)
    before = oracle.read(home.settings)
    put_back(home, backup)
    return Story(home, {first, second}, held, restricted, key.token, before)


def in_force(records: oracle.Records) -> dict[str, object]:
    """Return what governs, without what only a new log can change."""
    requests = [{**one, "closure_hash": None} for one in records.requests]
    names = ("hold_id", "scope", "memory_id", "authority_code")
    return {
        "requests": requests,
        "deferrals": records.deferrals,
        "owed": records.owed,
        "holds": [{name: one[name] for name in names} for one in records.holds],
        "grounds": {one["memory_id"]: one["grounds"] for one in records.memories},
    }


def holds_again(story: Story, home: Home) -> None:
    with home.opened() as house:
        assert oracle.settled(house, home.settings).keys() == {story.held, story.restricted}
        assert search(house.engine, house.data, "kettle chair picture lamp").results == []
        with pytest.raises(Held):
            erase(house.engine, house.admin, story.held)
        with pytest.raises(Unauthenticated):
            access.authenticate(house.engine, story.token)
    records = oracle.read(home.settings)
    assert in_force(records) == in_force(story.before)
    assert records.journal == story.before.journal, "a replay tells custody nothing new"


def test_everything_is_in_force_before_the_first_answer(story: Story) -> None:
    holds_again(story, story.home)
    holds_again(story, story.home)


def test_a_death_at_each_line_of_the_journal(server: Server, story: Story, folder: Path) -> None:
    """What was replayed before a death must not hide what was still to come."""
    (folder / "look").mkdir()
    looked = server.run(copied(story.home, folder / "look"), [])
    assert looked.code == 0, looked.errors
    lines = looked.hits["boot.journal"]
    assert lines == len(story.before.journal)
    for nth in range(1, lines + 1):
        (folder / str(nth)).mkdir()
        home = copied(story.home, folder / str(nth))
        assert server.run(home, [], f"boot.journal:kill:{nth}").code == KILLED
        holds_again(story, home)


def test_the_hold_that_came_back_ends_as_it_would_have(story: Story) -> None:
    """The deferred row is erased with the last hold, and the closure counts what the request matched."""
    with story.home.opened() as house:
        (found,) = hold.page(house.engine, house.admin).holds
        released = hold.release(house.engine, house.admin, found.hold_id, Release.MATTER_CLOSED, confirm=True)
        (closure,) = released.disposed.closures.values()
        counts = [closure.body[f"{name}_count"] for name in ("matched", "erased", "deferred")]
        assert counts == [3, 3, 0]
        assert closure.body["disposition"] == "complete"
        oracle.settled(house, story.home.settings)


class Mute(Signing):
    """A signer that can be found and does not sign."""

    def of(self, unit: Unit, tenant: Tenant) -> ReceiptSigner | None:
        raise SigningFault("the signer could not sign")

    def probe(self) -> None:
        raise SigningFault("the signer could not sign")


def test_what_failed_is_not_done_by_a_later_opening(folder: Path) -> None:
    """The journal is written before the commit; a line whose unit came to nothing is taken back."""

    home = new_home(folder)
    with home.opened() as house:
        ids = {house.remember(text, "alice") for text in ALICE}
        backup = back_up(home, folder / "backup.db")
        signing, house.engine.signing = house.engine.signing, Mute(house.engine.signing.signers)
        for act in (
            lambda: forget(house.engine, house.admin, "alice"),
            lambda: restrict.restrict(house.engine, house.admin, min(ids)),
        ):
            with pytest.raises(SigningFault):
                act()
        house.engine.signing = signing
    for restored in (False, True):
        if restored:
            put_back(home, backup)
        with home.opened() as house:
            assert oracle.settled(house, home.settings).keys() == ids
            assert len(search(house.engine, house.data, "alice").results) == 3
        assert oracle.read(home.settings).requests == []
