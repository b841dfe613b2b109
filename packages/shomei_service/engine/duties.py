"""What one of several processes does for all, and whose an erasure is. CUSTODY.md §4, RELIABILITY T-20.

A home on SQLite has one server, so there nothing is asked and nothing written.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from .errors import StartRefused, StorageUnavailable
from .model import Clock, TenantId, new_id
from .store import intents, leases
from .store.unit import Store, Unit

UPKEEP: Final = "upkeep"
EMBEDDING: Final = "embedding"
_RECOVERY: Final = "recovery"
_RENEW_S: Final = leases.LEASE_S / 3
_PAUSE_S: Final = 0.05
_OTHERS_S: Final = 15  # an erasure that another process has and does not end, and that process's lease
_RECOVERIES_S: Final = 300  # of others, one after the other


class Duties:
    """One process's name among the others, and the leases it has."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._renew_at: dict[str, float] = {}
        self.holder: Final = new_id("wrk_")

    def has(self, name: str) -> bool:
        """Say whether this process has a duty now; ask often, or another one takes it over."""
        return self._is_fresh(name) or self._take(name)

    def claim(self, unit: Unit, intent_id: str) -> None:
        """Lease an erasure that the unit begins, so that no other process carries it out as well."""
        if self._store.is_sqlite:
            return
        asked = time.monotonic()
        leases.take(unit.connection, intent_id, self.holder, now=self._clock.now())
        self._note(intent_id, asked)

    def done(self, unit: Unit, intent_id: str) -> None:
        """End the lease of an erasure that the unit ends."""
        if self._store.is_sqlite:
            return
        leases.give_up(unit.connection, intent_id)
        with self._lock:
            self._renew_at.pop(intent_id, None)

    def is_elsewhere(self, unit: Unit, intent_id: str) -> bool:
        """Say whether another process is carrying the erasure out."""
        return not self._store.is_sqlite and intent_id in leases.of_others(
            unit.connection, self.holder, now=self._clock.now()
        )

    def unattended(self) -> list[tuple[TenantId, str]]:
        """Return unfinished erasures, oldest first, that no other process is carrying out."""
        with self._store.snapshot() as connection:
            waiting = intents.unfinished(connection)
            if self._store.is_sqlite or not waiting:
                return waiting
            others = leases.of_others(connection, self.holder, now=self._clock.now())
        return [one for one in waiting if one[1] not in others]

    def await_turn(self, tenant: TenantId, intent_id: str) -> bool:
        """Return once the erasure is this process's to carry out; False once there is nothing left to do.

        Raises StorageUnavailable when another process neither ends it nor dies.
        """
        deadline = time.monotonic() + _OTHERS_S
        while not self._is_fresh(intent_id):
            with self._store.reading(tenant) as unit:
                if intents.get(unit, intent_id) is None:
                    return False
            if self._take(intent_id):
                break
            if time.monotonic() > deadline:
                raise StorageUnavailable("another process has begun this erasure and not ended it")
            time.sleep(_PAUSE_S)
        return True

    @contextmanager
    def recovering(self) -> Generator[Callable[[], object]]:
        """Enter when no other process recovers; yield what is to be called between steps.

        Raises StartRefused when others are at it for minutes.
        """
        deadline = time.monotonic() + _RECOVERIES_S
        while not self.has(_RECOVERY):
            if time.monotonic() > deadline:
                raise StartRefused("another process is recovering this database; start when it is done")
            time.sleep(_PAUSE_S)
        try:
            yield lambda: self.has(_RECOVERY)
        finally:
            self._give_up(_RECOVERY)

    def _is_fresh(self, name: str) -> bool:
        if self._store.is_sqlite:
            return True
        with self._lock:
            return time.monotonic() < self._renew_at.get(name, 0)

    def _take(self, name: str) -> bool:
        asked = time.monotonic()
        with self._store.transaction() as connection:
            is_mine = leases.take(connection, name, self.holder, now=self._clock.now())
        if is_mine:
            self._note(name, asked)
        return is_mine

    def _note(self, name: str, asked: float) -> None:
        with self._lock:
            over = [one for one, at in self._renew_at.items() if at < asked - leases.LEASE_S]
            for one in over:
                del self._renew_at[one]
            self._renew_at[name] = asked + _RENEW_S

    def _give_up(self, name: str) -> None:
        if self._store.is_sqlite:
            return
        with self._lock:
            self._renew_at.pop(name, None)
        with self._store.transaction() as connection:
            leases.give_up(connection, name)
