"""Custody that refuses, loses, hangs, lags, lies and breaks, at each of its requests. RELIABILITY T-11.

The real OpenBao and moto's KMS, with a server in front of them that harms one request or all from one on.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from shomei_service.engine import upkeep
from shomei_service.engine.errors import CustodyUnavailable, EngineError, ErasurePending
from shomei_service.engine.model import Authority, NewMemory
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.hold import NewHold, place
from shomei_service.engine.verbs.restrict import restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.engine.custody.providers.flaky import Fault, Flaky, in_front_of
from tests.fakes import Home, House, new_home
from tests.providers import Machines

_T = TypeVar("_T")
_URLS = {"vault": "vault_url", "aws-kms": "aws_endpoint_url"}


@dataclass(frozen=True, slots=True)
class Scene:
    """An installation whose custody is reached through something that can be told to fail."""

    home: Home
    flaky: Flaky


@pytest.fixture(params=sorted(_URLS))
def scene(request: pytest.FixtureRequest, machines: Machines, tmp_path: Path) -> Iterator[Scene]:
    custodian = machines.custodian(request.param)
    url = _URLS[request.param]
    with in_front_of(str(custodian.settings[url])) as flaky:
        home = new_home(tmp_path, **{**custodian.settings, url: flaky.url})
        hangs = _params(request).get("fault") is Fault.HANGING
        patient = home.settings.model_copy(update={"custody_timeout_s": 1.5 if hangs else 10})
        yield Scene(replace(home, settings=patient), flaky)


def _params(request: pytest.FixtureRequest) -> dict[str, object]:
    return request.node.callspec.params


def one_row(house: House, number: int) -> str:
    return add(house.engine, house.data, NewMemory(f"fact {number}", f"subject {number}")).memory_id


def in_the_end(act: Callable[[], _T]) -> _T:
    """Do what custody, well again but on a slow machine, may not manage at once in the little time it has."""
    for _ in range(20):
        with suppress(CustodyUnavailable, ErasurePending):
            return act()
    return act()


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.HANGING, Fault.WRONG, Fault.BROKEN])
def test_custody_that_is_down_changes_nothing(scene: Scene, fault: Fault) -> None:
    """Before E1 there is nothing to roll forward: the caller may as well never have asked."""
    with scene.home.opened() as house:
        row = one_row(house, 1)
        before = oracle.read(scene.home.settings)
        scene.flaky.harm(fault, to_last=True)
        for act in (
            lambda: erase(house.engine, house.admin, row),
            lambda: update(house.engine, house.admin, row, "another fact"),
            lambda: forget(house.engine, house.admin, "subject 1"),
        ):
            with pytest.raises(CustodyUnavailable) as raised:
                act()
            assert raised.value.code == "custody_unavailable"
            assert house.engine.custody.epoch == 0
        after = oracle.read(scene.home.settings)
        assert (after.memories, after.intents) == (before.memories, before.intents)
        assert len(search(house.engine, house.data, "fact").results) == 1
        scene.flaky.heal()
        assert in_the_end(lambda: erase(house.engine, house.admin, row)).receipt.envelope is not None


def test_everything_that_needs_no_new_key_goes_on_without_custody(scene: Scene) -> None:
    with scene.home.opened() as house:
        row = one_row(house, 1)
        scene.flaky.harm(Fault.REFUSED, to_last=True)
        one_row(house, 2)
        place(house.engine, house.admin, NewHold(Authority.LITIGATION, memory_id=row))
        restrict(house.engine, house.admin, row)
        assert [hit.memory.content.text for hit in search(house.engine, house.data, "fact").results] == [
            "fact 2"
        ]
        assert forget(house.engine, house.admin, "nobody").closure is not None
        scene.flaky.heal()


@pytest.mark.parametrize(
    ("scene", "fault"),
    [*(("vault", fault) for fault in Fault), ("aws-kms", Fault.LOST)],
    indirect=["scene"],
)
def test_a_fault_at_each_request_of_an_erase_rolls_forward(
    scene: Scene, fault: Fault, request: pytest.FixtureRequest
) -> None:
    """Whatever request it meets: nothing has happened, or it is pending and finishes by itself, once.

    Without --deep each fault meets every third request, so that all are met by some.
    """
    with scene.home.opened() as house:
        outcomes: list[str] = []
        requests = _requests(scene, house)
        step, first = (1, 2) if request.config.getoption("--deep") else (3, 2 + [*Fault].index(fault) % 3)
        for nth in (1, *range(first, requests + 1, step)):
            row = one_row(house, nth)
            scene.flaky.harm(fault, nth)
            outcomes.append(_outcome(house, row))
            scene.flaky.heal()
            in_the_end(lambda: upkeep.finish_erasures(house.engine))
            if outcomes[-1] == CustodyUnavailable.code:
                assert any(one["memory_id"] == row for one in oracle.read(scene.home.settings).memories)
                in_the_end(lambda row=row: erase(house.engine, house.admin, row))
        kept = one_row(house, 0)
        assert oracle.settled(house, scene.home.settings).keys() == {kept}
    if fault is Fault.SLOW:
        assert set(outcomes) == {"erased"}
    else:
        assert outcomes[0] == CustodyUnavailable.code, "the first request is asked before anything begins"
        assert ErasurePending.code in outcomes
    with scene.home.opened() as house:
        assert oracle.settled(house, scene.home.settings).keys() == {kept}


@pytest.mark.parametrize("scene", ["vault"], indirect=True)
def test_custody_that_flaps_for_long_gives_no_false_receipt(
    scene: Scene, request: pytest.FixtureRequest
) -> None:
    """Down from a request on, tried again and again while it is down, then back; with --deep from each."""
    with scene.home.opened() as house:
        requests = _requests(scene, house)
        for nth in range(2, requests + 1, 1 if request.config.getoption("--deep") else 3):
            row = one_row(house, nth)
            scene.flaky.harm(Fault.REFUSED, nth, to_last=True)
            assert _outcome(house, row) == ErasurePending.code
            for _ in range(2):
                with pytest.raises(ErasurePending):
                    upkeep.finish_erasures(house.engine)
                records = oracle.read(scene.home.settings)
                assert not [one for one in records.tombstones if one["memory_id"] == row]
            scene.flaky.heal()
            in_the_end(lambda: upkeep.finish_erasures(house.engine))
            assert [one for one in oracle.read(scene.home.settings).tombstones if one["memory_id"] == row]


def test_a_service_that_starts_while_custody_is_down_refuses_and_then_starts(scene: Scene) -> None:
    with scene.home.opened() as house:
        row = one_row(house, 1)
        scene.flaky.harm(Fault.REFUSED, 4, to_last=True)
        assert _outcome(house, row) == ErasurePending.code
        scene.flaky.heal()
    scene.flaky.harm(Fault.REFUSED, to_last=True)
    with pytest.raises(CustodyUnavailable), scene.home.opened():
        pass
    scene.flaky.heal()
    with scene.home.opened() as house:
        assert oracle.settled(house, scene.home.settings) == {}


def _requests(scene: Scene, house: House) -> int:
    """Return how many requests an erase asks of custody."""
    row = one_row(house, 999)
    scene.flaky.harm(Fault.SLOW, 1 << 20)
    in_the_end(lambda: erase(house.engine, house.admin, row))
    return len(scene.flaky.asked)


def _outcome(house: House, row: str) -> str:
    try:
        erase(house.engine, house.admin, row)
    except EngineError as exc:
        return exc.code
    return "erased"
