"""Calls that arrive while others of their kind are at work are worked on together. docs/decisions/0042.

A thread for each of many short calls costs more than the calls: each hop waits for the interpreter's lock.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from .lanes import Lane, Lanes

A = TypeVar("A")
R = TypeVar("R")

_AT_ONCE: Final = 64  # so that nobody waits for more than some ten milliseconds of others' work

Work = Callable[[Sequence[A]], Sequence[R | Exception]]


class Gathering(Generic[A, R]):
    """One thread at a time for each key, which works on all who wait."""

    def __init__(self, lanes: Lanes, lane: Lane, work: Work[A, R]) -> None:
        """Have `work` answer each of those it is given, in order; what it raises is everybody's answer."""
        self._lanes = lanes
        self._lane = lane
        self._work = work
        self._waiting: dict[Hashable, list[tuple[A, asyncio.Future[R | Exception]]]] = {}
        self._serving = set[asyncio.Task[None]]()

    async def ask(self, key: Hashable, asked: A) -> R:
        """Return the answer, or raise what it is; what has begun completes, whoever hangs up.

        Raises Busy instead of queueing without end.
        """
        with self._lanes.place(self._lane):
            future = asyncio.get_running_loop().create_future()
            if key not in self._waiting:
                self._waiting[key] = []
                task = asyncio.create_task(self._serve(key))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)
            self._waiting[key].append((asked, future))
            answer = await future
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _serve(self, key: Hashable) -> None:
        group: list[tuple[A, asyncio.Future[R | Exception]]] = []
        try:
            while waiting := [one for one in self._waiting[key] if not one[1].done()]:
                group, self._waiting[key] = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
                answers = await self._answers([asked for asked, _ in group])
                for (_, future), answer in zip(group, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
        finally:
            for _, future in [*group, *self._waiting.pop(key)]:
                future.cancel()  # the loop ends; of those who were answered this changes nothing

    async def _answers(self, group: Sequence[A]) -> Sequence[R | Exception]:
        try:
            return await self._lanes.work(self._lane, self._work, group)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is everybody's answer
            return [exc] * len(group)
