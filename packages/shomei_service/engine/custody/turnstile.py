"""Erasures that arrive together share an epoch, and a part that can not be read fails alone."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Generic, TypeVar

from .. import turnstile
from ..errors import CustodyUnavailable, IntegrityFault

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class Turnstile(Generic[_Asked, _Answer]):
    """One caller at a time is inside, and it serves every caller who waits."""

    def __init__(self, serve: Callable[[Sequence[_Asked]], Sequence[_Answer]]) -> None:
        """Take the function that answers a batch, one answer for each question, in order."""
        self._serve: Final = serve
        self._turnstile: Final = turnstile.Turnstile[_Asked, _Answer]()

    def enter(self, asked: _Asked) -> _Answer:
        """Return the answer; raise IntegrityFault if it met one, CustodyUnavailable for the rest."""
        try:
            return self._turnstile.enter(asked, self._serve_together)
        except IntegrityFault as exc:
            raise IntegrityFault("a part of the key tree is not what was sealed") from exc
        except Exception as exc:
            raise CustodyUnavailable("the erasure is not finished; a repeat rolls it forward") from exc

    def alone(self) -> AbstractContextManager[None]:
        """Be inside without serving anybody."""
        return self._turnstile.alone()

    def count_waiting(self) -> int:
        """Return how many callers wait outside."""
        return self._turnstile.count_waiting()

    def _serve_together(self, batch: Sequence[_Asked]) -> Sequence[_Answer | Exception]:
        try:
            return self._serve(batch)
        except IntegrityFault:
            if len(batch) == 1:
                raise
            # One unreadable part of the tree must not keep the others from being erased.
            return [self._serve_one(asked) for asked in batch]

    def _serve_one(self, asked: _Asked) -> _Answer | Exception:
        try:
            return self._serve([asked])[0]
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is this caller's answer
            return exc
