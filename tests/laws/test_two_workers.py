"""Two workers on one PostgreSQL database, two verbs on one memory: one end, one receipt. T-19, DEV-36.

`tests/engine/verbs/test_races.py` has the same races, and more rounds of them, in one process on SQLite.
"""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from shomei_service.engine.errors import Blocked, ErasureInProgress, Held, NotFound
from shomei_service.engine.model import Added, Authority, Erased, Forgotten, NewMemory, Restricted, Updated
from shomei_service.engine.verbs import hold
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import restrict
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.crash.deep import is_deep
from tests.crash.places import quick_folder
from tests.engine.custody.postgres import running
from tests.fakes import Home, House
from tests.laws.test_concurrency import at_once
from tests.laws.workers import on_server

ROUNDS, DEEP_ROUNDS = 4, 150
Act = Callable[[House, str, str], Any]
Two = tuple[Home, House, House]


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    """One installation, open twice."""
    with quick_folder() as folder, running() as server:
        home = on_server(folder, server, "races")
        with home.opened() as one, home.opened() as other:
            yield home, one, other


def _erase(house: House, memory_id: str, _: str) -> Any:
    return erase(house.engine, house.admin, memory_id)


def _update(house: House, memory_id: str, _: str) -> Any:
    return update(house.engine, house.admin, memory_id, "a newer kettle")


def _forget(house: House, _: str, user: str) -> Any:
    return forget(house.engine, house.admin, user)


def _restrict(house: House, memory_id: str, _: str) -> Any:
    return restrict(house.engine, house.admin, memory_id)


def _hold(house: House, memory_id: str, _: str) -> Any:
    new = hold.NewHold(Authority.LITIGATION, memory_id=memory_id)
    return hold.place(house.engine, house.admin, new)


def _add(house: House, _: str, user: str) -> Any:
    return add(house.engine, house.data, NewMemory("another kettle", user))


# What either may come to when the other was first, or second.
RACES: dict[str, tuple[Act, Act, set[tuple[type, type]]]] = {
    "erase and erase": (_erase, _erase, {(Erased, NotFound), (NotFound, Erased)}),
    "erase and forget": (_erase, _forget, {(Erased, Forgotten), (NotFound, Forgotten)}),
    "update and update": (_update, _update, {(Updated, NotFound), (NotFound, Updated)}),
    "update and erase": (_update, _erase, {(Updated, NotFound), (NotFound, Erased)}),
    "update and forget": (_update, _forget, {(Updated, Forgotten), (NotFound, Forgotten)}),
    "restrict and update": (_restrict, _update, {(Restricted, Blocked), (NotFound, Updated)}),
    "hold and erase": (_hold, _erase, {(hold.Held, Held), (ErasureInProgress, Erased), (NotFound, Erased)}),
    "forget and add": (_forget, _add, {(Forgotten, Added)}),
}


@pytest.mark.parametrize("race", RACES)
def test_two_verbs_in_two_workers(two: Two, race: str, request: pytest.FixtureRequest) -> None:
    home, one, other = two
    left, right, allowed = RACES[race]
    alive = set(oracle.settled(one, home.settings))
    for number in range(DEEP_ROUNDS if is_deep(request) else ROUNDS):
        chance, user = random.Random(number), f"person {number} of {race}"
        memory_id = one.remember("a kettle", user)
        calls = [partial(left, one, memory_id, user), partial(right, other, memory_id, user)]
        outcomes = at_once(*(partial(_late, chance.uniform(0, 0.01), call) for call in calls))
        assert tuple(type(outcome) for outcome in outcomes) in allowed, (race, number)
        alive |= left_alive(memory_id, outcomes)
    assert set(oracle.settled(one, home.settings)) == alive


def _late(seconds: float, call: Callable[[], Any]) -> Any:
    time.sleep(seconds)
    return call()


def left_alive(memory_id: str, outcomes: list[Any]) -> set[str]:
    """Return what the answers say is left: what was made, or was kept, and no forget lists."""
    made = {one.memory_id for one in outcomes if isinstance(one, Added | Updated)}
    is_ended = any(isinstance(one, Erased | Updated) for one in outcomes)
    listed = {
        one.memory_id
        for forgotten in outcomes
        if isinstance(forgotten, Forgotten)
        for one in forgotten.erased
    }
    return ({memory_id} - listed if not is_ended else set[str]()) | made - listed
