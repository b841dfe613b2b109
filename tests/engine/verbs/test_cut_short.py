"""An act of governance that was cut short between custody's journal and the database. CUSTODY.md §4.

The line is durable first. Whether the database came to it decides what becomes of it: it stays, or it is
taken back, by whoever writes the next one at the latest; an opening that comes before that carries it out.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy

from shomei_service.engine import journal
from shomei_service.engine.custody.journal import WITHDRAWN, not_withdrawn
from shomei_service.engine.errors import CustodyUnavailable, StorageUnavailable
from shomei_service.engine.model import Ground
from shomei_service.engine.verbs import forget, restrict, status, update
from tests.engine.verbs.office import Office
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


def test_what_a_process_died_over_is_taken_back_before_another_line_hides_it(office: Office) -> None:
    """What it says would be done after the next restore, among all that came in between."""
    first, second = office.remember("a kettle"), office.remember("a pan")
    office.running.back_up()
    said_and_died(office, first)
    acts(office, second)
    assert standing(office) == [second]
    assert not restricted(office, first)
    office.running.put_back()
    assert (restricted(office, first), restricted(office, second)) == (False, True)


def test_what_a_process_died_over_is_done_by_an_opening(office: Office) -> None:
    memory_id = office.remember("a kettle")
    said_and_died(office, memory_id)
    office.running.close()
    office.running.open()
    assert restricted(office, memory_id)


def test_a_database_put_back_while_it_is_open_takes_nothing_back(office: Office) -> None:
    """Its lines are there for the next opening; whoever goes on without one is refused."""
    first, second = office.remember("a kettle"), office.remember("a pan")
    acts(office, first)
    office.running.close()
    office.running.open()
    with office.engine.store.transaction() as connection:
        connection.execute(sqlalchemy.text("UPDATE installation SET journal_seq = 0"))
    with pytest.raises(StorageUnavailable, match="went back"):
        acts(office, second)
    assert standing(office) == [first]


def test_a_line_without_an_answer_is_taken_back(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Custody wrote it and could not say so: the act is refused, and no opening does it later."""
    memory_id = office.remember("a kettle")
    custody = office.engine.custody

    class Mute:
        """Writes the first line, and is not heard."""

        def __init__(self) -> None:
            self.has_written = False

        def __getattr__(self, name: str) -> Any:
            return getattr(custody, name)

        def journal_append(self, **line: Any) -> int:
            number = custody.journal_append(**line)
            if self.has_written:
                return number
            self.has_written = True
            raise CustodyUnavailable("the custody store does not answer")

    monkeypatch.setattr(office.engine, "custody", Mute())
    with pytest.raises(CustodyUnavailable):
        acts(office, memory_id)
    assert standing(office) == []
    monkeypatch.undo()
    office.running.close()
    office.running.open()
    assert not restricted(office, memory_id)


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


def test_where_the_database_does_not_say_the_next_line_finds_out(
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
    other = office.remember("a pan")
    acts(office, other)
    assert standing(office) == [other]


def test_a_forget_that_was_refused_takes_nothing_that_came_after_it(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Custody wrote its line and was away from then on, so nobody could take the line back."""
    before = office.remember("a kettle", "alice")
    custody = office.engine.custody

    class Leaving:
        """Writes a line, and neither says so nor answers any more."""

        is_gone = False

        def __getattr__(self, name: str) -> Any:
            return getattr(custody, name)

        def journal_append(self, **line: Any) -> int:
            custody.journal_append(**line)
            self.is_gone = True
            raise CustodyUnavailable("the custody store does not answer")

        def journal_after(self, seq: int, kind: str | None = None) -> Any:
            if self.is_gone:
                raise CustodyUnavailable("the custody store does not answer")
            return custody.journal_after(seq, kind)

    monkeypatch.setattr(office.engine, "custody", Leaving())
    with pytest.raises(CustodyUnavailable):
        forget.forget(office.engine, office.admin, "alice")
    monkeypatch.undo()
    after = office.remember("a kettle", "alice")
    changed = update.update(office.engine, office.admin, office.remember("a pan", "alice"), "a kettle")
    assert office.found("kettle") == {before, after, changed.memory_id}
    office.running.close()
    office.running.open()
    assert office.found("kettle") == {after, changed.memory_id}
