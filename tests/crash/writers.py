"""Threads that go on writing while something else is done to an installation."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tests.fakes import House


@contextmanager
def writing(house: House, number: int, act: Callable[[House, int], object]) -> Generator[list[BaseException]]:
    """Let so many threads do this until the block ends; yield what they failed with, in the end nothing."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def write(mine: int) -> None:
        while not stop.is_set():
            try:
                act(house, mine)
            except BaseException as failure:
                failures.append(failure)
                return

    threads = [threading.Thread(target=write, args=(mine,)) for mine in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield failures
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
