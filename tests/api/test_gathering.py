"""Calls that arrive while others are at work share a thread; what one of them comes to is its own affair."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import anyio
import httpx
import pytest

from shomei_service.api.errors import Busy
from shomei_service.api.gathering import Gathering
from shomei_service.api.lanes import Lane, Lanes
from shomei_service.engine.errors import NotFound, StorageUnavailable
from shomei_service.engine.model import Policies, PostForget
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.forget import forget
from tests.api.house import PATIENCE_S, House

TOGETHER = 5


class Slow:
    """Work that holds whom it is told to hold, and takes down who was worked on together."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.groups: list[list[int]] = []

    def __call__(self, asked: Sequence[int]) -> list[int | Exception]:
        self.groups.append([*asked])
        if 0 in asked:
            assert self.go.wait(PATIENCE_S)
        if -1 in asked:
            raise StorageUnavailable("the database does not answer or is full")
        return [NotFound("no such memory") if one == 1 else one * 2 for one in asked]


Asked = Callable[[Gathering[int, int], Slow], Awaitable[None]]


def gathered(ask: Asked, lanes: Lanes | None = None) -> Slow:
    slow = Slow()

    async def run() -> None:
        await ask(Gathering(lanes or Lanes(), Lane.REMEMBER, slow), slow)

    anyio.run(run)
    return slow


async def begun(slow: Slow, groups: int = 1) -> None:
    while len(slow.groups) < groups:
        await asyncio.sleep(0.005)


def test_those_who_wait_are_worked_on_together() -> None:
    async def ask(gathering: Gathering[int, int], slow: Slow) -> None:
        first = asyncio.create_task(gathering.ask("a", 0))
        await begun(slow)
        others = [asyncio.create_task(gathering.ask("a", one)) for one in range(2, 2 + TOGETHER)]
        await asyncio.sleep(0.01)
        slow.go.set()
        assert await asyncio.gather(first, *others) == [0, 4, 6, 8, 10, 12]

    assert gathered(ask).groups == [[0], [2, 3, 4, 5, 6]]


def test_one_key_does_not_wait_for_another() -> None:
    async def ask(gathering: Gathering[int, int], slow: Slow) -> None:
        first = asyncio.create_task(gathering.ask("a", 0))
        await begun(slow)
        assert await gathering.ask("b", 2) == 4
        assert not first.done()
        slow.go.set()
        await first

    assert gathered(ask).groups == [[0], [2]]


def test_who_has_waited_long_is_told_so_and_is_not_worked_on() -> None:
    lanes = Lanes(patience_s=0.05)

    async def ask(gathering: Gathering[int, int], slow: Slow) -> None:
        first = asyncio.create_task(gathering.ask("a", 0))
        await begun(slow)
        with pytest.raises(Busy):
            await gathering.ask("a", 2)
        lanes.patience_s = PATIENCE_S
        patient = asyncio.create_task(gathering.ask("a", 3))
        await asyncio.sleep(0.01)
        slow.go.set()
        assert (await first, await patient) == (0, 6)
        assert lanes.load()[Lane.REMEMBER] == 0

    assert gathered(ask, lanes).groups == [[0], [3]]


def test_a_refusal_is_ones_own_and_a_failure_everybodys() -> None:
    async def ask(gathering: Gathering[int, int], slow: Slow) -> None:
        slow.go.set()
        some = [gathering.ask("a", one) for one in (2, 1, 3)]
        one, refused, other = await asyncio.gather(*some, return_exceptions=True)
        assert (one, type(refused), other) == (4, NotFound, 6)
        some = [gathering.ask("a", one) for one in (2, -1)]
        failed = await asyncio.gather(*some, return_exceptions=True)
        assert [type(one) for one in failed] == [StorageUnavailable] * 2
        assert await gathering.ask("a", 4) == 8

    gathered(ask)


def test_who_hangs_up_before_it_is_begun_is_not_begun() -> None:
    async def ask(gathering: Gathering[int, int], slow: Slow) -> None:
        first = asyncio.create_task(gathering.ask("a", 0))
        await begun(slow)
        gone, stays = (asyncio.create_task(gathering.ask("a", one)) for one in (2, 3))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0)
        slow.go.set()
        assert await asyncio.gather(first, stays) == [0, 6]

    assert gathered(ask).groups == [[0], [3]]


def test_a_group_is_bounded_and_a_full_lane_says_busy() -> None:
    lanes = Lanes({Lane.REMEMBER: 1}, queue=100)

    async def ask(gathering: Gathering[int, int], slow: Slow) -> None:
        asked = [asyncio.create_task(gathering.ask("a", 0)) for _ in range(101)]
        await begun(slow)
        with pytest.raises(Busy):
            await gathering.ask("a", 2)
        slow.go.set()
        await asyncio.gather(*asked)

    assert [len(group) for group in gathered(ask, lanes).groups] == [64, 37]
    assert lanes.load() == {Lane.REMEMBER: 0}


async def _all_at_once(house: House, asked: Sequence[tuple[str, object]]) -> list[httpx.Response]:
    transport = httpx.ASGITransport(house.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        return await asyncio.gather(
            *(
                client.post("/v1/memories", json=body, headers={"authorization": f"Bearer {key}"})
                for key, body in asked
            )
        )


def test_each_of_many_adds_has_its_own_answer(house: House) -> None:
    good = [(house.data, {"messages": f"fact {number}", "user_id": "u"}) for number in range(20)]
    odd = [
        (house.data, {"messages": ""}),
        (house.data, {"messages": "x", "purposes": ["unheard_of"]}),
        (house.revoked, {"messages": "x"}),
        (house.other, {"messages": "a stranger's"}),
    ]
    answers = house.portal.call(_all_at_once, house, [*good[:10], *odd, *good[10:]])
    assert [one.status_code for one in answers] == [200] * 10 + [422, 422, 401, 200] + [200] * 10
    told = [one.json()["results"][0] for one in answers if one.status_code == 200]
    assert [one["memory"] for one in told] == [
        *(f"fact {number}" for number in range(10)),
        "a stranger's",
        *(f"fact {number}" for number in range(10, 20)),
    ]
    places = sorted(one["receipt"]["log"]["seq"] for one in told if one["memory"] != "a stranger's")
    assert places == list(range(places[0], places[0] + 20))


def test_what_a_forgotten_subject_is_refused_stops_nobody_else(house: House) -> None:
    caller = access.authenticate(house.engine, house.admin)
    forget(house.engine, caller, "forgotten")
    access.set_policies(house.engine, caller.tenant, Policies(post_forget=PostForget.BLOCK))
    about = ["u", "forgotten"] * 4
    asked = [(house.data, {"messages": "x", "user_id": one}) for one in about]
    answers = house.portal.call(_all_at_once, house, asked)
    access.set_policies(house.engine, caller.tenant, Policies())
    assert [one.status_code for one in answers] == [200, 409] * 4
