"""The service's background threads: one tends the engine, one makes vectors, which takes long."""

import threading
from collections.abc import Callable
from typing import Final

from ..engine.parts import Engine
from ..engine.upkeep import tend as tend_engine
from .journal import log_fault

EVERY_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 30.0


class Upkeep:
    """Does one kind of background work when woken and at least every second, and knows whether it works."""

    def __init__(
        self,
        engine: Engine,
        tend: Callable[[Engine], bool] = tend_engine,
        *,
        wake: threading.Event | None = None,
        every: float = EVERY_SECONDS,
        on_broken: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._tend = tend
        self._wake = wake or engine.wake
        self._every = every
        self._on_broken = on_broken
        self._stopping = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="shomei-upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the run under way and end."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(_STOP_SECONDS)

    @property
    def is_well(self) -> bool:
        """Say whether the thread runs and its last run did what it should."""
        return self._thread.is_alive() and not self._failed

    def _run(self) -> None:
        while not self._stopping.is_set():
            more = self._attempt()
            if self._engine.is_broken:
                self._on_broken()
            if self._failed:
                self._stopping.wait(self._every)  # not woken by requests: a broken disk is no busy loop
            elif not more:
                self._wake.wait(self._every)
                self._wake.clear()

    def _attempt(self) -> bool:
        try:
            more = self._tend(self._engine)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the next run tries again
            self._failed = True
            log_fault(fault, "upkeep")
            return False
        self._failed = False
        return more
