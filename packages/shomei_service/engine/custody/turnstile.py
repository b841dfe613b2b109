"""Calls that arrive together are served together: one caller works for all who wait."""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ..errors import CustodyUnavailable, IntegrityFault

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class _Ticket(Generic[_Asked, _Answer]):
    asked: _Asked
    answer: _Answer | None = None
    failure: BaseException | None = None

    @property
    def is_served(self) -> bool:
        return self.answer is not None or self.failure is not None


class Turnstile(Generic[_Asked, _Answer]):
    """One caller at a time is inside, and it serves every caller who waits."""

    def __init__(self, serve: Callable[[Sequence[_Asked]], Sequence[_Answer]]) -> None:
        """Take the function that answers a batch, one answer for each question, in order."""
        self._serve: Final = serve
        self._door: Final = threading.Condition()
        self._is_taken: bool = False
        self._waiting: list[_Ticket[_Asked, _Answer]] = []

    def enter(self, asked: _Asked) -> _Answer:
        """Return the answer; raise IntegrityFault if it met one, CustodyUnavailable for the rest."""
        ticket = _Ticket[_Asked, _Answer](asked)
        with self._door:
            self._waiting.append(ticket)
            # Whoever was served leaves at once; waiting for the turn as well would cost another round.
            self._door.wait_for(lambda: ticket.is_served or not self._is_taken)
            if not ticket.is_served:
                self._is_taken = True
        if not ticket.is_served:
            with self._inside():
                with self._door:
                    batch, self._waiting = self._waiting, []
                self._lead(batch)
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

    def _lead(self, batch: list[_Ticket[_Asked, _Answer]]) -> None:
        self._serve_together(batch)
        if len(batch) > 1 and isinstance(batch[0].failure, IntegrityFault):
            # One unreadable part of the tree must not keep the others from being erased.
            for ticket in batch:
                self._serve_together([ticket])

    def _serve_together(self, batch: list[_Ticket[_Asked, _Answer]]) -> None:
        try:
            answers = self._serve([ticket.asked for ticket in batch])
        except BaseException as exc:
            for ticket in batch:
                ticket.failure = exc
            if not isinstance(exc, Exception):
                raise  # this thread is being stopped; the others have their answer
            return
        for ticket, answer in zip(batch, answers, strict=True):
            ticket.answer, ticket.failure = answer, None


def _answer_of(ticket: _Ticket[_Asked, _Answer]) -> _Answer:
    if ticket.answer is not None:
        return ticket.answer
    if isinstance(ticket.failure, IntegrityFault):
        raise IntegrityFault("a part of the key tree is not what was sealed") from ticket.failure
    raise CustodyUnavailable("the erasure is not finished; a repeat rolls it forward") from ticket.failure
