"""Indexes beside the database: made in pieces, followed by every worker, dropped when not wanted."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from shomei_service.engine import indexes
from shomei_service.engine.errors import StorageUnavailable
from shomei_service.engine.indexes import Followed, Indexes, Keep
from shomei_service.engine.model import Ground, NewMemory
from shomei_service.engine.recall import words_of
from shomei_service.engine.store import recall
from shomei_service.engine.upkeep import tend
from shomei_service.engine.verbs.add import add, add_batch
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from tests.fakes import Home, House


class Seconds:
    """A clock of running seconds that is moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def two(home: Home) -> Iterator[tuple[House, House]]:
    """Two workers on one database."""
    with home.opened() as first, home.opened() as second:
        yield first, second


def found(house: House, query: str = "kettle", **options: int) -> list[str]:
    return [one.memory.memory_id for one in search(house.engine, house.data, query, **options).results]


def followed(house: House) -> Followed:
    """Return the tenant's index, brought up to date."""
    with house.engine.reading(house.data.tenant) as unit:
        place = recall.newest(unit)
    return house.engine.indexes.of(house.data.tenant, place)


def held(house: House) -> int:
    """Return how many rows the index in memory holds, without bringing it up to date."""
    return len(house.engine.indexes._followed[house.data.tenant].index)


def kept(house: House, keep: Keep, now: Seconds | None = None) -> Indexes:
    house.engine.indexes = Indexes(
        house.engine.store, house.engine.rows, None, keep, now=now if now is not None else Seconds()
    )
    return house.engine.indexes


def test_workers_see_each_others_adds_updates_and_erases(two: tuple[House, House]) -> None:
    first, second = two
    one, other = first.remember("the kettle is blue"), second.remember("the kettle is green")
    assert set(found(first)) == set(found(second)) == {one, other}
    changed = update(first.engine, first.admin, one, "the kettle is red").memory_id
    assert set(found(second)) == {changed, other}
    erase(second.engine, second.admin, other)
    assert found(first) == [changed]
    assert held(first) == held(second) == 1
    restrict(first.engine, first.admin, changed)
    assert found(second) == []
    lift(second.engine, second.admin, changed)
    assert found(first) == found(second) == [changed]


def test_an_idle_worker_drops_within_seconds_what_another_erased(two: tuple[House, House]) -> None:
    first, second = two
    now = Seconds()
    kept(second, Keep(), now)
    add_batch(first.engine, first.data, [NewMemory("the kettle is blue", "anna") for _ in range(30)])
    assert len(found(second, limit=100)) == 30
    forget(first.engine, first.admin, "anna")
    assert held(second) == 30
    now.at += 5
    tend(second.engine)
    assert held(second) == 0
    place = second.engine.indexes._followed[second.data.tenant].place
    now.at += 5
    tend(second.engine)
    assert second.engine.indexes._followed[second.data.tenant].place == place


def test_an_index_is_made_in_pieces_of_any_size(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    added = [one.memory_id for one in add_batch(house.engine, house.data, [NewMemory("kettle")] * 7)]
    added += [house.remember("kettle") for _ in range(6)]
    for size in (1, 2, 3, 7, 13, 50):
        monkeypatch.setattr(indexes, "_ROWS_AT_ONCE", size)
        kept(house, Keep())
        assert sorted(found(house, limit=100)) == sorted(added)


def test_a_large_tenant_in_the_making_leaves_threads_for_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_id = house.remember("kettle")
    loading, go_on = threading.Event(), threading.Event()
    take_in = Indexes._take_in

    def slowly(*arguments):
        loading.set()
        assert go_on.wait(20)
        take_in(*arguments)

    monkeypatch.setattr(Indexes, "_take_in", slowly)
    monkeypatch.setattr(indexes, "_WAITING", 3)
    kept(house, Keep())
    told: list[list[str]] = []
    waiting = [threading.Thread(target=lambda: told.append(found(house))) for _ in range(3)]
    for one in waiting:
        one.start()
    assert loading.wait(20)
    many = house.engine.indexes._followed[house.data.tenant]
    while many._waiting._value:
        time.sleep(0.01)
    with pytest.raises(StorageUnavailable) as raised:
        found(house)
    assert raised.value.message == "the tenant's memories are still being loaded; ask again shortly"
    go_on.set()
    for one in waiting:
        one.join()
    assert told == [[memory_id]] * 3
    assert found(house) == [memory_id]


def test_a_row_restricted_during_a_search_comes_back_when_that_is_lifted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_id = house.remember("kettle")
    seen = house.engine.indexes.of

    def restricted_meanwhile(tenant, there):
        monkeypatch.undo()
        restrict(house.engine, house.admin, memory_id, Ground.REQUEST)
        return seen(tenant, there)

    monkeypatch.setattr(house.engine.indexes, "of", restricted_meanwhile)
    assert found(house) == []
    lift(house.engine, house.admin, memory_id)
    assert found(house) == [memory_id]


def test_what_is_hidden_shows_in_no_score(house: House) -> None:
    shown = house.remember("kettle and teapot")
    for number in range(20):
        house.remember(f"something else, number {number}")
    before = search(house.engine, house.data, "kettle of copper").results
    for _ in range(5):
        restrict(house.engine, house.admin, house.remember("kettle of copper, copper and copper"))
    after = search(house.engine, house.data, "kettle of copper").results
    assert [one.memory.memory_id for one in after] == [shown]
    assert after == before


def test_indexes_are_dropped_when_idle_and_made_again(house: House) -> None:
    now = Seconds()
    made = kept(house, Keep(idle_s=60), now)
    memory_id = house.remember("kettle")
    assert found(house) == [memory_id]
    now.at += 59
    tend(house.engine)
    assert house.data.tenant in made
    now.at += 2
    tend(house.engine)
    assert house.data.tenant not in made
    assert made.octets == 0
    assert found(house) == [memory_id]


def test_over_budget_the_index_unused_for_longest_goes_first(house: House) -> None:
    tenants = [house.stranger(f"tenant{number}") for number in range(3)]
    made = kept(house, Keep())
    for caller in tenants:
        add_batch(house.engine, caller, [NewMemory(f"kettle {number}") for number in range(40)])
        assert search(house.engine, caller, "kettle").results
    each = made.octets // 3
    kept(house, Keep(octets=2 * each + each // 2))
    made = house.engine.indexes
    first, second, third = (caller.tenant for caller in tenants)
    for caller in (tenants[0], tenants[1], tenants[0], tenants[2]):
        assert search(house.engine, caller, "kettle").results
    assert (first in made, second in made, third in made) == (True, False, True)
    assert made.octets <= 2 * each + each // 2
    assert len(search(house.engine, tenants[1], "kettle", limit=100).results) == 40


def test_one_index_alone_may_be_larger_than_the_budget(house: House) -> None:
    kept(house, Keep(octets=1))
    house.remember("kettle")
    assert len(found(house)) == len(found(house)) == 1


@contextmanager
def loading(house: House) -> Iterator[None]:
    """Somebody is making the tenant's index while the block runs."""
    index = followed(house)
    inside, done = threading.Event(), threading.Event()

    def load() -> None:
        with index.alone():
            inside.set()
            done.wait(30)

    thread = threading.Thread(target=load)
    thread.start()
    inside.wait(30)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_erasing_does_not_wait_until_an_index_is_made(house: House) -> None:
    memory_id, other = house.remember("kettle"), house.remember("kettle")
    with loading(house):
        erase(house.engine, house.admin, memory_id)
    assert held(house) == 1
    assert found(house) == [other]


def test_an_index_of_a_database_that_was_put_back_is_made_again(house: House) -> None:
    memory_id = house.remember("kettle")
    assert found(house) == [memory_id]
    index = followed(house)
    index.index.add("lm_of_a_later_state", None, words_of("kettle"))
    index.place = replace(index.place, revision=index.place.revision + 5, next_seq=99)
    assert found(house) == [memory_id]
    assert held(house) == 1


def test_memory_is_counted_up_and_down(house: House) -> None:
    made = kept(house, Keep())
    ids = [
        add(house.engine, house.data, NewMemory(f"kettle number {n}", f"s{n}")).memory_id for n in range(20)
    ]
    found(house)
    full = made.octets
    for memory_id in ids:
        erase(house.engine, house.admin, memory_id)
    found(house)
    index = followed(house)
    assert index.index._postings._postings == 0
    assert 0 < made.octets < full


def test_a_search_that_read_earlier_than_another_keeps_the_index(house: House) -> None:
    house.remember("kettle")
    with house.engine.reading(house.data.tenant) as unit:
        earlier = recall.newest(unit)
    house.remember("kettle")
    before = followed(house).index
    for _ in range(2):
        again = house.engine.indexes.of(house.data.tenant, earlier)
        assert again.index is before
        assert len(again.index) == 2
