"""Calls that arrive while others of their kind are at work are worked on together. docs/decisions/0042.

A thread for each of many short calls costs more than the calls: each hop waits for the interpreter's lock.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from .lanes import Lane, Lanes, too_slow

A = TypeVar("A")
R = TypeVar("R")

_AT_ONCE: Final = 64  # so that nobody waits for more than some ten milliseconds of others' work

Work = Callable[[Sequence[A]], Sequence[R | Exception]]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[A, R]):
    asked: A
    future: asyncio.Future[R | Exception]
    tired: asyncio.TimerHandle


def _give_up(future: asyncio.Future[R | Exception]) -> None:
    if not future.done():
        future.set_result(too_slow())


class Gathering(Generic[A, R]):
    """One thread at a time for each key, which works on all who wait."""

    def __init__(self, lanes: Lanes, lane: Lane, work: Work[A, R]) -> None:
        """Have `work` answer each of those it is given, in order; what it raises is everybody's answer."""
        self._lanes = lanes
        self._lane = lane
        self._work = work
        self._waiting: dict[Hashable, list[_Waiting[A, R]]] = {}
        self._serving = set[asyncio.Task[None]]()

    async def ask(self, key: Hashable, asked: A) -> R:
        """Return the answer, or raise what it is; what has begun completes, whoever hangs up.

        Raises Busy instead of queueing without end, in number and in time.
        """
        with self._lanes.place(self._lane):
            loop = asyncio.get_running_loop()
            future: asyncio.Future[R | Exception] = loop.create_future()
            tired = loop.call_later(self._lanes.patience_s, _give_up, future)
            if key not in self._waiting:
                self._waiting[key] = []
                task = asyncio.create_task(self._serve(key))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)
            self._waiting[key].append(_Waiting(asked, future, tired))
            answer = await future
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _serve(self, key: Hashable) -> None:
        group: list[_Waiting[A, R]] = []
        try:
            while waiting := [one for one in self._waiting[key] if not one.future.done()]:
                group, self._waiting[key] = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
                for one in group:
                    one.tired.cancel()
                answers = await self._answers([one.asked for one in group])
                for one, answer in zip(group, answers, strict=True):
                    if not one.future.done():
                        one.future.set_result(answer)
        finally:
            for one in [*group, *self._waiting.pop(key)]:
                one.tired.cancel()
                one.future.cancel()  # the loop ends; of those who were answered this changes nothing

    async def _answers(self, group: Sequence[A]) -> Sequence[R | Exception]:
        try:
            return await self._lanes.work(self._lane, self._work, group)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is everybody's answer
            return [exc] * len(group)
