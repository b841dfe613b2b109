"""Search indexes in memory, one a tenant, kept in step with the database. RECALL.md §2.

Nothing here is written to disk. An index follows the tenant's revision; what it returns are candidates
only, which a search confirms against the database before opening a row.
"""

import threading

from .custody import Punctured
from .errors import IntegrityFault
from .model import MemoryId, TenantId
from .recall.embedder import Embedder
from .recall.index import TenantIndex
from .rows import Rows
from .store import memories, tenants
from .store.unit import Store


class Followed:
    """One tenant's index and the revision it has come to."""

    def __init__(self, index: TenantIndex) -> None:
        self.index = index
        self.revision = 0
        self.lock = threading.Lock()


class Indexes:
    """The indexes of all tenants, made on first use."""

    def __init__(self, store: Store, rows: Rows, embedder: Embedder | None) -> None:
        self._store = store
        self._rows = rows
        self._embedder = embedder
        self._lock = threading.Lock()
        self._followed: dict[TenantId, Followed] = {}

    def of(self, tenant: TenantId) -> Followed:
        """Return the tenant's index, brought up to the newest committed revision."""
        with self._lock:
            followed = self._followed.setdefault(tenant, Followed(TenantIndex(self._embedder)))
        with followed.lock, self._store.reading(tenant) as unit:
            revision = tenants.get(unit).revision
            if revision > followed.revision:
                for _, row in memories.changed_after(unit, followed.revision):
                    self._follow(followed.index, tenant, row)
                followed.revision = revision
        return followed

    def _follow(self, index: TenantIndex, tenant: TenantId, row: memories.MemoryRow) -> None:
        try:
            features = self._rows.open_features(tenant, row)
        except (Punctured, IntegrityFault):
            index.discard(row.memory_id)  # not recallable: SEMANTICS.md §5, integrity_fault
            return
        index.add(row.memory_id, row.subject, features)

    def discard(self, tenant: TenantId, ids: list[MemoryId]) -> None:
        """Drop rows at once: vectors, postings, everything."""
        with self._lock:
            followed = self._followed.get(tenant)
        if followed is None:
            return
        with followed.lock:
            for memory_id in ids:
                followed.index.discard(memory_id)
