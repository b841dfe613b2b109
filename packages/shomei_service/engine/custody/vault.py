"""Custody: a key tree, its store, its provider, and the order that makes an erasure final. CUSTODY.md §4."""

import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..errors import CustodyUnavailable, IntegrityFault
from ..failpoints import failpoint
from . import journal, records
from .faults import BlobMissing, CustodyMismatch, Exhausted, KeyGone
from .journal import JournalEntry, LogMark
from .keytree import ROW_BITS, TENANT_BITS, Address, BlobName, DirtyBlobs, KeyTree, path, tenant_path
from .providers.protocol import Destroyed, DestroyMethod, Finality, Handle, KeyState, Provider
from .records import Head
from .sealing import KEY_BYTES, bind
from .store import CustodyStore

RESERVED_ROWS: Final = 256  # a tenant's first rows are its tenant keys: CUSTODY.md §3
LEASE_ROWS: Final = 1024
_ATTEMPTS: Final = 8  # against other processes that recover or move the head in between
_WRAP_LABEL: Final = b"shomei/v1/epoch"


@dataclass(frozen=True, slots=True)
class Puncture:
    """One leaf to destroy, and why."""

    address: Address
    cause: str


@dataclass(frozen=True, slots=True)
class Destruction:
    """How an epoch ended its predecessor's key: the custody part of an erasing receipt. CUSTODY.md §6."""

    epoch_before: int
    epoch_after: int
    at: int
    destroy_method: DestroyMethod
    finality: Finality
    key_final_at: int | None
    destroyed_at: int


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """What one epoch punctured for one cause."""

    epoch: int
    at: int
    cause: str
    addresses: tuple[Address, ...]
    tenants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PuncturedAt:
    """When and why one leaf was punctured."""

    epoch: int
    at: int
    cause: str


@dataclass(frozen=True, slots=True)
class CustodyStatus:
    """What `custody status` prints."""

    installation_id: str
    epoch: int
    key_custody: str
    is_development: bool
    blobs: int
    blob_bytes: int
    keys_to_destroy: int


@dataclass(slots=True)
class _Request:
    """One caller waiting for its punctures."""

    causes: dict[bytes, str]
    now: int
    epochs: dict[bytes, int] = field(default_factory=dict[bytes, int])
    outcome: Destruction | None = None
    failure: BaseException | None = None


class Custody:
    """The open custody of one installation. Every method may be called from any thread."""

    def __init__(self, store: CustodyStore, provider: Provider, installation_id: str) -> None:
        self.installation_id: Final = installation_id
        self.provider: Final = provider
        self._store: Final = store
        self._tree: KeyTree
        self._swap: Final = threading.Lock()
        self._writer: Final = threading.Lock()
        self._door: Final = threading.Lock()
        self._waiting: list[_Request] = []
        self._next_key: str | None = None
        self._torn = False

    @property
    def epoch(self) -> int:
        """The epoch of the tree in memory."""
        return self._tree.epoch

    @classmethod
    def create(cls, url: str, provider: Provider, *, installation_id: str, now: int) -> "Custody":
        """Make a custody store with a new tree; raise CustodyMismatch if one is there already."""
        store = CustodyStore.create(url)
        custody = cls(store, provider, installation_id)
        name = _new_name()
        with store.writing() as connection:
            records.add_pending(connection, name)
        key = provider.create(name)
        dirty = KeyTree.plant(
            custody._read_blobs, domain=installation_id, seed=secrets.token_bytes(KEY_BYTES)
        )
        wrapped = provider.wrap(key, dirty.root_key, custody._wrap_aad(0, key))
        with store.writing() as connection:
            records.insert_head(connection, installation_id, key, wrapped, dirty, now)
        custody._adopt(custody._probe(dirty.tree.epoch))
        return custody

    @classmethod
    def open(
        cls, url: str, provider: Provider, *, installation_id: str, database_epoch: int = 0, now: int
    ) -> "Custody":
        """Open an existing store and finish what a crash left.

        Raises CustodyMismatch, with nothing touched, when the store is missing, another installation's,
        older than the database, or when the provider's key does not open it.
        """
        # 1. Look without writing: a refusal must leave every byte as it was.
        store = CustodyStore.open(url, read_only=True)
        try:
            inspection = cls(store, provider, installation_id)
            tree = inspection._inspect(database_epoch)
        finally:
            store.close()
        # 2. Only now may anything be repaired.
        custody = cls(CustodyStore.open(url), provider, installation_id)
        custody._adopt(tree)
        with custody._writer:
            custody._recover(now)
        return custody

    def close(self) -> None:
        """Close the store; the tree in memory goes with the object."""
        self._store.close()

    # Reading

    def derive(self, address: Address) -> bytes:
        """Return a leaf's 32 bytes; raise Punctured when it was erased."""
        try:
            return self._tree.derive(address)
        except BlobMissing:
            if not self.refresh():
                raise
            return self._tree.derive(address)

    def refresh(self) -> bool:
        """Take up the newest head if another process moved it; return whether it had moved."""
        with self._store.reading() as connection:
            epoch = records.read_epoch(connection)
        if epoch == self._tree.epoch:
            return False
        if epoch < self._tree.epoch:
            raise CustodyMismatch(
                "the custody store went back while in use; stop, and put the newest copy back"
            )
        self._adopt(self._probe(epoch))
        return True

    def punctured_at(self, address: Address) -> PuncturedAt | None:
        """Return when and why a leaf, or its whole tenant, was punctured; None while it lives."""
        steps = path(address)
        with self._store.reading() as connection:
            found = records.punctured_epochs(connection, [steps, steps[:2]])
            if not found:
                return None
            epoch, cause = min(found.values())
            return PuncturedAt(epoch, records.read_epochs(connection, [epoch])[epoch].at, cause)

    def epochs_after(self, epoch: int) -> list[EpochEntry]:
        """Return what was punctured in every later epoch, in order, one entry for each epoch and cause."""
        groups: dict[tuple[int, int, str], list[bytes]] = {}
        with self._store.reading() as connection:
            for number, at, cause, steps in records.punctured_after(connection, epoch):
                groups.setdefault((number, at, cause), []).append(steps)
        return [_entry(*key, paths) for key, paths in groups.items()]

    def status(self) -> CustodyStatus:
        """Return counts and codes for the operator; nothing secret."""
        with self._store.reading() as connection:
            blobs, size, waiting = records.count(connection)
        about = self.provider.describe()
        return CustodyStatus(
            self.installation_id, self.epoch, about.key_custody, about.is_development, blobs, size, waiting
        )

    # Leasing

    def lease_tenant(self) -> int:
        """Return a tenant number that was never given out; raise Exhausted."""
        with self._store.writing() as connection:
            tenant = records.lease_tenant(connection, RESERVED_ROWS, 1 << TENANT_BITS)
        if tenant is None:
            raise Exhausted("every tenant number is used")
        return tenant

    def lease_rows(self, tenant: int, count: int = LEASE_ROWS) -> range:
        """Return rows of a tenant that were never given out; durable before this returns."""
        with self._store.writing() as connection:
            first = records.read_high_water(connection, tenant, lock=True)
            if first is None:
                raise CustodyMismatch("custody does not know this tenant; it is older than the database")
            if first + count > 1 << ROW_BITS:
                raise Exhausted("every row of this tenant is used")
            records.raise_high_water(connection, tenant, first + count)
        return range(first, first + count)

    def high_water(self, tenant: int) -> int:
        """Return the first row of a tenant that was never given out."""
        with self._store.reading() as connection:
            first = records.read_high_water(connection, tenant)
        if first is None:
            raise CustodyMismatch("custody does not know this tenant; it is older than the database")
        return first

    # Remembering what a restored database would forget

    def journal_append(
        self,
        *,
        tenant: str,
        kind: str,
        ids: Sequence[str] = (),
        pseudonym: str | None = None,
        codes: Mapping[str, str | int] | None = None,
        at: int,
    ) -> int:
        """Write one content-free governance line, durable before this returns; return its number."""
        with self._store.writing() as connection:
            return journal.append(
                connection, tenant=tenant, kind=kind, ids=ids, pseudonym=pseudonym, codes=codes or {}, at=at
            )

    def journal_after(self, seq: int) -> list[JournalEntry]:
        """Return every later line of the governance journal, in order."""
        with self._store.reading() as connection:
            return journal.after(connection, seq)

    def set_log_mark(self, tenant_id: str, origin: str, seq: int) -> None:
        """Write down how far a tenant's receipt log has come."""
        with self._store.writing() as connection:
            journal.mark(connection, tenant_id, origin, seq)

    def log_mark(self, tenant_id: str) -> LogMark | None:
        """Return how far a tenant's receipt log had come; None if it was never marked."""
        return self.log_marks().get(tenant_id)

    def log_marks(self) -> dict[str, LogMark]:
        """Return every tenant's mark."""
        with self._store.reading() as connection:
            return journal.marks(connection)

    # Destroying

    def puncture(self, items: Sequence[Puncture], *, now: int) -> Destruction:
        """Destroy these leaves for ever, and the epoch key that could bring them back.

        Calls that arrive together share one epoch. A repeat returns what the first call returned.
        Raises CustodyUnavailable when it can not be finished now; a repeat rolls it forward.
        """
        if not items:
            raise ValueError("there is nothing to puncture")
        return self._queue(_Request({path(item.address): item.cause for item in items}, now))

    def puncture_tenant(self, tenant: int, cause: str, *, now: int) -> Destruction:
        """Destroy every leaf a tenant has or could have."""
        return self._queue(_Request({tenant_path(tenant): cause}, now))

    def rotate(self, *, now: int) -> Destruction:
        """Move to a fresh epoch key and destroy the old one, puncturing nothing."""
        return self._queue(_Request({}, now))

    def _queue(self, request: _Request) -> Destruction:
        """Wait for the writer's turn; whoever gets it first serves everyone who waits."""
        with self._door:
            self._waiting.append(request)
        with self._writer:
            if request.outcome is None and request.failure is None:
                with self._door:
                    batch, self._waiting = self._waiting, []
                self._serve(batch)
        if request.outcome is None:
            raise CustodyUnavailable(
                "the erasure could not be finished; it rolls forward"
            ) from request.failure
        return request.outcome

    def _serve(self, batch: list[_Request]) -> None:
        try:
            for request, outcome in zip(batch, self._destroy_all(batch), strict=True):
                request.outcome = outcome
        except BaseException as exc:
            self._torn = True
            for request in batch:
                request.failure = exc
            raise

    def _destroy_all(self, batch: list[_Request]) -> list[Destruction]:
        now = max(request.now for request in batch)
        if self._torn:
            self._recover(now)
        causes: dict[bytes, str] = {}
        for request in batch:
            causes = {**request.causes, **causes}
        epochs = self._known(causes, now)
        fresh = {steps: cause for steps, cause in causes.items() if steps not in epochs}
        if fresh or any(not request.causes for request in batch):
            self._advance(fresh, now)
            epochs = self._known(causes, now)
        return self._outcomes(batch, epochs)

    def _known(self, causes: Mapping[bytes, str], now: int) -> dict[bytes, int]:
        """Return the epochs of what is punctured already, once their old keys are destroyed."""
        with self._store.reading() as connection:
            found = {
                steps: epoch
                for steps, (epoch, _) in records.punctured_epochs(connection, list(causes)).items()
            }
            log = records.read_epochs(connection, found.values())
        if any(record.destroyed is None for record in log.values()):
            self._recover(now)
        return found

    def _outcomes(self, batch: list[_Request], epochs: Mapping[bytes, int]) -> list[Destruction]:
        """Return for each request the newest epoch that punctured something of it."""
        newest = [max((epochs[steps] for steps in request.causes), default=self.epoch) for request in batch]
        with self._store.reading() as connection:
            log = records.read_epochs(connection, newest)
        return [_destruction(log[number]) for number in newest]

    def _advance(self, fresh: Mapping[bytes, str], now: int) -> None:
        """E2, E3, P, E4 and E5, in this order and no other. CUSTODY.md §4."""
        for _ in range(_ATTEMPTS):
            # E2: the name first, then the key; so a crash leaves no key that nobody knows of.
            name, self._next_key = self._next_key or self._record_name(), None
            failpoint("e2.pending")
            key = self.provider.create(name)
            failpoint("e2.created")
            dirty = self._commit(key, fresh, now)
            if dirty is not None:
                break
            # Another process recovered in between and struck the name: it is ours alone to end.
            self.provider.destroy(key)
        else:
            raise CustodyUnavailable("other processes kept moving custody; try again")
        failpoint("e3.after")
        # P: what was written must open before anything is destroyed.
        self._adopt(self._probe(dirty.tree.epoch))
        failpoint("p.readback")
        # E4 and E5.
        self._finish(now)

    def _commit(self, key: Handle, fresh: Mapping[bytes, str], now: int) -> DirtyBlobs | None:
        """E3: the new head in one transaction; None if the key's name was struck by another process."""
        with self._store.writing() as connection:
            head = records.read_head(connection, lock=True)
            if not records.has_pending(connection, key):
                return None
            tree = self._tree if head.epoch == self._tree.epoch else self._unseal(head)
            already = records.punctured_epochs(connection, list(fresh))
            causes = {steps: cause for steps, cause in fresh.items() if steps not in already}
            dirty = tree.cut(causes, epoch=head.epoch + 1)
            wrapped = self.provider.wrap(key, dirty.root_key, self._wrap_aad(dirty.tree.epoch, key))
            records.advance(connection, head, key, wrapped, dirty)
            records.log_epoch(connection, dirty.tree.epoch, now, causes)
            failpoint("e3.before_fsync")
        return dirty

    def _finish(self, now: int) -> None:
        """E4: destroy the keys that no head needs; E5: record it, drop their blobs, name the next key."""
        with self._store.reading() as connection:
            names = records.read_retiring(connection)
        failpoint("e4.before")
        ended = {name: (epoch, self._destroy(name)) for name, epoch in names.items()}
        failpoint("e4.after")
        name = _new_name()
        with self._store.writing() as connection:
            records.finish_epochs(connection, ended, now)
            records.add_pending(connection, name)
        self._next_key = name
        failpoint("e5.after")

    def _destroy(self, name: Handle) -> Destroyed:
        destroyed = self.provider.destroy(name)
        if self.provider.state(name) is KeyState.ACTIVE:
            raise CustodyUnavailable("the provider still lets the old epoch key be used")
        return destroyed

    def _record_name(self) -> str:
        name = _new_name()
        with self._store.writing() as connection:
            records.add_pending(connection, name)
        return name

    # Recovering

    def _recover(self, now: int) -> None:
        """Finish or undo what a crash left, by the five rules of CUSTODY.md §4; needs the writer lock."""
        self._store.settle()
        self._next_key = None
        with self._store.writing() as connection:  # rule 3: nobody else moves the head meanwhile
            head = records.read_head(connection, lock=True)
            self._adopt(self._unseal(head))  # rule 1
            names = records.read_pending(connection)  # rule 2: these names and no others
            for name in names:
                _require_other(name, head)
                self.provider.destroy(name)
            records.strike_pending(connection, names)
            ended: dict[Handle, tuple[int, Destroyed]] = {}
            for name, epoch in records.read_retiring(connection).items():
                _require_other(name, head)
                ended[name] = (epoch, self._destroy(name))
            records.finish_epochs(connection, ended, now)
        self._torn = False

    def _inspect(self, database_epoch: int) -> KeyTree:
        """Return the open tree of a store that is ours and new enough, or raise CustodyMismatch."""
        with self._store.reading() as connection:
            head = records.read_head(connection)
        if head.installation_id != self.installation_id:
            raise CustodyMismatch("this custody store belongs to another installation; nothing was touched")
        if head.epoch < database_epoch:
            raise CustodyMismatch("the custody store is older than the database; put the newest copy back")
        try:
            return self._unseal(head)
        except KeyGone as exc:
            raise CustodyMismatch(
                "the provider does not hold this custody store's key: the store was rolled back, "
                "or the key was lost; put the newest store, or the key, back"
            ) from exc
        except IntegrityFault as exc:
            raise CustodyMismatch(
                "the provider's key does not open this custody store; put the right one back"
            ) from exc

    def _probe(self, epoch: int) -> KeyTree:
        """P: open the newest head, read anew, or raise; an epoch below the given one is a rollback."""
        seen = -1
        while True:
            with self._store.probing() as connection:
                head = records.read_head(connection)
            if head.epoch < epoch:
                raise CustodyMismatch(
                    "the custody store went back while in use; stop, and put the newest copy back"
                )
            try:
                return self._unseal(head)
            except KeyGone:
                if head.epoch == seen:
                    raise
                seen = head.epoch  # another process may have moved the head since it was read

    def _unseal(self, head: Head) -> KeyTree:
        """Return the tree that a head leads to; raise KeyGone or IntegrityFault."""
        if head.installation_id != self.installation_id:
            raise CustodyMismatch("this custody store belongs to another installation; nothing was touched")
        root_key = self.provider.unwrap(
            head.key_name, head.wrapped_root, self._wrap_aad(head.epoch, head.key_name)
        )
        return KeyTree.open(
            self._read_blobs,
            domain=self.installation_id,
            epoch=head.epoch,
            root_key=root_key,
            sealed_root=head.sealed_root,
        )

    def _adopt(self, tree: KeyTree) -> None:
        """Serve from this tree unless a newer one is being served."""
        with self._swap:
            current: KeyTree | None = getattr(self, "_tree", None)
            if current is None or tree.epoch > current.epoch:
                self._tree = tree

    def _read_blobs(self, names: Sequence[BlobName]) -> Mapping[BlobName, bytes]:
        with self._store.reading() as connection:
            return records.read_blobs(connection, names)

    def _wrap_aad(self, epoch: int, key: Handle) -> bytes:
        return bind(_WRAP_LABEL, self.installation_id.encode(), epoch.to_bytes(8), key.encode())


def _require_other(name: Handle, head: Head) -> None:
    """Raise rather than destroy the key that opens the head, whatever a list says."""
    if name == head.key_name:
        raise CustodyMismatch("the custody store lists its own key as one to destroy; it was altered")


def _new_name() -> str:
    return "epoch-" + secrets.token_hex(16)


def _entry(epoch: int, at: int, cause: str, paths: list[bytes]) -> EpochEntry:
    leaves = tuple(Address(int.from_bytes(steps)) for steps in paths if len(steps) > len(tenant_path(0)))
    whole = tuple(int.from_bytes(steps) for steps in paths if len(steps) == len(tenant_path(0)))
    return EpochEntry(epoch, at, cause, leaves, whole)


def _destruction(record: records.Record) -> Destruction:
    if record.destroyed is None or record.destroyed_at is None:
        raise CustodyUnavailable("the old epoch key is not destroyed yet; try again")
    final_at = record.destroyed.final_at
    if final_at is None and record.destroyed.finality is Finality.FINAL:
        final_at = record.destroyed_at
    return Destruction(
        epoch_before=record.epoch - 1,
        epoch_after=record.epoch,
        at=record.at,
        destroy_method=record.destroyed.method,
        finality=record.destroyed.finality,
        key_final_at=final_at,
        destroyed_at=record.destroyed_at,
    )
