"""Clocks that jump, stand still or disagree: order is by number, nothing waits or ends early for a clock.

RELIABILITY T-14.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shomei_service.engine.model import LawfulBasis, NewMemory, Policies
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.search import search
from tests import oracle
from tests.crash.places import quick_folder
from tests.engine.custody.postgres import running
from tests.fakes import FixedClock, Home, House
from tests.laws.workers import on_server

_DAY, _YEAR, _LEAP = 86_400, 365 * 86_400, 1_483_228_799  # the second before the leap second of 2016
MOVES = [0, _YEAR, -_YEAR, -_YEAR, 2 * _YEAR, -1, 3_600, -3_600, 0]


def applied(home: Home) -> list[int]:
    return [row["statement"]["applied_at"] for row in oracle.read(home.settings).receipts]


@pytest.mark.parametrize("start", [1_800_000_000, _LEAP, 1_774_746_000])  # the last: an hour that is skipped
def test_times_never_run_backwards_in_a_log(house: House, home: Home, start: int) -> None:
    clock = FixedClock(start)
    house.engine.clock = clock
    for number, move in enumerate(MOVES):
        clock.at += move
        memory_id = house.remember(f"a kettle {number}", "alice")
        if number % 2:
            erase(house.engine, house.admin, memory_id)
        upkeep(house.engine)
    times = applied(home)
    assert times == sorted(times)
    oracle.settled(house, home.settings)


def test_expiry_waits_for_its_time_and_is_not_undone(house: House, home: Home) -> None:
    clock = FixedClock()
    house.engine.clock = clock
    access.set_policies(house.engine, house.admin.tenant, Policies(erase_when_expired=True))
    due = clock.at + _DAY
    new = NewMemory("a kettle", "alice", lawful_basis=LawfulBasis.CONTRACT, expires_at=due)
    memory_id = add(house.engine, house.data, new).memory_id
    for at in (clock.at - _YEAR, due - 1):
        clock.at = at
        upkeep(house.engine)
        assert found(house) == {memory_id}
    clock.at = due
    assert found(house) == set()
    upkeep(house.engine)
    clock.at -= _YEAR
    assert found(house) == set()
    assert oracle.settled(house, home.settings) == {}


def found(house: House) -> set[str]:
    return {one.memory.memory_id for one in search(house.engine, house.data, "kettle").results}


@pytest.fixture
def two() -> Iterator[tuple[Home, House, House]]:
    """Two workers on one PostgreSQL database."""
    with quick_folder() as folder, running() as server:
        home = on_server(Path(folder), server, "clocks")
        with home.opened() as one, home.opened() as other:
            yield home, one, other


def test_workers_whose_clocks_are_ten_minutes_apart(two: tuple[Home, House, House]) -> None:
    """The log's times do not run back, and each leaves the other's erasures to it all the same."""
    home, one, other = two
    one.engine.clock, other.engine.clock = FixedClock(), FixedClock(FixedClock().at - 600)
    for number in range(4):
        for house in (one, other):
            memory_id = house.remember(f"a kettle {number}", "alice")
            if number % 2:
                erase(house.engine, house.admin, memory_id)
            upkeep(house.engine)
    times = applied(home)
    assert times == sorted(times)
    assert len(oracle.settled(one, home.settings)) == 4
