"""Die at the Nth sync, write, cut, rename and unlink; what was said is kept, the rest is whole. T-02."""

from pathlib import Path

import pytest

from tests import oracle
from tests.crash.deep import is_deep, keep
from tests.crash.runs import KILLED, Server, Stored, after, lapse, named
from tests.crash.scenario import Step
from tests.crash.strace import WRITING, counted, killing, logging, needs_strace, spread

AT_MOST = 7  # of each call, by default
ON_A_SERVER, DEEP_ON_A_SERVER = 4, 250


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


def rotating(stored: Stored) -> list[Step]:
    """What renames: a key that takes another's place."""
    return [["add", "a new lamp", "carol"], ["rotate_signer"], ["erase", named(stored, "a stone")]]


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


@needs_strace
def test_die_at_the_nth_renaming(server: Server, small: Stored, folder: Path) -> None:
    (folder / "whole").mkdir()
    whole = small.copied(folder / "whole")
    run = server.run(whole, rotating(small), trace=logging(folder / "log", "rename"))
    assert run.code == 0, run.errors
    calls = counted(folder / "log")["rename"]
    assert calls >= 2
    for nth in range(1, calls + 1):
        (folder / str(nth)).mkdir()
        home = small.copied(folder / str(nth))
        assert server.run(home, rotating(small), trace=killing("rename", nth)).code == KILLED
        with home.opened() as house:
            texts = oracle.settled(house, home.settings)
        assert "a new lamp" in texts.values()


@needs_strace
def test_die_at_the_nth_word_to_the_server(
    server: Server, small_postgres: Stored, folder: Path, request: pytest.FixtureRequest
) -> None:
    """On PostgreSQL the server syncs; what a process of ours does to it is what it sends."""
    (folder / "whole").mkdir()
    whole = small_postgres.copied(folder / "whole")
    run = server.run(whole, steps(small_postgres), trace=logging(folder / "log", "sendto"))
    assert run.code == 0, run.errors
    calls = counted(folder / "log")["sendto"] * 4 // 5  # how often is asked while waiting differs by run
    points = list(spread(calls, DEEP_ON_A_SERVER if is_deep(request) else ON_A_SERVER))
    for nth in points:
        (folder / str(nth)).mkdir()
        home = small_postgres.copied(folder / str(nth))
        run = server.run(home, steps(small_postgres), trace=killing("sendto", nth))
        assert run.code == KILLED, (nth, run.errors)
        lapse(home)
        with home.opened() as house:
            after(house, home, small_postgres, run, carried_out=None)
    keep(request, "killed at sendto", {"calls": calls, "deaths": len(points)})
