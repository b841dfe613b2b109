"""Custody, opened: leaves, slots, punctures, and a memory of what was done. CUSTODY.md."""

import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Final

from . import journal, leases, roots, telling
from .epochs import Asked, Epochs
from .faults import BlobMissing, CustodyMismatch
from .heads import Heads
from .holders import Elsewhere, Holders, code_of, nowhere
from .journal import JournalEntry, LogMark
from .keytree import Address, path, tenant_path
from .providers.protocol import Provider
from .sealing import KEY_BYTES
from .seeds import CustodySeeds
from .store import CustodyStore
from .turnstile import Turnstile
from .values import CustodyStatus, Destruction, EpochEntry, Puncture, PuncturedAt, Rotated, Seen

RESERVED_ROWS: Final = 256  # a tenant's first rows are its tenant keys: CUSTODY.md §3
LEASE_ROWS: Final = 1024
_NOTHING_SEEN: Final = Seen()


@dataclass(frozen=True, slots=True)
class _Request:
    """What one caller wants punctured, and when."""

    causes: Mapping[bytes, str]
    now: int
    marks: Mapping[str, LogMark] = field(default_factory=dict[str, LogMark])


class Custody:
    """The open custody of one installation. Every method may be called from any thread."""

    def __init__(self, heads: Heads) -> None:
        """Use `create` or `open`."""
        self._heads: Final = heads
        self._store: Final = heads.store
        self._epochs: Final = Epochs(heads)
        self.seeds: Final = CustodySeeds(heads)
        self._turnstile: Final = Turnstile[_Request, Destruction](self._destroy_together)

    @classmethod
    def create(
        cls, url: str, provider: Provider, *, installation_id: str, now: int, mirrors: Sequence[Path] = ()
    ) -> "Custody":
        """Make a custody store with a new tree; raise CustodyMismatch if anything is there already."""
        store = CustodyStore.create(url, mirrors=mirrors)
        custody = cls(Heads(store, Holders(provider), installation_id))
        with custody._or_closed():
            custody._epochs.begin(secrets.token_bytes(KEY_BYTES), now)
        return custody

    @classmethod
    def open(
        cls,
        url: str,
        provider: Provider,
        *,
        installation_id: str,
        seen: Seen = _NOTHING_SEEN,
        now: int,
        mirrors: Sequence[Path] = (),
        elsewhere: Elsewhere = nowhere,
    ) -> "Custody":
        """Open an existing store and finish what a crash left.

        Raises CustodyMismatch, with nothing touched, when the store is missing, another installation's,
        older than what the database or a mirror has seen of it, altered, or when the provider's key does
        not open it.
        """
        # 1. Look without writing: a refusal must leave every byte as it was.
        holders = Holders(provider, elsewhere)
        cls.inspect(url, holders, installation_id=installation_id, seen=seen, mirrors=mirrors)
        # 2. Only now may anything be repaired.
        custody = cls(Heads(CustodyStore.open(url, mirrors=mirrors), holders, installation_id))
        with custody._or_closed(), custody._turnstile.alone():
            custody._epochs.recover(now)
            custody.seeds.follow()
        return custody

    @staticmethod
    def inspect(
        url: str, holders: Holders, *, installation_id: str, seen: Seen, mirrors: Sequence[Path] = ()
    ) -> None:
        """Prove that a store could be opened, without a trace; raise CustodyMismatch as `open` does."""
        with closing(CustodyStore.open(url, read_only=True, mirrors=mirrors)) as looking:
            Heads(looking, holders, installation_id).inspect(seen)

    @contextmanager
    def _or_closed(self) -> Generator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the store; the tree in memory goes with the object."""
        self._store.close()

    @property
    def installation_id(self) -> str:
        """The id that the database must carry too."""
        return self._heads.installation_id

    @property
    def epoch(self) -> int:
        """The epoch of the tree in memory."""
        return self._heads.tree.epoch

    @property
    def provider(self) -> Provider:
        """Who holds the epoch key."""
        return self._heads.holders.current

    @property
    def is_fatal(self) -> bool:
        """A sync of the store failed: nothing is written until it is opened anew."""
        return self._store.is_fatal

    # Reading

    def derive(self, address: Address) -> bytes:
        """Return a leaf's 32 bytes; raise Punctured when it was erased, IntegrityFault if unreadable."""
        while True:
            tree = self._heads.tree
            try:
                return tree.derive(address)
            except BlobMissing:
                self._heads.refresh()
                if self._heads.tree is tree:
                    raise

    def refresh(self) -> bool:
        """Take up the newest head if another process moved it; return whether it had moved."""
        return self._heads.refresh()

    def require_usable(self) -> None:
        """Raise CustodyUnavailable unless an epoch could be ended now. RELIABILITY T-11."""
        self._heads.require_usable()

    def punctured_at(self, address: Address) -> PuncturedAt | None:
        """Return when and why a leaf, or its whole tenant, was first punctured; None while it lives."""
        with self._store.reading() as connection:
            return telling.punctured_at(connection, address)

    def epochs_after(self, epoch: int) -> list[EpochEntry]:
        """Return what was punctured in every later epoch, in order, one entry for each epoch and cause."""
        with self._store.reading() as connection:
            return telling.epochs_after(connection, epoch)

    def rotations_after(self, epoch: int) -> list[Rotated]:
        """Return the later epochs in which somebody asked for a new key, in order."""
        with self._store.reading() as connection:
            return telling.rotations_after(connection, epoch)

    def status(self, epochs: int = 0) -> CustodyStatus:
        """Return what there is to know of the store and its newest epochs; nothing secret."""
        return telling.status(self._heads, epochs)

    # Leasing

    def lease_tenant(self) -> int:
        """Return a tenant number that was never given out, durable before this returns; raise Exhausted."""
        with self._heads.writing() as book:
            return leases.lease_tenant(book, RESERVED_ROWS)

    def lease_rows(self, tenant: int, count: int = LEASE_ROWS) -> range:
        """Return rows of a tenant that were never given out, durable before this returns; raise Exhausted."""
        if count < 1:
            raise ValueError("a lease has at least one row")
        with self._heads.writing() as book:
            first = leases.lease_rows(book, tenant, count)
        return range(first, first + count)

    def high_water(self, tenant: int) -> int:
        """Return the first row of a tenant that was never given out."""
        with self._store.reading() as connection:
            return leases.read_high_water(connection, tenant)

    def given_out(self) -> Seen:
        """Return what this store has done, in the terms in which another one may be behind it."""
        with self._store.reading() as connection:
            return leases.given_out(connection, roots.read_epoch(connection))

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
        """Write one content-free governance line, durable before this returns; return its number.

        Raises CustodyUnavailable, and then the line is not there, or is there without an answer.
        """
        self._epochs.make_room()
        with self._heads.writing() as book:
            return journal.append(
                book, tenant=tenant, kind=kind, ids=ids, pseudonym=pseudonym, codes=codes or {}, at=at
            )

    def journal_after(self, seq: int, kind: str | None = None) -> list[JournalEntry]:
        """Return every later line of the governance journal, or those of one kind, in order."""
        with self._store.reading() as connection:
            return journal.after(connection, seq, kind)

    def newest_line(self) -> int:
        """Return the number of the newest line of the governance journal; 0 while there is none."""
        with self._store.reading() as connection:
            return journal.newest(connection)

    def set_log_mark(self, tenant_id: str, origin: str, seq: int) -> None:
        """Write down how far a tenant's receipt log has come."""
        self._epochs.make_room()
        with self._heads.writing() as book:
            journal.mark(book, tenant_id, origin, seq)

    def log_marks(self) -> dict[str, LogMark]:
        """Return every tenant's mark."""
        with self._store.reading() as connection:
            return journal.marks(connection)

    # Destroying

    def puncture(
        self, items: Sequence[Puncture], *, now: int, marks: Mapping[str, LogMark] | None = None
    ) -> Destruction:
        """Destroy these leaves for ever, and the epoch key that could bring them back.

        How far tenants' logs have come is written down with it. Calls that arrive together share one
        epoch. A repeat returns what the first call returned. Raises CustodyUnavailable when it can not be
        finished now: a repeat rolls it forward.
        """
        if not items:
            raise ValueError("there is nothing to puncture")
        causes = {path(item.address): item.cause for item in items}
        return self._turnstile.enter(_Request(causes, now, marks or {}))

    def prepare(self) -> None:
        """Do ahead of need what the next puncture would wait for."""
        with self._turnstile.alone():
            self._epochs.prepare()

    def puncture_tenant(self, tenant: int, cause: str, *, now: int) -> Destruction:
        """Destroy every leaf a tenant has or could have; otherwise as `puncture`."""
        return self._turnstile.enter(_Request({tenant_path(tenant): cause}, now))

    def rotate(self, *, now: int) -> Destruction:
        """Move to a fresh epoch key and destroy the old one, puncturing nothing; otherwise as `puncture`."""
        with self._turnstile.alone():
            return telling.destruction(self._epochs.rotate(now))

    def move(self, goal: Provider, *, now: int) -> Destruction:
        """Put the tree under a key of another provider and destroy the old one; no row is sealed anew.

        Raises CustodyMismatch when custody is held there already; otherwise as `puncture`, and a later
        opening with the provider that then holds the head finishes what was begun.
        """
        if code_of(goal) is code_of(self.provider):
            raise CustodyMismatch("custody is held by that provider already; nothing was moved")
        with self._turnstile.alone():
            record = self._epochs.rotate(now, goal=goal)
            self.seeds.follow()
            return telling.destruction(record)

    def _destroy_together(self, requests: Sequence[_Request]) -> list[Destruction]:
        causes: dict[bytes, str] = {}
        marks: dict[str, LogMark] = {}
        for request in requests:
            marks |= request.marks
            for steps, cause in request.causes.items():
                causes.setdefault(steps, cause)
        done = self._epochs.puncture(Asked(causes, marks), max(request.now for request in requests))
        # A request that spans several epochs is finished by the newest of them.
        newest = [max((done[steps] for steps in one.causes), key=attrgetter("epoch")) for one in requests]
        if any(record.epoch > self.epoch for record in newest):
            self.refresh()  # another process did it; what is in memory here must go too
        return [telling.destruction(record) for record in newest]
