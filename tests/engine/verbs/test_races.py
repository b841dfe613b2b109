"""Two verbs on one memory at one moment: one transition, one receipt, and the loser is told which. T-19."""

import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from shomei_service.engine.errors import Blocked, ErasureInProgress, Held, NotFound
from shomei_service.engine.model import (
    Authority,
    ConsentAction,
    Erased,
    Forgotten,
    LawfulBasis,
    Policies,
    Release,
    Restricted,
    Updated,
    Withdrawal,
)
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import consent, hold
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import restrict
from shomei_service.engine.verbs.status import status
from shomei_service.engine.verbs.update import update
from tests.engine.verbs.office import Office, at_once, kind
from tests.engine.verbs.side_by_side import Running

ROUNDS = 12


@pytest.fixture
def office(running: Running) -> Office:
    """One tenant."""
    return Office.opened(running)


def race(number: int, *calls: Callable[[], Any]) -> list[Any]:
    """Start calls together, give or take; in the first rounds each of two is over before the other begins."""
    if number < len(calls):
        first, then = at_once([calls[number]]), at_once([calls[1 - number]])
        return [*first, *then] if number == 0 else [*then, *first]
    lead_s = random.Random(number).uniform(-0.01, 0.01)
    return at_once([partial(_late, max(lead_s * (-1) ** at, 0), call) for at, call in enumerate(calls)])


def _late(seconds: float, call: Callable[[], Any]) -> Any:
    time.sleep(seconds)
    return call()


def names(outcomes: list[Any]) -> tuple[str, ...]:
    return tuple(type(one).__name__ for one in outcomes)


def destroyed(office: Office) -> Counter[str]:
    """Return how often each memory's end is on record."""
    ends = {"vector_delete": "memory_id", "memory_update": "previous_id"}
    return Counter(body[ends[kind(body)]] for body in office.log() if kind(body) in ends)


def test_update_and_update(office: Office) -> None:
    for number in range(ROUNDS):
        memory_id = office.remember("a kettle")
        calls = [partial(update, office.engine, office.admin, memory_id, word) for word in ("one", "two")]
        outcomes = race(number, *calls)
        (won,) = (one for one in outcomes if isinstance(one, Updated))
        assert sorted(names(outcomes)) == [NotFound.__name__, Updated.__name__]
        assert office.found("kettle one two") == {won.memory_id}
        erase(office.engine, office.admin, won.memory_id)
    assert set(destroyed(office).values()) == {1}


def test_erase_and_update(office: Office) -> None:
    seen: set[tuple[str, ...]] = set()
    for number in range(ROUNDS):
        memory_id = office.remember("a kettle")
        outcomes = race(
            number,
            partial(erase, office.engine, office.admin, memory_id),
            partial(update, office.engine, office.admin, memory_id, "another kettle"),
        )
        seen.add(names(outcomes))
        alive = {one.memory_id for one in outcomes if isinstance(one, Updated)}
        assert office.found("kettle") == alive
        for one in alive:
            erase(office.engine, office.admin, one)
    assert seen == {(Erased.__name__, NotFound.__name__), (NotFound.__name__, Updated.__name__)}
    assert set(destroyed(office).values()) == {1}


def test_restrict_and_update(office: Office) -> None:
    seen: set[tuple[str, ...]] = set()
    for number in range(ROUNDS):
        memory_id = office.remember("a kettle")
        outcomes = race(
            number,
            partial(restrict, office.engine, office.admin, memory_id),
            partial(update, office.engine, office.admin, memory_id, "another kettle"),
        )
        seen.add(names(outcomes))
        alive = {one.memory_id for one in outcomes if isinstance(one, Updated)}
        assert office.found("kettle") == alive
        for one in alive:
            erase(office.engine, office.admin, one)
    assert seen == {(Restricted.__name__, Blocked.__name__), (NotFound.__name__, Updated.__name__)}


@pytest.mark.parametrize("rule", Withdrawal)
def test_withdraw_and_update(running: Running, rule: Withdrawal) -> None:
    """Whoever is first: what rested on the consent is out of recall, and goes if it is to go."""
    policies = Policies(purposes=frozenset({"support"}), withdrawal=rule, withdrawal_days=0)
    office = Office.opened(running, policies=policies)
    for number in range(ROUNDS):
        name = f"alice {number}"
        said = {action: consent.NewConsent(name, "support", action) for action in ConsentAction}
        consent.record(running.engine, office.admin, said[ConsentAction.GRANTED])
        facts = {"lawful_basis": LawfulBasis.CONSENT, "purposes": ("support",)}
        memory_id = office.remember("a kettle", name, **facts)
        outcomes = race(
            number,
            partial(consent.record, running.engine, office.admin, said[ConsentAction.WITHDRAWN]),
            partial(update, running.engine, office.admin, memory_id, "another kettle"),
        )
        assert isinstance(outcomes[0], consent.Recorded)
        assert isinstance(outcomes[1], Updated | Blocked | NotFound)
        assert office.found("kettle", name) == set()
        upkeep(running.engine)
        current = outcomes[1].memory_id if isinstance(outcomes[1], Updated) else memory_id
        told = status(running.engine, office.admin, current).failures
        assert told == (("consent_invalid",) if rule is Withdrawal.SUPPRESS else ("erased",))


def test_forget_and_update(office: Office) -> None:
    for number in range(ROUNDS):
        name = f"alice {number}"
        memory_id = office.remember("a kettle", name)
        outcomes = race(
            number,
            partial(forget, office.engine, office.admin, name),
            partial(update, office.engine, office.admin, memory_id, "another kettle"),
        )
        assert isinstance(outcomes[0], Forgotten)
        assert isinstance(outcomes[1], Updated | NotFound)
        assert office.found("kettle", name) == set()
        last = outcomes[1].memory_id if isinstance(outcomes[1], Updated) else memory_id
        assert [one.memory_id for one in outcomes[0].erased] == [last]
    assert set(destroyed(office).values()) == {1}


def test_a_release_and_a_new_hold(office: Office) -> None:
    """The erasure that waited happens, or the new hold keeps it waiting; never both, never neither."""
    seen: set[bool] = set()
    for number in range(ROUNDS):
        name = f"alice {number}"
        memory_id = office.remember("a kettle", name)
        new = hold.NewHold(Authority.LITIGATION, memory_id=memory_id)
        first = hold.place(office.engine, office.admin, new).hold.hold_id
        forget(office.engine, office.admin, name)
        code = Release.MATTER_CLOSED
        released, placed = race(
            number,
            partial(hold.release, office.engine, office.admin, first, code, confirm=True),
            partial(hold.place, office.engine, office.admin, new),
        )
        assert isinstance(released, hold.Released)
        is_kept = isinstance(placed, hold.Held)
        assert is_kept or isinstance(placed, ErasureInProgress | NotFound)
        assert len(released.disposed.erased) == (0 if is_kept else 1)
        assert status(office.engine, office.admin, memory_id).valid is is_kept
        if is_kept:
            with pytest.raises(Held):
                erase(office.engine, office.admin, memory_id)
        seen.add(is_kept)
    assert seen == {True, False}
