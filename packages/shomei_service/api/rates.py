"""How often a key may ask, and how often anybody may show a wrong one. RELIABILITY.md §6."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ..settings import Settings
from .errors import TooOften
from .lanes import Lane

_NAMES: Final = 4096  # remembered by one pace; who is forgotten starts afresh
_MINUTE: Final = 60


class Pace:
    """A steady rate for each name, and a burst before it: the generic cell rate algorithm (ITU-T I.371)."""

    def __init__(
        self,
        per_second: float,
        *,
        burst: float,
        most: int = _NAMES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cost = 1 / per_second
        self._slack = (burst - 1) * self._cost
        self._most = most
        self._clock = clock
        self._due: dict[str, float] = {}  # when what a name has spent is earned again; least recent first
        self._lock = threading.Lock()

    def wait(self, name: str) -> float:
        """Return the seconds until the name may spend one; zero or less: now."""
        return self._due.get(name, 0.0) - self._slack - self._clock()

    def spend(self, name: str, amount: int = 1) -> None:
        """Count what the name did, also beyond what it may: it then waits the longer."""
        with self._lock:
            self._due[name] = max(self._due.pop(name, 0.0), self._clock()) + amount * self._cost
            if len(self._due) > self._most:
                del self._due[next(iter(self._due))]


class Rates:
    """The paces of one service."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        requests, adds, searches, governed = (
            Pace(rate, burst=rate, clock=clock)
            for rate in (
                settings.rate_requests,
                settings.rate_adds,
                settings.rate_searches,
                settings.rate_governed,
            )
        )
        # Erasing, forgetting and restricting spend nothing that recall spends, so it cannot starve them.
        self._keys: Mapping[Lane, tuple[Pace, ...]] = {
            Lane.READ: (requests,),
            Lane.RECALL: (requests, searches),
            Lane.REMEMBER: (requests, adds),
            Lane.BATCH: (requests, adds),
            Lane.GOVERN: (governed,),
            Lane.EXPORT: (governed,),
        }
        wrong = settings.rate_failed_keys
        self._failed = Pace(wrong / _MINUTE, burst=wrong, clock=clock)

    def admit(self, key: str, lane: Lane) -> None:
        """Count one request of a key. Raises TooOften, and counts nothing, when it has to wait."""
        paces = self._keys[lane]
        wait = max(pace.wait(key) for pace in paces)
        if wait > 0:
            raise TooOften("this key asks more often than it may; try again later", wait)
        for pace in paces:
            pace.spend(key)

    def charge(self, key: str, lane: Lane, more: int) -> None:
        """Count what a request turned out to hold beyond the first; later requests wait for it."""
        if more > 0:
            self._keys[lane][-1].spend(key, more)

    def fail(self, names: Iterable[str]) -> None:
        """Count a wrong key for whoever showed it. Raises TooOften instead when that was too often.

        Only who is wrong is slowed. A genuine key is served whatever others did: key ids stand in receipts
        and behind a proxy all clients are one source, so refusing it would let anybody stop an erasure;
        and 256 random bits are not found by trying.
        """
        names = tuple(names)
        wait = max(self._failed.wait(name) for name in names)
        if wait > 0:
            raise TooOften("too many wrong keys; try again later", wait)
        for name in names:
            self._failed.spend(name)
