"""No sequence of verbs, deaths and restored backups brings back what was erased. RELIABILITY T-21, I-1.

A small pure model says what must be there. What custody knows outlives every backup of the database:
erasures, holds, and what holds deferred; what only the database knew goes back with it.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, rule, run_state_machine_as_test

from shomei_service.engine import failpoints
from shomei_service.engine.errors import ErasurePending, Held, NotFound
from shomei_service.engine.failpoints import CUSTODY_POINTS, InjectedError
from shomei_service.engine.model import Authority, Caller, NewMemory, Release
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import hold
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.status import status
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.crash.places import quick_folder
from tests.crash.runs import copied
from tests.crash.test_restore import back_up, put_back
from tests.fakes import Home, authentic, new_home

EXAMPLES, STEPS = 60, 18
WORDS = ("kettle", "lamp", "ladder")
SUBJECTS = ("alice", "bob")
LATE = ["e1.after", *sorted(CUSTODY_POINTS), "e6.before", "e6.after_sign", "e6.after_commit", "answer.before"]

tenants = st.sampled_from([0, 1])
subjects = st.sampled_from(SUBJECTS)
words = st.sampled_from(WORDS)


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as the model knows it."""

    tenant: int
    subject: str
    word: str


@dataclass(slots=True)
class Model:
    """What must be there: in the database, and in custody, which no backup of the database brings back."""

    present: dict[str, Memory] = field(default_factory=dict[str, Memory])
    erased: set[str] = field(default_factory=set[str])
    held: dict[str, str] = field(default_factory=dict[str, str])
    deferred: set[str] = field(default_factory=set[str])

    def erase(self, ids: set[str]) -> None:
        """Erase for good."""
        for memory_id in ids:
            self.present.pop(memory_id, None)
        self.erased |= ids
        self.deferred -= ids

    def of(self, tenant: int, subject: str) -> set[str]:
        """Return a subject's memories."""
        return {
            one
            for one, memory in self.present.items()
            if (memory.tenant, memory.subject) == (tenant, subject)
        }

    def found(self, tenant: int, subject: str | None, word: str) -> set[str]:
        """Return what a search for the word must find."""
        return {
            one
            for one, memory in self.present.items()
            if (memory.tenant, memory.word) == (tenant, word)
            and subject in (None, memory.subject)
            and one not in self.deferred
        }

    def forget(self, tenant: int, subject: str) -> set[str]:
        """Forget a subject; return what goes. What is held leaves recall and waits."""
        theirs = self.of(tenant, subject)
        self.deferred |= theirs & self.held.keys()
        going = theirs - self.held.keys()
        self.erase(going)
        return going

    def restore(self, present: dict[str, Memory]) -> None:
        """Take the database back to a moment; what was erased since stays erased."""
        self.present = {one: memory for one, memory in present.items() if one not in self.erased}


class Restores(RuleBasedStateMachine):
    """The engine and the model, side by side."""

    template: Home
    callers: tuple[Caller, Caller]
    memories = Bundle("memories")
    backups = Bundle("backups")
    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.ending = ExitStack()
        self.folder = self.ending.enter_context(quick_folder())
        self.count = 0
        self.model = Model()
        self.successors: list[str] = []
        self.issued: dict[tuple[str, int], str] = {}
        self.home = copied(self.template, self.fresh())
        self.opened = ExitStack()
        self.house = self.opened.enter_context(self.home.opened())

    def fresh(self) -> Path:
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        return folder

    def reopen(self) -> None:
        """Open the home as it now lies there, and hold it against the model before any verb is called."""
        self.house = self.opened.enter_context(self.home.opened())
        self.compare()

    def compare(self) -> None:
        texts = oracle.settled(self.house, self.home.settings)
        assert texts == {
            one: f"a {memory.word} of {memory.subject}" for one, memory in self.model.present.items()
        }
        records = oracle.read(self.home.settings)
        assert {one["memory_id"] for one in records.owed} == self.model.deferred & self.model.present.keys()
        for row in records.receipts:  # I-4: no place in a log is ever given to two statements
            place = (row["origin"], row["seq"])
            assert self.issued.setdefault(place, row["receipt_hash"]) == row["receipt_hash"]

    def tenant(self, number: int) -> Caller:
        return self.callers[number]

    @rule(target=memories, tenant=tenants, subject=subjects, word=words)
    def add(self, tenant: int, subject: str, word: str) -> str:
        added = add(self.house.engine, self.tenant(tenant), NewMemory(f"a {word} of {subject}", subject))
        assert authentic(added.receipt, self.home.pin)
        self.model.present[added.memory_id] = Memory(tenant, subject, word)
        return added.memory_id

    @rule(memory_id=memories, tenant=tenants)
    def erase(self, memory_id: str, tenant: int) -> None:
        memory = self.model.present.get(memory_id)
        if memory is None or memory.tenant != tenant:
            with pytest.raises(NotFound):
                erase(self.house.engine, self.tenant(tenant), memory_id)
        elif memory_id in self.model.held:
            with pytest.raises(Held):
                erase(self.house.engine, self.tenant(tenant), memory_id)
        else:
            assert authentic(erase(self.house.engine, self.tenant(tenant), memory_id).receipt, self.home.pin)
            self.model.erase({memory_id})

    @rule(tenant=tenants, subject=subjects)
    def forget(self, tenant: int, subject: str) -> None:
        matched = self.model.of(tenant, subject)
        going = self.model.forget(tenant, subject)
        forgotten = forget(self.house.engine, self.tenant(tenant), subject)
        assert {one.memory_id for one in forgotten.erased} == going
        assert set(forgotten.deferred_ids) == matched - going
        assert forgotten.closure is not None
        assert authentic(forgotten.closure, self.home.pin)

    @rule(memory_id=memories)
    def hold(self, memory_id: str) -> None:
        memory = self.model.present.get(memory_id)
        if memory is None or memory_id in self.model.held:
            return
        placed = hold.place(
            self.house.engine,
            self.tenant(memory.tenant),
            hold.NewHold(Authority.LITIGATION, memory_id=memory_id),
        )
        self.model.held[memory_id] = placed.hold.hold_id

    @rule(memory_id=memories)
    def release(self, memory_id: str) -> None:
        memory = self.model.present.get(memory_id)
        hold_id = self.model.held.get(memory_id)
        if memory is None or hold_id is None:
            return
        caller = self.tenant(memory.tenant)
        hold.release(self.house.engine, caller, hold_id, Release.MATTER_CLOSED, confirm=True)
        del self.model.held[memory_id]
        if memory_id in self.model.deferred:
            self.model.erase({memory_id})

    @rule(tenant=tenants, subject=st.none() | subjects, word=words)
    def search(self, tenant: int, subject: str | None, word: str) -> None:
        results = search(self.house.engine, self.tenant(tenant), word, user_id=subject, limit=100).results
        assert {one.memory.memory_id for one in results} == self.model.found(tenant, subject, word)

    @rule(memory_id=memories, tenant=tenants)
    def status(self, memory_id: str, tenant: int) -> None:
        found = status(self.house.engine, self.tenant(tenant), memory_id)
        memory = self.model.present.get(memory_id)
        if memory is not None:
            assert found.valid is (True if memory.tenant == tenant else None)
        else:
            assert not found.retrieval_safe
            assert found.failures in {(), ("erased",)}

    @rule()
    def upkeep(self) -> None:
        upkeep(self.house.engine)
        assert all(stone["physically_purged"] for stone in oracle.read(self.home.settings).tombstones)

    @rule(dying=st.booleans())
    def restart(self, dying: bool) -> None:
        if dying:
            self.die()
        else:
            self.opened.close()
            self.reopen()

    @rule(memory_id=memories, word=words)
    def update(self, memory_id: str, word: str) -> None:
        memory = self.model.present.get(memory_id)
        if memory is None or memory_id in self.model.held:
            return
        text = f"a {word} of {memory.subject}"
        updated = update(self.house.engine, self.tenant(memory.tenant), memory_id, text)
        assert authentic(updated.receipt, self.home.pin)
        self.succeed(memory_id, replace(memory, word=word))

    def succeed(self, memory_id: str, successor: Memory) -> None:
        """Know the successor, the one row that is new, and that its predecessor is erased."""
        self.model.erase({memory_id})
        texts = oracle.settled(self.house, self.home.settings)
        (new,) = texts.keys() - self.model.present.keys()
        self.model.present[new] = successor
        self.successors.append(new)

    @rule(target=memories, number=st.integers(min_value=0, max_value=99))
    def take_up_a_successor(self, number: int) -> object:
        return self.successors[number % len(self.successors)] if self.successors else multiple()

    @rule(target=backups, memory_id=memories, point=st.sampled_from(LATE), updating=st.booleans())
    def die_on_the_way(self, memory_id: str, point: str, updating: bool) -> object:
        """Die in an erase or an update, with a backup of the database at that very moment."""
        memory = self.model.present.get(memory_id)
        if memory is None or memory_id in self.model.held:
            return multiple()
        asked = (self.house.engine, self.tenant(memory.tenant), memory_id)
        text = f"a {memory.word} of {memory.subject}"
        act = partial(update, *asked, text) if updating else partial(erase, *asked)
        failpoints.arm(f"{point}:raise")
        with pytest.raises((ErasurePending, InjectedError)):
            act()
        failpoints.disarm()
        backup = back_up(self.home, self.fresh() / "backup.db")
        self.model.erase({memory_id})
        self.die(memory if updating else None, memory_id)
        return backup, dict(self.model.present)  # what began there is finished whenever it is put back

    def die(self, successor: Memory | None = None, predecessor: str = "") -> None:
        """Go on from what lies on the disk at this moment; the process that died never comes back."""
        died = copied(self.home, self.fresh())
        self.opened.close()
        self.home = died
        self.house = self.opened.enter_context(self.home.opened())
        if successor is not None:
            self.succeed(predecessor, successor)
        self.compare()

    @rule(target=backups)
    def back_up(self) -> tuple[Path, dict[str, Memory]]:
        return back_up(self.home, self.fresh() / "backup.db"), dict(self.model.present)

    @rule(backup=backups, dying=st.booleans())
    def restore(self, backup: tuple[Path, dict[str, Memory]], dying: bool) -> None:
        path, present = backup
        self.opened.close()
        put_back(self.home, path)
        self.model.restore(present)
        self.reopen()
        if dying:
            self.die()

    def teardown(self) -> None:
        failpoints.disarm()
        self.compare()
        self.opened.close()
        self.ending.close()


def test_no_sequence_brings_back_what_was_erased() -> None:
    with quick_folder() as folder:
        Restores.template = new_home(folder)
        with Restores.template.opened() as house:
            Restores.callers = (house.admin, house.stranger())
        run_state_machine_as_test(
            Restores,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
