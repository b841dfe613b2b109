"""Die at every failpoint of a forget beside a hold, an update and a release; nothing is half done. T-01."""

from pathlib import Path

import pytest

from shomei_service.engine.failpoints import CUSTODY_POINTS
from tests import oracle
from tests.crash.runs import KILLED, Run, Server, Stored, after, lapse, named, recovering
from tests.crash.scenario import Step
from tests.fakes import Home

LATE = ["e1.after", *sorted(CUSTODY_POINTS), "e6.before", "e6.after_sign", "e6.after_commit", "answer.before"]
FORGET, UPDATE, RELEASE = 1, 2, 3  # the order in which the steps pass a point
# An act that died before its commit is not begun, or is made good by custody's journal at the next opening.
BEFORE = [("e1.before", FORGET), ("e1.before", UPDATE), ("e1.before", RELEASE)]
CASES = [
    *BEFORE,
    ("hold.release_commit", 1),
    *((point, FORGET) for point in ("e1.after", "e6.after_sign")),
    *((point, UPDATE) for point in LATE if point not in CUSTODY_POINTS or point == "e3.after"),
    *((point, RELEASE) for point in ("e1.after", "e3.after", "e6.after_sign", "answer.before")),
]


def steps(stored: Stored) -> list[Step]:
    """Hold one of alice's rows, forget her, update bob's lamp, release the hold, which erases the row."""
    held = named(stored, "a picture of alice")
    lamp = named(stored, "a lamp of bob")
    return [
        ["hold", held],
        ["forget", "alice"],
        ["update", lamp, "a brighter lamp of bob"],
        ["release", held],
        ["add", "a last stone", "alice"],
    ]


def dies(server: Server, home: Home, stored: Stored, point: str, nth: int) -> Run:
    run = server.run(home, steps(stored), f"{point}:kill:{nth}")
    assert run.code == KILLED, run.errors
    lapse(home)
    return run


@pytest.mark.parametrize(("point", "nth"), CASES)
def test_one_death(server: Server, either_governed: Stored, folder: Path, point: str, nth: int) -> None:
    home = either_governed.copied(folder)
    run = dies(server, home, either_governed, point, nth)
    with home.opened() as house:
        after(house, home, either_governed, run, carried_out=None if (point, nth) in BEFORE else True)


def test_a_second_death_at_each_step_of_recovery(
    server: Server, either_governed: Stored, folder: Path, request: pytest.FixtureRequest
) -> None:
    (folder / "first").mkdir()
    home = either_governed.copied(folder / "first")
    run = dies(server, home, either_governed, "e1.before", FORGET)
    (folder / "look").mkdir()
    looked = server.run(either_governed.again(home, folder / "look"), [])
    assert looked.code == 0, looked.errors
    for second in recovering(request, either_governed, looked.hits):
        (folder / second).mkdir()
        again = either_governed.again(home, folder / second)
        assert server.run(again, [], f"{second}:kill").code == KILLED
        lapse(again)
        with again.opened() as house:
            after(house, again, either_governed, run, carried_out=None)


def test_a_run_that_is_not_killed_does_everything(
    server: Server, either_governed: Stored, folder: Path
) -> None:
    """The control: the same steps, counted; each late point is passed by all three."""
    home = either_governed.copied(folder)
    run = server.run(home, steps(either_governed))
    assert run.code == 0, run.errors
    assert {point: run.hits[point] for point in LATE} == dict.fromkeys(LATE, 3)
    with home.opened() as house:
        after(house, home, either_governed, run, carried_out=True)
        texts = oracle.settled(house, home.settings)
    assert sorted(texts.values()) == ["a brighter lamp of bob", "a last stone"]
