"""One tenant of a running engine with its two keys, for tests that tell a story of their own."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any, TypeVar

from shomei_memory_verify import verify_signed_receipt
from shomei_service.engine.errors import EngineError
from shomei_service.engine.model import Attested, Caller, NewMemory, Policies, Scope, TenantId
from shomei_service.engine.store import receipts, tenants
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.search import search
from tests.engine.verbs.side_by_side import Running

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Office:
    """A tenant's admin and data callers. The engine may be closed and opened under them."""

    running: Running
    tenant: TenantId
    admin: Caller
    data: Caller

    @classmethod
    def opened(cls, running: Running, label: str = "office", policies: Policies | None = None) -> "Office":
        """Make a tenant."""
        tenant = access.create_tenant(running.engine, label).tenant_id
        keys = [access.create_key(running.engine, tenant, scope) for scope in (Scope.ADMIN, Scope.DATA)]
        access.set_policies(running.engine, tenant, policies or Policies(purposes=frozenset({"support"})))
        admin, data = (access.authenticate(running.engine, key.token) for key in keys)
        return cls(running, tenant, admin, data)

    @property
    def engine(self) -> Any:
        """The engine that is open now."""
        return self.running.engine

    def remember(self, text: str, user_id: str | None = None, **facts: Any) -> str:
        """Add one memory and return its id."""
        return add(self.engine, self.data, NewMemory(text, user_id, **facts)).memory_id

    def found(self, query: str, user_id: str | None = None) -> set[str]:
        """Return the ids a search shows."""
        results = search(self.engine, self.data, query, user_id=user_id, limit=100).results
        return {one.memory.memory_id for one in results}

    def log(self) -> list[dict[str, Any]]:
        """Return the bodies of the tenant's current log, in order; each receipt is authentic."""
        with self.engine.reading(self.tenant) as unit:
            rows = receipts.page(unit, tenants.get(unit).log_origin, -1, 10_000)
            attested = receipts.of_hashes(unit, [row.receipt_hash for row in rows])
        assert all(self.is_authentic(attested[row.receipt_hash]) for row in rows)
        return [json.loads(row.body) | {"receipt_hash": row.receipt_hash} for row in rows]

    def is_authentic(self, receipt: Attested) -> bool:
        """Say whether a receipt verifies under the pin."""
        envelope, pin = receipt.envelope, self.running.home.pin
        return envelope is not None and bool(
            verify_signed_receipt(dict(envelope), expected_public_key_hex=pin)
        )


def kind(body: dict[str, Any]) -> str:
    """Return a receipt's schema without what all have in common."""
    return body["schema"].removeprefix("shomei.").removesuffix(".v1")


def said_no(call: Callable[[], object]) -> tuple[type[EngineError], str, tuple[object, ...]]:
    """Return everything a caller can tell of a refusal: its class, its code, its words."""
    try:
        done = call()
    except EngineError as refusal:
        return type(refusal), refusal.code, refusal.args
    raise AssertionError(f"nobody said no: {done!r}")


def at_once(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Start all calls at one moment; return what each returned or raised."""
    barrier = Barrier(len(calls))

    def start(call: Callable[[], T]) -> T | Exception:
        barrier.wait()
        try:
            return call()
        except Exception as exc:
            return exc

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(start, calls))
