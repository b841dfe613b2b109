"""The read audit: every access leaves an event, in batches or before the answer. CONTRACT.md §7.

In batches, events wait in a bounded buffer for the background thread; a full buffer refuses reads rather
than lose one. Strict, the event is durable before anything is told. What leaves a receipt is durable with it.
"""

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from .errors import AuditUnavailable, Blocked, EngineError, Fault, Held
from .model import Caller, Clock, MemoryId, Pseudonym, Scope, TenantId
from .store import audit
from .store.audit import Access
from .store.unit import Store, Unit

_BUFFERED: Final = 20_000


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
        refusal: EngineError | None = None,
        count: int | None = None,
        subjects: Sequence[Pseudonym] = (),
        purpose: str | None = None,
    ) -> None:
        """Take an access down; raise AuditUnavailable when it can not be, and then nothing may be told."""
        access = self._access(caller, verb, ids, refusal, count=count, subjects=subjects, purpose=purpose)
        if self._strict:
            self._write(caller.tenant, [access])
            return
        with self._lock:
            self._require_room()
            self._waiting.setdefault(caller.tenant, []).append(access)
            self._count += 1

    def record(
        self,
        unit: Unit,
        caller: Caller,
        verb: str,
        ids: Sequence[MemoryId],
        *,
        receipt_hash: str,
        subjects: Sequence[Pseudonym] = (),
    ) -> None:
        """Take an access down in the unit that puts its receipt on record: there are both, or neither is.

        `catch_up` comes first, so that events stay in order. Raises AuditUnavailable, and then nothing may
        be told.
        """
        access = self._access(caller, verb, ids, None, subjects=subjects, receipt_hash=receipt_hash)
        try:
            audit.append(unit, [access])
        except Fault as exc:
            raise AuditUnavailable("the read audit can not be written; nothing is read without it") from exc

    @contextmanager
    def refusals(self, caller: Caller, verb: str, memory_id: str) -> Generator[None]:
        """Take it down when a hold or the memory's state forbids what is asked. SEMANTICS.md §14."""
        try:
            yield
        except (Held, Blocked) as refused:
            self.note(caller, verb, [MemoryId(memory_id)], refusal=refused)
            raise

    def catch_up(self) -> None:
        """Write what waits before an event of its own is recorded. Raise AuditUnavailable as `note` does."""
        with self._lock:
            self._require_room()
        self.flush()

    def flush(self) -> None:
        """Write what waits, in order; what can not be written waits on."""
        with self._flushing:  # so that whoever flushed may read all that was noted before
            self._flush()

    def _access(
        self,
        caller: Caller,
        verb: str,
        ids: Sequence[MemoryId],
        refusal: EngineError | None,
        *,
        count: int | None = None,
        subjects: Sequence[Pseudonym] = (),
        purpose: str | None = None,
        receipt_hash: str | None = None,
    ) -> Access:
        call = caller.call
        return Access(
            at=self._clock.now(),
            actor=caller.actor,
            is_admin=Scope.ADMIN in caller.scopes,
            verb=verb,
            outcome="ok" if refusal is None else refusal.code,
            memory_ids=tuple(ids),
            count=len(ids) if count is None else count,
            subjects=tuple(subjects),
            http_status=call.status_of(refusal) if call else None,
            purpose=purpose,
            latency_ms=round(1000 * (time.perf_counter() - call.began)) if call else None,
            request_id=call.request_id if call else None,
            receipt_hash=receipt_hash,
        )

    def _require_room(self) -> None:
        if self._count >= _BUFFERED:
            raise AuditUnavailable("the read audit does not keep up; nothing is read without it")

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
