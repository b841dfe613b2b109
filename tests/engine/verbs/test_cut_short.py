"""An act of governance that was cut short between custody's journal and the database. CUSTODY.md §4.

The line is durable first. Whether the database came to it decides what becomes of the line: it stays, it is
carried out by whoever is there, or it is taken back; and nobody's later line hides it.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from shomei_service.engine import journal
from shomei_service.engine.custody.journal import WITHDRAWN, not_withdrawn
from shomei_service.engine.errors import StorageUnavailable
from shomei_service.engine.model import Ground
from shomei_service.engine.store import tenants
from shomei_service.engine.upkeep import tend
from shomei_service.engine.verbs import restrict, status
from tests.engine.verbs.office import Office, kind
from tests.engine.verbs.side_by_side import Running

GROUND = Ground.ACCURACY_CONTESTED


@pytest.fixture
def office(running: Running) -> Office:
    """One tenant."""
    return Office.opened(running)


def said_and_died(office: Office, memory_id: str) -> int:
    """Do as a process that was killed right after its line was durable."""
    codes = {"ground": GROUND.value}
    at = office.engine.clock.now()
    return office.engine.custody.journal_append(
        tenant=office.tenant, kind="restricted", ids=[memory_id], codes=codes, at=at
    )


def restricted(office: Office, memory_id: str) -> bool:
    return status.status(office.engine, office.admin, memory_id).failures == ("restricted",)


def acts(office: Office, memory_id: str) -> object:
    return restrict.restrict(office.engine, office.admin, memory_id, GROUND)


def standing(office: Office) -> list[str]:
    return [line.ids[0] for line in not_withdrawn(office.engine.custody.journal_after(0))]


def test_what_a_process_died_over_is_done_by_one_that_lives(office: Office) -> None:
    first, second = office.remember("a kettle"), office.remember("a pan")
    said_and_died(office, first)
    with pytest.raises(StorageUnavailable):
        acts(office, second)  # its line would hide the other from every opening to come
    assert office.engine.wake.is_set()
    assert standing(office) == [first]
    tend(office.engine)
    assert restricted(office, first)
    acts(office, second)
    assert standing(office) == [first, second]
    assert [kind(body) for body in office.log()].count("restriction") == 2


def test_a_line_that_was_taken_back_before_its_turn_came_is_not_carried_out(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in flight when it was read; whoever wrote it failed, and had the lock until then."""
    memory_id = office.remember("a kettle")
    line = said_and_died(office, memory_id)
    custody = office.engine.custody

    class Late:
        """Hears of the withdrawal right after the lines were read."""

        def __init__(self) -> None:
            self.has_read = False

        def __getattr__(self, name: str) -> Any:
            return getattr(custody, name)

        def journal_after(self, seq: int, kind: str | None = None) -> Any:
            lines = custody.journal_after(seq, kind)
            if not self.has_read:
                self.has_read = True
                custody.journal_append(tenant=office.tenant, kind=WITHDRAWN, codes={"line": line}, at=1)
            return lines

    monkeypatch.setattr(office.engine, "custody", Late())
    journal.replay(office.engine)
    assert not restricted(office, memory_id)
    monkeypatch.undo()
    journal.replay(office.engine)
    assert not restricted(office, memory_id)


class NoAnswer:
    """Lends connections whose next commit is heard of no more: it happened, or it did not."""

    def __init__(self, lender: Any, *, happens: bool) -> None:
        self.lender, self.happens, self.is_armed = lender, happens, True

    @contextmanager
    def begun(self) -> Generator[Any]:
        failing, self.is_armed = self.is_armed, False
        with self.lender.begun() as connection:
            yield connection
            if failing and not self.happens:
                raise sqlite3.OperationalError("the connection was lost")
        if failing:
            raise sqlite3.OperationalError("the connection was lost")

    def close(self) -> None:
        self.lender.close()


@pytest.mark.parametrize("happens", [True, False])
def test_a_line_stays_where_a_commit_without_an_answer_happened(
    office: Office, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    memory_id = office.remember("a kettle")
    office.running.back_up()
    store = office.engine.store
    monkeypatch.setattr(store, "_writes", NoAnswer(store._writes, happens=happens))
    with pytest.raises(StorageUnavailable):
        acts(office, memory_id)
    assert restricted(office, memory_id) is happens
    assert standing(office) == [memory_id] * happens
    office.running.put_back()
    assert restricted(office, memory_id) is happens


def test_where_the_database_does_not_say_the_line_stands_and_is_carried_out(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_id = office.remember("a kettle")
    store = office.engine.store
    away: list[Callable[[], object]] = [NoAnswer(store._writes, happens=False).begun]

    class Away:
        """Fails at the commit, and does not answer after."""

        @contextmanager
        def begun(self) -> Generator[Any]:
            if not away:
                raise sqlite3.OperationalError("nobody there")
            with away.pop()() as connection:
                yield connection

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(store, "_writes", Away())
    with pytest.raises(StorageUnavailable):
        acts(office, memory_id)
    monkeypatch.undo()
    assert standing(office) == [memory_id]
    assert not restricted(office, memory_id)
    tend(office.engine)
    assert restricted(office, memory_id)
    with store.snapshot() as connection:
        assert tenants.journal_seen(connection) == 1
