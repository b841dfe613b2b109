"""The checker of histories: it must find what is wrong, and nothing else. T-18."""

import pytest

from tests.laws.histories import FOREVER, Act, Event, anomalies


def event(act: Act, began: float, ended: float, memory_id: str | None = "m", *found: str) -> Event:
    return Event(act, "alice", began, ended, memory_id, frozenset(found))


def kinds(*events: Event) -> list[str]:
    return [one.kind for one in anomalies(events)]


ADD = event(Act.SHOW, 0, 0.5)


def look(began: float, ended: float, *found: str) -> Event:
    return event(Act.LOOK, began, ended, None, *found)


@pytest.mark.parametrize("memory_id", ["m", None])
def test_what_was_hidden_before_the_look_is_not_seen(memory_id: str | None) -> None:
    hide = event(Act.HIDE, 1, 2, memory_id)
    assert kinds(ADD, hide, look(3, 4, "m")) == ["seen after its end"]
    assert kinds(ADD, hide, look(3, 4)) == []
    # While it is being hidden either is right; without an answer it may never have happened.
    assert kinds(ADD, hide, look(1.5, 4)) == kinds(ADD, hide, look(1.5, 4, "m")) == []
    assert kinds(ADD, event(Act.HIDE, 1, FOREVER, memory_id), look(3, 4, "m"), look(3, 4)) == []


def test_what_was_added_is_seen() -> None:
    assert kinds(ADD, look(1, 2)) == ["not seen"]
    assert kinds(ADD, look(0.2, 2)) == kinds(event(Act.SHOW, 0, FOREVER), look(1, 2)) == []
    assert kinds(look(1, 2, "m")) == ["unheard of"]


def test_what_is_shown_again_is_seen_again() -> None:
    hide, show = event(Act.HIDE, 1, 2), event(Act.SHOW, 3, 4)
    assert kinds(ADD, hide, show, look(5, 6)) == ["not seen"]
    assert kinds(ADD, hide, show, look(5, 6, "m")) == []
    assert kinds(ADD, hide, show, look(3.5, 6), look(3.5, 6, "m")) == []
    assert kinds(ADD, hide, event(Act.SHOW, 3, FOREVER), look(5, 6), look(5, 6, "m")) == []
