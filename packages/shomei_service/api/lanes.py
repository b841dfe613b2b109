"""Bounded threads for the engine's work, so that no kind of call starves another. RELIABILITY.md §6."""

import functools
import math
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread

from .errors import Busy

P = ParamSpec("P")
T = TypeVar("T")

QUEUE: Final = 256  # RELIABILITY.md §6: workers' queue
PATIENCE_S: Final = 4.0  # in it: a database that is stuck refuses after five, and callers hear within ten
_DRAIN_SECONDS: Final = 60  # what is not done then is finished when the engine is next opened
_LARGE_BODIES: Final = 8  # of 16 MiB each: what all batches together may hold in memory
_STREAMS: Final = 32  # answers that are made while they are sent, at one time


class Lane(StrEnum):
    """Which threads a call may use; erasing never queues behind recall."""

    ADMIT = "admit"
    READ = "read"
    RECALL = "recall"
    REMEMBER = "remember"
    BATCH = "batch"
    GOVERN = "govern"
    EXPORT = "export"
    STREAM = "stream"
    PROBE = "probe"


# Waiting for a shared commit takes a thread but no processor; recall takes processor, a batch memory.
THREADS: Final[Mapping[Lane, int]] = {
    Lane.ADMIT: 8,
    Lane.READ: 16,
    Lane.RECALL: 16,
    Lane.REMEMBER: 64,
    Lane.BATCH: 2,
    Lane.GOVERN: 64,
    Lane.EXPORT: 2,  # RELIABILITY.md §6: concurrent exports
    Lane.STREAM: 4,
    Lane.PROBE: 1,
}


_PATIENT: Final = frozenset({Lane.BATCH, Lane.EXPORT, Lane.STREAM})  # few threads, and work that takes long


def too_slow() -> Busy:
    """Return what whoever has waited too long is told."""
    return Busy("the work before this one takes too long; try again")


class Lanes:
    """The service's threads, a fixed number to a lane, and a fixed queue before each."""

    def __init__(
        self, threads: Mapping[Lane, int] = THREADS, queue: int = QUEUE, patience_s: float = PATIENCE_S
    ) -> None:
        self._limiters = {lane: anyio.CapacityLimiter(number) for lane, number in threads.items()}
        self._most = {lane: number + queue for lane, number in threads.items()}
        self.patience_s = patience_s
        self._unlimited = anyio.CapacityLimiter(math.inf)
        self._inside = Counter[Lane]()
        self._working = 0
        self._done = threading.Condition()
        self.large_bodies = anyio.CapacityLimiter(_LARGE_BODIES)
        self.streams = anyio.CapacityLimiter(_STREAMS)

    async def run(self, lane: Lane, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the work in the lane and return what it returns; what has begun completes, whoever hangs up.

        Raises Busy instead of queueing without end, in number and in time.
        """
        with self.place(lane):
            return await self.work(lane, functools.partial(work, *args, **kwargs))

    @contextmanager
    def place(self, lane: Lane) -> Generator[None]:
        """Hold one of the lane's places, at work or waiting. Raises Busy when there is none."""
        if self._inside[lane] >= self._most[lane]:
            raise Busy("more work is waiting than this service holds; try again")
        self._inside[lane] += 1
        try:
            yield
        finally:
            self._inside[lane] -= 1

    async def work(self, lane: Lane, work: Callable[..., T], *args: object) -> T:
        """Return what the work returns, done by one of the lane's threads; its places are others' care.

        Raises Busy where no thread is free in time.
        """
        limiter = self._limiters[lane]
        if limiter.available_tokens or lane in _PATIENT:
            return await anyio.to_thread.run_sync(self._count, work, args, limiter=limiter)
        turn = object()
        with anyio.move_on_after(self.patience_s) as waiting:
            await limiter.acquire_on_behalf_of(turn)
        if waiting.cancelled_caught:
            raise too_slow()
        try:
            return await anyio.to_thread.run_sync(self._count, work, args, limiter=self._unlimited)
        finally:
            limiter.release_on_behalf_of(turn)

    def load(self) -> dict[Lane, int]:
        """Return how many calls are in each lane, at work or waiting."""
        return {lane: self._inside[lane] for lane in self._most}

    def drain(self) -> None:
        """Wait, within reason, for threads whose callers were cancelled: the engine is closed after them."""
        with self._done:
            self._done.wait_for(lambda: self._working == 0, _DRAIN_SECONDS)

    def _count(self, work: Callable[..., T], args: Sequence[object]) -> T:
        with self._done:
            self._working += 1
        try:
            return work(*args)
        finally:
            with self._done:
                self._working -= 1
                self._done.notify_all()
