"""The read audit: every access leaves an event, in batches or before the answer. CONTRACT.md §7.

In batches, events wait in a bounded buffer for the background thread; a full buffer refuses reads rather
than lose one. Strict, the event is durable before anything is told.
"""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from .errors import AuditUnavailable, Blocked, Fault, Held
from .model import Caller, Clock, MemoryId, Scope, TenantId
from .store import audit
from .store.audit import Access
from .store.unit import Store

_BUFFERED: Final = 20_000
_IDS: Final = 100  # of one event; the count says how many there were


class Audit:
    """Takes down who read what."""

    def __init__(self, store: Store, clock: Clock, *, strict: bool) -> None:
        self._store = store
        self._clock = clock
        self._strict = strict
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._waiting: dict[TenantId, list[Access]] = {}
        self._count = 0

    def note(
        self,
        caller: Caller,
        verb: str,
        ids: Sequence[MemoryId] = (),
        *,
        outcome: str = "ok",
        count: int | None = None,
    ) -> None:
        """Take an access down; raise AuditUnavailable when it can not be, and then nothing may be told."""
        access = Access(
            at=self._clock.now(),
            actor=caller.actor,
            is_admin=Scope.ADMIN in caller.scopes,
            verb=verb,
            outcome=outcome,
            memory_ids=tuple(ids[:_IDS]),
            count=len(ids) if count is None else count,
        )
        if self._strict:
            self._write(caller.tenant, [access])
            return
        with self._lock:
            if self._count >= _BUFFERED:
                raise AuditUnavailable("the read audit does not keep up; nothing is read without it")
            self._waiting.setdefault(caller.tenant, []).append(access)
            self._count += 1

    @contextmanager
    def refusals(self, caller: Caller, verb: str, memory_id: str) -> Generator[None]:
        """Take it down when a hold or the memory's state forbids what is asked. SEMANTICS.md §14."""
        try:
            yield
        except (Held, Blocked) as refused:
            self.note(caller, verb, [MemoryId(memory_id)], outcome=refused.code)
            raise

    def flush(self) -> None:
        """Write what waits, in order; what can not be written waits on."""
        with self._flushing:  # so that whoever flushed may read all that was noted before
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            taken, self._waiting, self._count = self._waiting, {}, 0
        try:
            while taken:
                tenant, accesses = next(iter(taken.items()))
                self._write(tenant, accesses)
                del taken[tenant]
        except Fault:
            with self._lock:
                for tenant, accesses in taken.items():
                    self._waiting[tenant] = [*accesses, *self._waiting.get(tenant, [])]
                    self._count += len(accesses)
            raise

    def _write(self, tenant: TenantId, accesses: Sequence[Access]) -> None:
        try:
            with self._store.unit(tenant) as unit:
                audit.append(unit, accesses)
        except Fault as exc:
            raise AuditUnavailable("the read audit can not be written; nothing is read without it") from exc
