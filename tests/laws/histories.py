"""What clients saw, and whether one order of events explains it. RELIABILITY T-18, after Jepsen's checkers.

A call is invoked, and later answered or not. What was answered before another call began comes before it.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

FOREVER = float("inf")


class Act(StrEnum):
    """What a call does to a memory, as far as recall is concerned."""

    SHOW = "show"
    HIDE = "hide"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Event:
    """One call about one memory, or one look at all memories of a subject; `ended` is never for no answer."""

    act: Act
    subject: str
    began: float
    ended: float
    memory_id: str | None = None  # None for a call about the whole subject
    found: frozenset[str] = frozenset()


@dataclass(slots=True)
class History:
    """Events of many clients on one clock."""

    events: list[Event] = field(default_factory=list[Event])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, event: Event) -> None:
        """Take an event down."""
        with self.lock:
            self.events.append(event)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A look that no order of the events explains."""

    kind: str
    memory_id: str
    look: Event


def now() -> float:
    """The clock that all clients of one machine share."""
    return time.monotonic()


def anomalies(events: Iterable[Event]) -> list[Anomaly]:
    """Return every sighting of what had been hidden and every absence of what had been shown. I-5, I-12.

    A memory may be seen unless a call that hides it was answered before the look began and none that shows
    it began after; it must be seen if a call that shows it was answered before and none that hides it began.
    """
    by_subject: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_subject[event.subject].append(event)
    found: list[Anomaly] = []
    for mine in by_subject.values():
        acts: dict[str, list[Event]] = defaultdict(list)
        whole = [one for one in mine if one.memory_id is None and one.act is not Act.LOOK]
        for one in mine:
            if one.memory_id is not None:
                acts[one.memory_id].append(one)
        for look in (one for one in mine if one.act is Act.LOOK):
            found += _of(look, acts, whole)
    return found


def _of(look: Event, acts: dict[str, list[Event]], whole: list[Event]) -> Iterable[Anomaly]:
    for memory_id in look.found - acts.keys():
        yield Anomaly("unheard of", memory_id, look)
    for memory_id, own in acts.items():
        if memory_id in look.found:
            if not _may_be_seen(look, own, whole):
                yield Anomaly("seen after its end", memory_id, look)
        elif _must_be_seen(look, own, whole):
            yield Anomaly("not seen", memory_id, look)


def _may_be_seen(look: Event, own: list[Event], whole: list[Event]) -> bool:
    hidden = [one for one in (*own, *whole) if one.act is Act.HIDE and one.ended < look.began]
    shows = [one for one in own if one.act is Act.SHOW and one.began < look.ended]
    # What hides is undone only by a call that may have come after it.
    return all(any(show.ended > hide.began for show in shows) for hide in hidden)


def _must_be_seen(look: Event, own: list[Event], whole: list[Event]) -> bool:
    shown = [one for one in own if one.act is Act.SHOW and one.ended < look.began]
    hides = [one for one in (*own, *whole) if one.act is Act.HIDE and one.began < look.ended]
    return any(all(hide.ended < show.began for hide in hides) for show in shown)
