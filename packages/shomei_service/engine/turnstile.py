"""Calls that arrive together are served together: one caller works for all who wait."""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from .errors import StorageUnavailable

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")

Serve = Callable[[Sequence[_Asked]], Sequence[_Answer | Exception]]


@dataclass(slots=True)
class _Ticket(Generic[_Asked, _Answer]):
    asked: _Asked
    outcome: list[_Answer | Exception] = field(default_factory=list["_Answer | Exception"])


class Turnstile(Generic[_Asked, _Answer]):
    """One caller at a time is inside, and it serves every caller who waits."""

    def __init__(self) -> None:
        """Nobody is inside."""
        self._door: Final = threading.Condition()
        self._is_taken: bool = False
        self._waiting: list[_Ticket[_Asked, _Answer]] = []

    def enter(self, asked: _Asked, serve: Serve[_Asked, _Answer]) -> _Answer:
        """Return the answer, or raise what the answer is; what `serve` itself raises is everybody's.

        Whoever is inside has its `serve` answer a batch: one answer for each question, in order.
        """
        ticket = _Ticket[_Asked, _Answer](asked)
        with self._door:
            self._waiting.append(ticket)
            # Whoever was served leaves at once; waiting for the turn as well would cost another round.
            self._door.wait_for(lambda: ticket.outcome or not self._is_taken)
            leads = not ticket.outcome
            self._is_taken = self._is_taken or leads
        if leads:
            with self._inside():
                with self._door:
                    batch, self._waiting = self._waiting, []
                _serve(batch, serve)
        return _answer_of(ticket)

    @contextmanager
    def alone(self) -> Generator[None]:
        """Be inside without serving anybody."""
        with self._door:
            self._door.wait_for(lambda: not self._is_taken)
            self._is_taken = True
        with self._inside():
            yield

    @contextmanager
    def _inside(self) -> Generator[None]:
        try:
            yield
        finally:
            with self._door:
                self._is_taken = False
                self._door.notify_all()

    def count_waiting(self) -> int:
        """Return how many callers wait outside."""
        with self._door:
            return len(self._waiting)


def _serve(batch: Sequence[_Ticket[_Asked, _Answer]], serve: Serve[_Asked, _Answer]) -> None:
    try:
        answers = serve([ticket.asked for ticket in batch])
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is everybody's answer
        answers = [exc] * len(batch)
    except BaseException:  # this thread is being stopped; the others are told
        for ticket in batch:
            ticket.outcome.append(StorageUnavailable("the work was stopped on the way; ask again"))
        raise
    for ticket, answer in zip(batch, answers, strict=True):
        ticket.outcome.append(answer)


def _answer_of(ticket: _Ticket[_Asked, _Answer]) -> _Answer:
    [outcome] = ticket.outcome
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
