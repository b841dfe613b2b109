"""Die between any two steps of an erase, attack with all that was on the disk. T-01, CUSTODY.md §4, §7."""

import os
import signal
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, address
from shomei_service.engine.errors import CustodyUnavailable
from shomei_service.engine.failpoints import CUSTODY_POINTS
from tests.engine.custody.home import Attacker, Home, leaves, punctures

ROWS = range(256, 400)
GONE, TARGET = 300, 301
COMMITTED = {"e3.after", "p.readback", "e4.before", "e4.after", "e5.after"}


def _die(home: Home, point: str) -> None:
    """Erase one row, then be killed at a step of the next; never return."""
    try:
        custody = home.open()
        custody.puncture(punctures([302]), now=3)
        failpoints.arm(f"{point}:kill")
        custody.puncture(punctures([TARGET]), now=4)
    finally:
        os._exit(1)


def settled(home: Home, before: dict[int, bytes | None], *, committed: bool, epoch: int) -> None:
    """Open after the crash, check that it is the old or the new head, and finish the erase."""
    custody = home.open()
    erased = {GONE, TARGET} if committed else {GONE}
    assert custody.epoch == epoch + committed
    assert leaves(custody, ROWS) == {row: None if row in erased else before[row] for row in ROWS}
    assert len(home.key_names()) == 1
    assert custody.status().keys_to_destroy == 0
    done = custody.puncture(punctures([TARGET]), now=60)
    assert done.epoch_after == epoch + 1
    assert done.at == (4 if committed else 60)
    assert leaves(custody, ROWS) == {row: None if row in {GONE, TARGET} else before[row] for row in ROWS}
    assert custody.puncture(punctures([TARGET]), now=99) == done
    assert [entry.addresses for entry in custody.epochs_after(epoch)] == [(address(1, TARGET),)]
    assert len(home.key_names()) == 1
    custody.close()


@pytest.mark.parametrize("point", sorted(CUSTODY_POINTS))
def test_a_failure_at_any_step_is_recovered_by_the_next_open(
    home: Home, custody: Custody, tmp_path: Path, point: str
) -> None:
    before = leaves(custody, ROWS)
    custody.puncture(punctures([GONE]), now=2)
    before = {**before, GONE: None}
    failpoints.arm(f"{point}:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([TARGET]), now=4)
    assert failpoints.hits()[point] == 1
    failpoints.disarm()
    settled(home.copy(tmp_path / "after"), before, committed=point in COMMITTED, epoch=1)


@pytest.mark.parametrize("point", sorted(CUSTODY_POINTS))
def test_a_failure_at_any_step_is_recovered_by_a_repeat(home: Home, custody: Custody, point: str) -> None:
    before = leaves(custody, ROWS)
    custody.puncture(punctures([GONE]), now=2)
    failpoints.arm(f"{point}:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([TARGET]), now=4)
    done = custody.puncture(punctures([TARGET]), now=9)
    assert (done.epoch_after, done.at) == (2, 4 if point in COMMITTED else 9)
    assert leaves(custody, ROWS) == {row: None if row in {GONE, TARGET} else before[row] for row in ROWS}
    assert len(home.key_names()) == 1


@pytest.mark.parametrize("point", sorted(CUSTODY_POINTS))
def test_a_second_failure_during_recovery_is_recovered_too(
    home: Home, custody: Custody, tmp_path: Path, point: str
) -> None:
    before = leaves(custody, ROWS)
    custody.puncture(punctures([GONE]), now=2)
    for _ in range(3):
        failpoints.arm(f"{point}:raise")
        with pytest.raises(CustodyUnavailable):
            custody.puncture(punctures([TARGET]), now=4)
        if point in COMMITTED:
            break
    failpoints.disarm()
    settled(home.copy(tmp_path / "after"), {**before, GONE: None}, committed=point in COMMITTED, epoch=1)


@pytest.mark.parametrize("point", sorted(CUSTODY_POINTS))
def test_a_killed_process_leaves_the_old_or_the_new_head(home: Home, custody: Custody, point: str) -> None:
    before = leaves(custody, ROWS)
    custody.close()
    child = os.fork()
    if child == 0:
        _die(home, point)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    opened = home.open()
    erased = {302, TARGET} if point in COMMITTED else {302}
    assert leaves(opened, ROWS) == {row: None if row in erased else before[row] for row in ROWS}
    assert opened.puncture(punctures([TARGET]), now=60).epoch_after == 2
    assert leaves(opened, [TARGET, 302]) == {TARGET: None, 302: None}
    assert len(home.key_names()) == 1
    opened.close()


def test_every_custody_failpoint_is_passed_by_one_erase(custody: Custody) -> None:
    failpoints.arm("")
    custody.puncture(punctures([TARGET]), now=4)
    assert set(failpoints.hits()) == CUSTODY_POINTS


def test_no_old_copy_of_the_store_brings_back_a_leaf(home: Home, custody: Custody, tmp_path: Path) -> None:
    """Every store at every crash point, combined, with today's keys: nothing. With the keys of then: all."""
    before = leaves(custody, range(300, 320))
    snapshots = [home.copy(tmp_path / "start")]
    for row, point in enumerate(sorted(CUSTODY_POINTS), start=300):
        failpoints.arm(f"{point}:raise")
        with pytest.raises(CustodyUnavailable):
            custody.puncture(punctures([row]), now=row)
        failpoints.disarm()
        snapshots.append(home.copy(tmp_path / point))
        custody.puncture(punctures([row]), now=row)
        snapshots.append(home.copy(tmp_path / f"{point}.done"))
    erased = [address(1, row) for row in range(300, 300 + len(CUSTODY_POINTS))]
    alive = address(1, 319)

    today = Attacker(snapshots, [home.keys_dir])
    assert today.leaves([*erased, alive]) == {alive: before[319]}

    then = Attacker(snapshots, [snapshot.keys_dir for snapshot in snapshots])
    assert then.leaves([*erased, alive]) == {address(1, row): before[row] for row in [*range(300, 308), 319]}


def test_a_key_taken_at_the_moment_before_destruction_is_the_limit_we_print(
    home: Home, custody: Custody, tmp_path: Path
) -> None:
    before = leaves(custody, [TARGET])
    failpoints.arm("e4.before:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([TARGET]), now=4)
    failpoints.disarm()
    copied = home.copy(tmp_path / "copied")
    custody.puncture(punctures([TARGET]), now=4)
    assert Attacker([copied], [home.keys_dir]).leaves([address(1, TARGET)]) == {}
    start = home.copy(tmp_path / "late")
    assert Attacker([copied, start], [copied.keys_dir]).leaves([address(1, TARGET)]) == {}
    assert before[TARGET] is not None


def test_the_next_opening_destroys_nothing_it_was_not_told_to(home: Home, custody: Custody) -> None:
    custody.puncture(punctures([GONE]), now=2)
    custody.close()
    bystander = home.keys_dir / "epoch-of-somebody-else.key"
    bystander.write_bytes(b"\x01" * 32)
    home.open().close()
    assert bystander.read_bytes() == b"\x01" * 32
