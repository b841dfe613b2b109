"""Memories that arrive together share a transaction; what one of them is refused is its own affair."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from shomei_service.engine.errors import EgressFault, IdempotencyMismatch, NotFound, StorageUnavailable
from shomei_service.engine.model import Added, Caller, NewMemory, Retry, TenantId
from shomei_service.engine.turnstile import Turnstile
from shomei_service.engine.verbs import read
from shomei_service.engine.verbs.add import add, add_each
from tests.fakes import House

TOGETHER = 12


def added_at_once(house: House, news: list[NewMemory], key: str | None = None) -> list[Added | Exception]:
    """Add while another writer is inside, so that everybody has arrived when it leaves."""

    def one(new: NewMemory) -> Added | Exception:
        retry = Retry("POST /v1/memories", key, b"body") if key is not None else None
        try:
            return add(house.engine, replace(house.data, retry=retry), new)
        except Exception as exc:
            return exc

    with ThreadPoolExecutor(len(news)) as pool:
        with house.engine.unit(house.data.tenant):
            futures = [pool.submit(one, new) for new in news]
            entrance = house.engine.entrances.of(house.data.tenant)
            while entrance.count_waiting() < len(news) - 1:  # one is inside already, and waits to write
                threading.Event().wait(0.005)
        return [future.result() for future in futures]


def count_commits(house: House) -> list[TenantId | None]:
    """Return a list that grows with every writing transaction."""
    store, begun = house.engine.store, list[TenantId | None]()
    opened = store.transaction

    def counted(tenant: TenantId | None = None) -> AbstractContextManager[Connection]:
        begun.append(tenant)
        return opened(tenant)

    store.transaction = counted  # type: ignore[method-assign]
    return begun


def test_those_who_wait_are_admitted_by_one_of_them(house: House) -> None:
    commits = count_commits(house)
    answers = added_at_once(house, [NewMemory(f"fact {number}") for number in range(TOGETHER)])
    assert all(isinstance(one, Added) for one in answers)
    # One for the block above, one for who came first, one for everybody else.
    assert len(commits) == 3


def test_one_refusal_undoes_one_arrival(house: House) -> None:
    unknown = NewMemory("derived", derived_from=("lm_" + "0" * 32,))
    news = [NewMemory(f"fact {number}") for number in range(TOGETHER)]
    answers = added_at_once(house, [*news[:6], unknown, *news[6:], unknown])
    assert sum(isinstance(one, NotFound) for one in answers) == 2
    kept = [one for one in answers if isinstance(one, Added)]
    assert len({one.memory_id for one in kept}) == TOGETHER
    places = sorted(one.receipt.body["log"]["seq"] for one in kept)
    assert places == list(range(places[0], places[0] + TOGETHER))  # the refused took no place in the log


def test_the_same_call_twice_in_one_transaction_is_made_once(house: House) -> None:
    answers = added_at_once(house, [NewMemory("fact")] * TOGETHER, key="once")
    assert len({one.memory_id for one in answers if isinstance(one, Added)}) == 1
    assert all(isinstance(one, Added) for one in answers)


def test_a_key_used_with_another_request_is_refused_in_one_transaction_too(house: House) -> None:
    def retrying(body: bytes) -> Caller:
        return replace(house.data, retry=Retry("POST /v1/memories", "once", body))

    asked = [(retrying(body), [NewMemory("fact")]) for body in (b"a", b"b", b"a")]
    first, other, again = add_each(house.engine, asked)
    assert isinstance(first, list)
    assert isinstance(other, IdempotencyMismatch)
    assert again == first


def test_what_must_not_be_signed_stops_nobody_else(house: House) -> None:
    odd = replace(house.data, actor="no key at all")
    callers = [house.data, odd, house.data, odd]
    asked = [(caller, [NewMemory("fact"), NewMemory("other")]) for caller in callers]
    answers = add_each(house.engine, asked)
    assert [type(one) for one in answers] == [list, EgressFault, list, EgressFault]
    kept = [one for answer in answers if isinstance(answer, list) for one in answer]
    places = [one.receipt.body["log"]["seq"] for one in kept]
    assert places == list(range(places[0], places[0] + 4))
    assert {read.get(house.engine, house.data, one.memory_id).content.text for one in kept} == {
        "fact",
        "other",
    }


def test_callers_of_several_tenants_are_never_taken_together(house: House) -> None:
    asked = [(caller, [NewMemory("fact")]) for caller in (house.data, house.stranger())]
    with pytest.raises(ValueError, match="too many values"):
        add_each(house.engine, asked)


def test_each_receipt_names_whose_act_it_was(house: House) -> None:
    callers = [house.data, house.admin, house.data]
    answers = add_each(house.engine, [(one, [NewMemory("fact")]) for one in callers])
    actors = [
        one.receipt.body["actor_ref"] for answer in answers if isinstance(answer, list) for one in answer
    ]
    assert actors == [one.actor for one in callers]


def test_a_failure_of_the_transaction_is_everybodys() -> None:
    turnstile = Turnstile[int, int]()

    def fail(_: object) -> list[int | Exception]:
        raise StorageUnavailable("the database does not answer or is full")

    with pytest.raises(StorageUnavailable):
        turnstile.enter(1, fail)
    assert turnstile.enter(1, lambda asked: [2 * one for one in asked]) == 2  # and the door is open again


def test_whoever_leads_is_stopped_alone() -> None:
    turnstile = Turnstile[int, int]()
    inside, go_on = threading.Event(), threading.Event()

    def stop(_: object) -> list[int | Exception]:
        inside.set()
        go_on.wait()
        raise KeyboardInterrupt

    def lead() -> str:
        try:
            turnstile.enter(1, stop)
        except KeyboardInterrupt:
            return "stopped"
        return "answered"

    with ThreadPoolExecutor(2) as pool:
        leader = pool.submit(lead)
        inside.wait()
        other = pool.submit(turnstile.enter, 2, lambda asked: [2 * one for one in asked])
        go_on.set()
        assert (leader.result(), other.result()) == ("stopped", 4)
