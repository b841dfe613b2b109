"""Die at the Nth sync, write, cut, rename and unlink; what was said is kept, the rest is whole. T-02."""

from pathlib import Path

import pytest

from tests.crash.deep import is_deep, keep
from tests.crash.runs import KILLED, Server, Stored, after, named
from tests.crash.scenario import Step
from tests.crash.strace import WRITING, counted, killing, logging, needs_strace, spread

AT_MOST = 7  # of each call, by default


def steps(stored: Stored) -> list[Step]:
    """One of each verb that writes: some fifty syncs and eight hundred writes."""
    stone, lamp = named(stored, "a stone"), named(stored, "a lamp of bob")
    ladder = named(stored, "a ladder of bob")
    return [
        ["add", "a new lamp", "carol"],
        ["hold", lamp],
        ["erase", stone],
        ["update", ladder, "a longer ladder of bob"],
        ["forget", "bob"],
        ["release", lamp],
    ]


@needs_strace
@pytest.mark.parametrize("call", WRITING)
def test_die_at_the_nth_call(
    server: Server, small: Stored, folder: Path, call: str, request: pytest.FixtureRequest
) -> None:
    (folder / "whole").mkdir()
    whole = small.copied(folder / "whole")
    run = server.run(whole, steps(small), trace=logging(folder / "log", call))
    assert run.code == 0, run.errors
    calls = counted(folder / "log")[call]
    at_most = None if is_deep(request) else AT_MOST
    points = list(spread(calls, at_most))
    for nth in points:
        (folder / str(nth)).mkdir()
        home = small.copied(folder / str(nth))
        run = server.run(home, steps(small), trace=killing(call, nth))
        assert run.code == KILLED, (call, nth, run.errors)
        with home.opened() as house:
            after(house, home, small, run, carried_out=None)
    keep(request, f"killed at {call}", {"calls": calls, "deaths": len(points)})
