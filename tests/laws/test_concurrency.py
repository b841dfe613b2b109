"""What no two calls at once may break. DEV-18, RELIABILITY T-18, T-19."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.errors import NotFound
from shomei_service.engine.model import Erased, Forgotten
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.search import search
from tests import oracle
from tests.fakes import Home, House, authentic

T = TypeVar("T")


def at_once(*calls: Callable[[], T]) -> list[T | Exception]:
    """Start all calls at one moment; return what each returned or raised."""
    barrier = threading.Barrier(len(calls))

    def call(work: Callable[[], T]) -> T | Exception:
        barrier.wait()
        try:
            return work()
        except Exception as exc:
            return exc

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


class Background:
    """A thread that does one thing over and over for the length of a block."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._done: Future[None] | None = None

    def _run(self) -> None:
        while not self._ending.is_set():
            self._work()

    def __enter__(self) -> "Background":
        self._done = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        assert self._done is not None
        self._done.result()
        self._pool.shutdown()


@pytest.mark.parametrize("erasers", [2, 5, 8])
def test_erasers_of_one_row_get_one_receipt(house: House, home: Home, erasers: int) -> None:
    for _ in range(4):
        memory_id = house.remember("a stone", "alice")
        failpoints.arm("e1.after:delay")  # whoever began is held up: nobody may take the proof meanwhile
        outcomes = at_once(*[partial(erase, house.engine, house.admin, memory_id)] * erasers)
        proofs = [one for one in outcomes if isinstance(one, Erased)]
        assert len(proofs) == 1
        assert authentic(proofs[0].receipt, house.pin)
        assert [type(one) for one in outcomes if one is not proofs[0]] == [NotFound] * (erasers - 1)
    oracle.settled(house, home.settings)


def test_whoever_asked_for_an_erasure_gets_its_proof(house: House, home: Home) -> None:
    """Upkeep finishes what stands unfinished; it must not take the answer from whoever waits for it."""
    with Background(lambda: upkeep(house.engine)):
        for _ in range(5):
            failpoints.arm("e1.after:delay")
            memory_id = house.remember("a stone", "alice")
            assert erase(house.engine, house.admin, memory_id).memory_id == memory_id
            failpoints.arm("e1.after:delay")
            memory_id = house.remember("a stone", "alice")
            forgotten = forget(house.engine, house.admin, "alice")
            assert [one.memory_id for one in forgotten.erased] == [memory_id]
            assert forgotten.closure is not None
    oracle.settled(house, home.settings)


def test_a_proof_is_owed_even_if_another_process_was_quicker(house: House, home: Home) -> None:
    """Two workers on one home: what the other one did is on record, and the answer comes from there."""
    with home.opened() as other, Background(lambda: upkeep(other.engine)):
        for _ in range(5):
            failpoints.arm("e1.after:delay")
            memory_id = house.remember("a stone", "alice")
            proof = erase(house.engine, house.admin, memory_id)
            assert authentic(proof.receipt, house.pin)
            assert proof.receipt.body["memory_id"] == proof.memory_id == memory_id
            failpoints.arm("e1.after:delay")
            ids = {house.remember("a stone", "alice") for _ in range(3)}
            forgotten = forget(house.engine, house.admin, "alice")
            assert {one.memory_id for one in forgotten.erased} == ids
            assert forgotten.closure is not None
            assert authentic(forgotten.closure, house.pin)
    oracle.settled(house, home.settings)


def test_a_forget_and_an_erase_of_one_row(house: House, home: Home) -> None:
    """Either may be first: the row has one receipt, and whoever did not get it says so honestly."""
    for _ in range(8):
        memory_id = house.remember("a stone", "alice")
        erased, forgotten = at_once(
            partial(erase, house.engine, house.admin, memory_id),
            partial(forget, house.engine, house.admin, "alice"),
        )
        assert isinstance(forgotten, Forgotten)
        assert forgotten.closure is not None
        listed = [one.memory_id for one in forgotten.erased]
        assert forgotten.closure.body["erased_count"] == forgotten.matched_count == len(listed)
        assert (isinstance(erased, Erased), listed) in [(True, []), (False, [memory_id])]
        assert isinstance(erased, Erased | NotFound)
    oracle.settled(house, home.settings)


@pytest.mark.parametrize("moment", [5, 25, 45])
def test_a_forget_among_adds(house: House, home: Home, moment: int) -> None:
    """DEV-18: what was answered before is erased and listed; what is not listed is alive; nothing between."""
    answered: dict[str, float] = {}

    def remember() -> None:
        for _ in range(12):
            memory_id = house.remember("a kettle of alice", "alice")
            answered[memory_id] = time.monotonic()

    with ThreadPoolExecutor(5) as pool:
        adding = [pool.submit(remember) for _ in range(5)]
        while len(answered) < moment:
            time.sleep(0.001)
        sent = time.monotonic()
        forgotten = forget(house.engine, house.admin, "alice")
        for one in adding:
            one.result()
    listed = {one.memory_id for one in forgotten.erased}
    assert all(authentic(one.receipt, house.pin) for one in forgotten.erased)
    assert {memory_id for memory_id, at in answered.items() if at < sent} <= listed
    assert oracle.settled(house, home.settings).keys() == answered.keys() - listed
    found = search(house.engine, house.data, "kettle", user_id="alice", limit=100).results
    assert {one.memory.memory_id for one in found} == answered.keys() - listed
    rest = forget(house.engine, house.admin, "alice")
    assert {one.memory_id for one in rest.erased} == answered.keys() - listed
    oracle.settled(house, home.settings)


def test_a_search_that_starts_after_the_answer_never_finds_the_row(house: House, home: Home) -> None:
    """I-5, in the process that erased and in another one on the same home."""
    ids = [house.remember(f"a kettle numbered {number}", f"user {number % 4}") for number in range(40)]
    erased: dict[str, float] = {}
    sightings: list[tuple[float, set[str]]] = []
    with home.opened() as other, ThreadPoolExecutor(3) as pool:
        ending = threading.Event()

        def look(at: House) -> None:
            while not ending.is_set():
                began = time.monotonic()
                found = search(at.engine, at.data, "kettle", limit=100).results
                sightings.append((began, {one.memory.memory_id for one in found}))

        looking = [pool.submit(look, at) for at in (house, house, other)]
        for memory_id in ids[:12]:
            erase(house.engine, house.admin, memory_id)
            erased[memory_id] = time.monotonic()
        for one in forget(house.engine, house.admin, "user 3").erased:
            erased[one.memory_id] = time.monotonic()
        sightings.append((time.monotonic(), found_by(house)))
        while len(sightings) <= 10 and not any(one.done() for one in looking):
            time.sleep(0.001)
        ending.set()
        for one in looking:
            one.result()
        sightings.append((time.monotonic(), found_by(other)))
    assert len(sightings) > 10
    for began, found in sightings:
        assert not {one for one in found if erased.get(one, began) < began}
        assert set(ids) - erased.keys() <= found, "and it always finds the others"


def found_by(house: House) -> set[str]:
    results = search(house.engine, house.data, "kettle", limit=100).results
    return {one.memory.memory_id for one in results}
