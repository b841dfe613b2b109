"""Search indexes in memory, one a tenant, kept in step with the database. RECALL.md §2.

Nothing here is written to disk. An index is made on first use and dropped when nobody uses it or memory is
wanted elsewhere. It follows the tenant's revision to what came and the receipt log to what was erased; what
it returns are candidates only, which a search confirms against the database before opening a row.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from .custody import Punctured
from .errors import IntegrityFault, StorageUnavailable
from .model import MemoryId, TenantId
from .recall.index import TenantIndex
from .recall.scoring import VectorModel
from .rows import Rows
from .store import recall
from .store.recall import IndexedRow, Place
from .store.unit import Store

_ROWS_AT_ONCE: Final = 1000  # read in one piece, so that loading holds neither memory nor the log
_DOOM_WAIT_S: Final = 0.25  # a search takes less; a load of many rows takes seconds
_WAITING: Final = 12  # of the service's 16 threads for recall: the others are for other tenants
_FOLLOW_EVERY_S: Final = 4.0  # CUSTODY.md §4: idle workers drop what others erased within 5 s


@dataclass(frozen=True, slots=True)
class Keep:
    """How much memory all indexes together may take, and how long one is kept that nobody asks."""

    octets: int = 512 * 1024 * 1024
    idle_s: float = 1800.0


class Followed:
    """One tenant's index, how far it has come, and when it was last asked and last looked after."""

    def __init__(self, index: TenantIndex, now: float) -> None:
        self.index = index
        self.place = Place()
        self.used_at = self.followed_at = now
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(_WAITING)
        self._doomed: set[str] = set()

    @contextmanager
    def made(self) -> Generator[None]:
        """Wait for the index; raise StorageUnavailable where too many wait for one that is being made."""
        is_new = not self.place.origin
        if is_new and not self._waiting.acquire(blocking=False):
            raise StorageUnavailable("the tenant's memories are still being loaded; ask again shortly")
        try:
            with self.alone():
                yield
        finally:
            if is_new:
                self._waiting.release()

    @contextmanager
    def alone(self, patience: float = -1) -> Generator[bool]:
        """Wait for the index and say whether it was had; what was doomed meanwhile is gone at either end."""
        had = self._lock.acquire(timeout=patience)
        try:
            if had:
                self._bury()
            yield had
        finally:
            if had:
                self._bury()
                self._lock.release()

    def doom(self, ids: Iterable[str]) -> None:
        """Drop rows: now, or once the index is no longer being loaded. Erasing never waits for that."""
        self._doomed.update(ids)
        with self.alone(_DOOM_WAIT_S):
            pass

    def _bury(self) -> None:
        while self._doomed:
            gone = set(self._doomed)  # copied first: others may doom more at any moment
            self._doomed.difference_update(gone)
            self.index.discard(*gone)


class Indexes:
    """The indexes of all tenants, those used last kept longest."""

    def __init__(
        self,
        store: Store,
        rows: Rows,
        model: VectorModel | None,
        keep: Keep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._rows = rows
        self._model = model
        self._keep = keep
        self._now = now
        self._lock = threading.Lock()
        self._followed: OrderedDict[TenantId, Followed] = OrderedDict()

    def __contains__(self, tenant: TenantId) -> bool:
        return tenant in self._followed

    def of(self, tenant: TenantId, there: Place) -> Followed:
        """Return the tenant's index, brought up to a place the tenant was read to be at, or beyond.

        Raises StorageUnavailable when it is being made and as many wait for it as may.
        """
        with self._lock:
            followed = self._followed.get(tenant)
            if followed is None:
                followed = self._followed[tenant] = Followed(TenantIndex(self._model), self._now())
            self._followed.move_to_end(tenant)
        followed.used_at = self._now()
        with followed.made():
            grown = self._catch_up(tenant, followed, there)
        if grown:
            self._make_room(besides=tenant)
        return followed

    def discard(self, tenant: TenantId, ids: Sequence[MemoryId]) -> None:
        """Drop rows at once: vectors, postings, everything."""
        with self._lock:
            followed = self._followed.get(tenant)
        if followed is not None:
            followed.doom(ids)

    def tend(self) -> None:
        """Drop indexes nobody asks, and from the others what other workers erased; called every second."""
        now = self._now()
        with self._lock:
            idle = [name for name, one in self._followed.items() if now - one.used_at > self._keep.idle_s]
            for tenant in idle:
                del self._followed[tenant]
            due = [item for item in self._followed.items() if now - item[1].followed_at >= _FOLLOW_EVERY_S]
        for tenant, followed in due:
            # One that is being searched or loaded is being followed at this moment.
            with followed.alone(0) as is_free:
                if is_free:
                    self._follow_idle(tenant, followed)

    def _follow_idle(self, tenant: TenantId, followed: Followed) -> None:
        before = followed.place
        there = self._drop_erased(tenant, followed, since=before)
        if there.origin == before.origin:
            followed.place = replace(before, next_seq=max(before.next_seq, there.next_seq))

    @property
    def octets(self) -> int:
        """Return about how much memory all indexes take."""
        with self._lock:
            return sum(one.index.octets for one in self._followed.values())

    def _make_room(self, *, besides: TenantId) -> None:
        """Drop the indexes unused for longest until the rest fit; the one in use stays, whatever its size."""
        with self._lock:
            sizes = {tenant: one.index.octets for tenant, one in self._followed.items()}
            taken = sum(sizes.values())
            for tenant in [name for name in self._followed if name != besides]:
                if taken <= self._keep.octets:
                    return
                taken -= sizes[tenant]
                del self._followed[tenant]

    def _catch_up(self, tenant: TenantId, followed: Followed, there: Place) -> bool:
        """Take in what changed, then drop what was erased; say whether anything came."""
        if _is_behind(there, followed.place):
            # Somebody who read later was here first; or the database was put back underneath.
            with self._store.reading(tenant) as unit:
                there = recall.newest(unit)
            if _is_behind(there, followed.place):
                followed.index, followed.place = TenantIndex(self._model), Place()
        if there == followed.place:
            return False
        grown = False
        for row in self._changed(tenant, followed.place.revision + 1):
            self._take_in(followed.index, tenant, row)
            grown = True
        # Last, so that nothing erased meanwhile stays; a new index asks from where the log stood before it.
        self._drop_erased(tenant, followed, since=followed.place if followed.place.origin else there)
        followed.place = there
        if grown:
            followed.index.prepare()
        return grown

    def _changed(self, tenant: TenantId, revision: int) -> Iterator[IndexedRow]:
        """Yield live rows of this revision and later ones, in order."""
        memory_id = ""
        while True:
            with self._store.reading(tenant) as unit:
                rows = recall.changed_after(unit, revision, memory_id, _ROWS_AT_ONCE)
            yield from rows
            if len(rows) < _ROWS_AT_ONCE:
                return
            revision, memory_id = rows[-1].revision, rows[-1].memory_id

    def _take_in(self, index: TenantIndex, tenant: TenantId, row: IndexedRow) -> None:
        try:
            features = self._rows.open_features(tenant, row)
        except (Punctured, IntegrityFault):
            index.discard(row.memory_id)  # not recallable: SEMANTICS.md §5, integrity_fault
            return
        index.add(row.memory_id, row.subject, features, row.semantic_ref)

    def _drop_erased(self, tenant: TenantId, followed: Followed, *, since: Place) -> Place:
        """Drop what was erased since the tenant stood there; return where it stands now."""
        with self._store.reading(tenant) as unit:
            there = recall.newest(unit)
            gone = recall.erased_since(unit, since)
        followed.index.discard(*gone)
        followed.followed_at = self._now()
        return there


def _is_behind(there: Place, place: Place) -> bool:
    """Say whether a tenant stands at another log or an older state than an index has come to."""
    moved = place.origin not in ("", there.origin)
    return moved or there.revision < place.revision or there.next_seq < place.next_seq
