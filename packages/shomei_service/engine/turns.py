"""What may be had once, or by one at a time: leaf addresses, and the carrying out of an erasure."""

import threading
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from .custody import Address, Custody, address
from .model import TenantId, new_id
from .turnstile import Turnstile


class Slots:
    """Hands out leaf addresses, each once, from blocks that custody leases. CUSTODY.md §3."""

    def __init__(self, custody: Custody) -> None:
        self._custody = custody
        self._lock = threading.Lock()
        self._leased: dict[int, Iterator[int]] = {}

    def take(self, tenant_number: int) -> Address:
        """Return an address no row has ever had."""
        with self._lock:
            block = self._leased.get(tenant_number)
            row = next(block, None) if block else None
            if row is None:
                block = iter(self._custody.lease_rows(tenant_number))
                self._leased[tenant_number] = block
                row = next(block)
            return address(tenant_number, row)


class Entrances:
    """Where memories that arrive together at one tenant are admitted together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[TenantId, Turnstile[Any, Any]] = {}

    def of(self, tenant: TenantId) -> Turnstile[Any, Any]:
        """Return the tenant's entrance."""
        with self._lock:
            return self._of.setdefault(tenant, Turnstile[Any, Any]())


class Flights:
    """One erasure is carried out by one thread at a time; others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flying: dict[str, _Flight] = {}

    @contextmanager
    def alone(self, intent_id: str) -> Generator[None]:
        """Enter when no other thread is carrying out the intent; whoever is inside may re-enter."""
        with self._lock:
            flight = self._flying.setdefault(intent_id, _Flight())
            flight.aboard += 1
        try:
            with flight.turn:
                yield
        finally:
            with self._lock:
                flight.aboard -= 1
                if not flight.aboard:
                    del self._flying[intent_id]

    def is_flying(self, intent_id: str) -> bool:
        """Say whether a thread of this process is carrying the intent out."""
        with self._lock:
            return intent_id in self._flying

    @contextmanager
    def reserved(self) -> Generator[str]:
        """Yield the id for an intent that, while the block lasts, only this thread carries out.

        Whoever asked for an erasure is owed its proof: upkeep and other callers, which see the intent
        from its commit on, wait.
        """
        intent_id = new_id("obl_")
        with self.alone(intent_id):
            yield intent_id


@dataclass(slots=True)
class _Flight:
    """Whose turn it is, and how many threads are at it or wait."""

    turn: AbstractContextManager[object] = field(default_factory=threading.RLock)
    aboard: int = 0
