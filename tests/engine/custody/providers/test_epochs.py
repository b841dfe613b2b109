"""Epochs on every provider: death at each step, attacks with all copies, and what a copied provider is worth.

CUSTODY.md §4 and §7, proofs 4 to 6.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, CustodyMismatch, Seen, address
from shomei_service.engine.custody.providers.protocol import KeyState
from shomei_service.engine.errors import CustodyUnavailable
from shomei_service.engine.failpoints import CUSTODY_POINTS
from tests.engine.custody.home import INSTALLATION, Attacker, Home, leaves, punctures
from tests.providers import Custodian

ROWS = range(256, 300)
COMMITTED = {"e3.after", "p.readback", "e4.before", "e4.after", "e5.after"}
POINTS = sorted(CUSTODY_POINTS)


class Place(Home):
    """A custody store whose keys a custodian holds."""

    def __init__(self, custodian: Custodian, directory: Path) -> None:
        super().__init__(directory)
        self.custodian = custodian

    def create(self, **changes: object) -> Custody:
        provider = self.custodian.initialised(self.directory)
        return Custody.create(self.url, provider, installation_id=INSTALLATION, now=1, **changes)  # type: ignore[arg-type]

    def reopened(self, **changes: object) -> Custody:
        wanted: dict[str, object] = {"seen": Seen(), "now": 50} | changes
        provider = self.custodian.opened(self.directory)
        return Custody.open(self.url, provider, installation_id=INSTALLATION, **wanted)  # type: ignore[arg-type]

    def living(self) -> set[str]:
        return self.custodian.living(self.directory)

    def store(self, to: Path) -> Home:
        """Copy the custody store alone, as it lies on its disk."""
        shutil.copytree(self.custody_dir, to / "custody")
        return Home(to)

    def put_back(self, store: Home) -> None:
        shutil.rmtree(self.custody_dir)
        shutil.copytree(store.custody_dir, self.custody_dir)


@pytest.fixture
def place(custodian: Custodian, tmp_path: Path) -> Place:
    place = Place(custodian, tmp_path / "home")
    custody = place.create()
    assert custody.lease_tenant() == 1
    custody.lease_rows(1)
    custody.close()
    return place


def fails_at(point: str, custody: Custody, row: int) -> None:
    failpoints.arm(f"{point}:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([row]), now=row)
    assert failpoints.hits()[point] == 1
    failpoints.disarm()


def test_a_failure_at_any_step_is_recovered_by_opening_again(place: Place) -> None:
    custody = place.reopened()
    before = leaves(custody, ROWS)
    for epoch, (row, point) in enumerate(zip(ROWS, POINTS, strict=False)):
        fails_at(point, custody, row)
        custody.close()
        custody = place.reopened()
        is_done = point in COMMITTED
        assert custody.epoch == epoch + is_done, point
        assert len(place.living()) == 1, point
        done = custody.puncture(punctures([row]), now=900)
        assert (done.epoch_after, done.at) == (epoch + 1, row if is_done else 900), point
        assert done.destroy_method.value == place.custodian.destroy_method
        assert done.finality.value == place.custodian.finality
        erased = set(ROWS[: epoch + 1])
        assert leaves(custody, ROWS) == {one: None if one in erased else before[one] for one in ROWS}
        assert custody.puncture(punctures([row]), now=999) == done
        assert len(place.living()) == 1, point
    custody.close()


def _die(place: Place, point: str, row: int) -> None:
    """Be killed at a step of an erase; never return."""
    try:
        custody = place.reopened()
        failpoints.arm(f"{point}:kill")
        custody.puncture(punctures([row]), now=row)
    finally:
        os._exit(1)


def test_a_killed_process_leaves_the_old_or_the_new_head(place: Place) -> None:
    custody = place.reopened()
    before = leaves(custody, ROWS)
    custody.close()
    for epoch, (row, point) in enumerate(zip(ROWS, POINTS, strict=False)):
        child = os.fork()
        if child == 0:
            _die(place, point, row)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        custody = place.reopened()
        assert (leaves(custody, [row])[row] is None) == (point in COMMITTED), point
        assert custody.puncture(punctures([row]), now=900).epoch_after == epoch + 1
        erased = set(ROWS[: epoch + 1])
        assert leaves(custody, ROWS) == {one: None if one in erased else before[one] for one in ROWS}
        custody.close()
        assert len(place.living()) == 1, point


def test_every_copy_of_the_store_and_all_the_provider_still_gives_bring_back_nothing(
    place: Place, tmp_path: Path
) -> None:
    """Proof 4. The control: the same attacker, with the provider's copy from before, has everything."""
    custody = place.reopened()
    before = leaves(custody, ROWS)
    (tmp_path / "copies").mkdir()
    taken = place.custodian.snapshot(place.directory, tmp_path / "copies" / "provider")
    stores = [place.store(tmp_path / "copies" / "start")]
    for row, point in zip(ROWS, POINTS, strict=False):
        fails_at(point, custody, row)
        stores.append(place.store(tmp_path / "copies" / point))
        custody.puncture(punctures([row]), now=row)
        stores.append(place.store(tmp_path / "copies" / f"{point}.done"))
    custody.close()
    erased, alive = [address(1, row) for row in ROWS[: len(POINTS)]], address(1, ROWS[-1])

    today = Attacker(stores, providers=[place.custodian.opened(place.directory)])
    assert today.leaves([*erased, alive]) == {alive: before[ROWS[-1]]}

    with place.custodian.restored(taken) as then:
        found = Attacker(stores, providers=[then]).leaves([*erased, alive])
    assert found == {address(1, row): before[row] for row in [*ROWS[: len(POINTS)], ROWS[-1]]}


def test_what_was_copied_right_before_the_key_went_is_the_limit_that_receipts_state(
    place: Place, tmp_path: Path
) -> None:
    """Proof 6: a copy of the provider from before brings the row back; one from after, never."""
    custody = place.reopened()
    before = leaves(custody, ROWS[:1])
    store = place.store(tmp_path / "store")
    taken = place.custodian.snapshot(place.directory, tmp_path / "provider")
    done = custody.puncture(punctures(ROWS[:1]), now=10)
    later = place.custodian.snapshot(place.directory, tmp_path / "later")
    custody.close()
    wanted = [address(1, ROWS[0])]
    is_scheduled = done.finality.value == "scheduled"
    if is_scheduled:
        assert done.key_final_at is not None
        assert done.key_final_at >= done.destroyed_at
        # Once the window is closed no administrator can bring it back. The rest asks while it is open.
        with place.custodian.restored(taken) as open_window:
            assert Attacker([store], providers=[open_window]).leaves(wanted) == {wanted[0]: before[ROWS[0]]}
        place.custodian.opened(place.directory).destroy(_old_key(store))
        place.custodian.let_days_pass(31)
        later = taken
    else:
        with place.custodian.restored(taken) as then:
            assert Attacker([store], providers=[then]).leaves(wanted) == {wanted[0]: before[ROWS[0]]}
    with place.custodian.restored(later) as after:
        assert Attacker([store], providers=[after]).leaves(wanted) == {}


def _old_key(store: Home) -> str:
    ((_, name, _),) = Attacker([store]).wrapped
    return name


def test_a_store_put_back_from_before_refuses_and_costs_no_key(place: Place, tmp_path: Path) -> None:
    """Proof 5. It once happened that an old store destroyed every key not its own, and all was lost."""
    custody = place.reopened()
    custody.puncture(punctures([256]), now=2)
    old = place.store(tmp_path / "old")
    custody.puncture(punctures([257]), now=3)
    custody.puncture(punctures([258]), now=4)
    before = leaves(custody, ROWS)
    custody.close()
    newest, living = place.store(tmp_path / "newest"), place.living()
    place.put_back(old)
    for _ in range(2):
        with pytest.raises(CustodyMismatch) as refusal:
            place.reopened()
        assert "put the newest store, or the key, back" in refusal.value.message
    assert place.living() == living
    place.put_back(newest)
    custody = place.reopened()
    assert leaves(custody, ROWS) == before
    custody.close()


def test_two_openings_of_one_custody_take_turns(place: Place) -> None:
    """Two workers: each takes up the other's epoch before it writes, and one key is left."""
    first, second = place.reopened(), place.reopened()
    before = leaves(first, ROWS)
    for row in ROWS[:6]:
        (first, second)[row % 2].puncture(punctures([row]), now=row)
    for custody in (first, second):
        custody.refresh()
        assert leaves(custody, ROWS) == {row: None if row in ROWS[:6] else before[row] for row in ROWS}
        custody.close()
    assert len(place.living()) == 1


def test_a_lost_current_key_refuses_and_makes_none(place: Place) -> None:
    """Losing the key loses the domain; doing as if nothing were would lose it twice."""
    (name,) = place.living()
    provider = place.custodian.opened(place.directory)
    provider.destroy(name)  # type: ignore[arg-type]
    assert provider.state(name) is not KeyState.ACTIVE  # type: ignore[arg-type]
    with pytest.raises(CustodyMismatch) as refusal:
        place.reopened()
    assert "the key was lost" in refusal.value.message
    assert place.living() == set()
