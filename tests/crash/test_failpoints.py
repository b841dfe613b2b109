"""Die at every failpoint of add, erase, forget and opening; open again; nothing is half done. T-01."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from shomei_service.engine.errors import NotFound
from shomei_service.engine.failpoints import CUSTODY_POINTS
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from tests import oracle
from tests.crash.runs import KILLED, ROOT, Run, Server, Stored, after, lapse, recovering
from tests.crash.scenario import Step
from tests.fakes import Home

STARTS_WITHIN_S = 10  # DEV-35
# Dying here leaves no trace of the step, or is made good by custody's journal at the next opening.
OUTCOMES = {"add.before_commit": False, "e1.before": None}
ADDING = ["add.before_commit", "add.after_commit"]
ERASING = [
    "e1.before",
    "e1.after",
    *sorted(CUSTODY_POINTS),
    "e6.before",
    "e6.after_sign",
    "e6.after_commit",
    "answer.before",
]
ALL = [*ADDING, *ERASING]
CHUNKED = ["e6.mid_batch:2", "e6.after_sign:3", "answer.before"]
# In these the first death leaves an erasure for recovery to finish; it dies again at each step of that.
FIRST_DEATHS = ["e1.after", "e6.after_sign"]


def small_steps(stored: Stored) -> list[Step]:
    """Add, erase one, forget a subject of one row, add again: every point of the three verbs twice."""
    stone = next(one for one, (text, _) in stored.rows.items() if text == "a stone")
    return [
        ["add", "a new lamp", "carol"],
        ["erase", stone],
        ["forget", "alice"],
        ["add", "a newer lamp", "alice"],
    ]


LARGE_STEPS: list[Step] = [["forget", "bulk"], ["add", "a new lamp", "bulk"]]


def holds(home: Home, stored: Stored, run: Run, *, carried_out: bool | None) -> None:
    """Open, which needs no call to recover; check; then ask for the interrupted step once more."""
    lapse(home)
    began = time.monotonic()
    with home.opened() as house:
        assert time.monotonic() - began < STARTS_WITHIN_S
        done = after(house, home, stored, run, carried_out=carried_out)
        verb, *words = run.answers()[-1][0]
        if verb == "erase" and done:
            with pytest.raises(NotFound):
                erase(house.engine, house.admin, words[0])
        if verb == "forget":
            left = 0 if done else sum(user == words[0] for _, user in stored.rows.values())
            assert len(forget(house.engine, house.admin, words[0]).erased) == left


def dies(server: Server, home: Home, steps: list[Step], spec: str) -> Run:
    """Run the steps into the armed failpoint: passing it at all is what kills."""
    name, _, nth = spec.partition(":")
    run = server.run(home, steps, f"{name}:kill:{nth or 1}")
    assert run.code == KILLED, run.errors
    assert run.answers()[-1][1] is None, "the step during which it died was not acknowledged"
    return run


# What an erase passes first, a forget passes second; custody's own steps are the same for both.
CASES = [*((point, 1) for point in ALL), *((point, 2) for point in ALL if point not in CUSTODY_POINTS)]


# On a server the same, at every other point; the governed verbs die there at the rest.
WHERE = [*(("sqlite", *case) for case in CASES), *(("postgres", *case) for case in CASES[::2])]


@pytest.mark.parametrize(("either_small", "point", "nth"), WHERE, indirect=["either_small"])
def test_one_death(server: Server, either_small: Stored, folder: Path, point: str, nth: int) -> None:
    home = either_small.copied(folder)
    run = dies(server, home, small_steps(either_small), f"{point}:{nth}")
    holds(home, either_small, run, carried_out=OUTCOMES.get(point, True))


@pytest.mark.parametrize("spec", ["e1.before", "e3.after", *CHUNKED])
def test_one_death_in_a_forget_of_many(server: Server, large: Stored, folder: Path, spec: str) -> None:
    home = large.copied(folder)
    run = dies(server, home, LARGE_STEPS, spec)
    holds(home, large, run, carried_out=OUTCOMES.get(spec, True))


@pytest.mark.parametrize("first", FIRST_DEATHS)
def test_a_second_death_at_each_step_of_recovery(
    server: Server, either_small: Stored, folder: Path, first: str, request: pytest.FixtureRequest
) -> None:
    (folder / "first").mkdir()
    home = either_small.copied(folder / "first")
    run = dies(server, home, small_steps(either_small), f"{first}:2")
    lapse(home)
    (folder / "look").mkdir()
    steps_of_recovery = recovery_hits(server, either_small.again(home, folder / "look"))
    assert {"boot.reerase", "e6.after_commit"} <= steps_of_recovery.keys()
    for second in recovering(request, either_small, steps_of_recovery):
        (folder / second).mkdir()
        again = either_small.again(home, folder / second)
        assert server.run(again, [], f"{second}:kill").code == KILLED
        lapse(again)
        with again.opened() as house:
            after(house, again, either_small, run, carried_out=True)


@pytest.mark.parametrize("second", ["e6.after_sign", "e6.mid_batch"])
def test_a_second_death_between_chunks(server: Server, large: Stored, folder: Path, second: str) -> None:
    home = large.copied(folder)
    run = dies(server, home, LARGE_STEPS, "e6.mid_batch")
    name, _, nth = second.partition(":")
    assert server.run(home, [], f"{name}:kill:{nth or 1}").code == KILLED
    holds(home, large, run, carried_out=True)


def recovery_hits(server: Server, home: Home) -> dict[str, int]:
    """Return which failpoints opening passes when it has something to recover."""
    run = server.run(home, [])
    assert run.code == 0, run.errors
    return run.hits


def test_a_run_that_is_not_killed_does_everything(server: Server, either_small: Stored, folder: Path) -> None:
    """The control: the same scenario, counted."""
    home = either_small.copied(folder)
    run = server.run(home, small_steps(either_small))
    assert run.code == 0, run.errors
    assert all(answer is not None for _, answer in run.answers())
    assert Counter(run.hits) >= Counter(dict.fromkeys([*ADDING, *ERASING], 2))
    with home.opened() as house:
        after(house, home, either_small, run, carried_out=True)
        texts = oracle.settled(house, home.settings)
    left = ["a ladder of bob", "a lamp of bob", "a new lamp", "a newer lamp", "a stick"]
    assert sorted(texts.values()) == left


def test_the_environment_arms_a_failpoint(small: Stored, folder: Path) -> None:
    """The way an operator's test would do it: SHOMEI_FAILPOINTS, read where the engine is opened."""
    home = small.copied(folder)
    script = (
        "from shomei_service import bootstrap, settings\n"
        "with bootstrap.opened(settings.read_settings()): print('opened')"
    )
    named = {"SHOMEI_HOME": str(home.settings.home), "SHOMEI_FAILPOINTS": "boot.reerase:kill"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "packages"), "SHOMEI_EMBEDDER": "none", **named}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    assert (ended.returncode, ended.stdout) == (KILLED, b"")
    with home.opened() as house:
        assert oracle.settled(house, home.settings).keys() == small.rows.keys()
