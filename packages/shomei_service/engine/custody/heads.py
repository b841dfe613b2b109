"""The head of the key tree: opened from the store by the provider, and served. CUSTODY.md §4."""

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from ..errors import CustodyUnavailable, IntegrityFault
from . import leases, roots
from .faults import CustodyMismatch, KeyGone, RecordAltered
from .holders import Holders
from .keytree import BlobName, DirtyBlobs, KeyTree, address
from .ledger import Book, ledger_key, require_kept
from .providers.protocol import Handle, KeyState
from .roots import Head
from .sealing import bind
from .store import CustodyStore
from .values import Seen

_LABEL: Final = b"shomei/v1/epoch"
_OWN_LEAF: Final = address(0, 0)  # tenants are numbered from 1


class Heads:
    """The tree being served, and the ways to a newer one. Never serves an older tree after a newer one."""

    def __init__(self, store: CustodyStore, holders: Holders, installation_id: str) -> None:
        """Serve nothing yet: `adopt` gives the first tree."""
        self.store: Final = store
        self.holders: Final = holders
        self.installation_id: Final = installation_id
        self._tree: KeyTree | None = None
        self._ledger_key: bytes | None = None
        self._swap: Final = threading.Lock()

    @property
    def tree(self) -> KeyTree:
        """The newest tree this process has opened."""
        assert self._tree is not None, "a tree is adopted before anything is served"  # noqa: S101
        return self._tree

    def adopt(self, tree: KeyTree) -> None:
        """Serve this tree unless a newer one is being served."""
        with self._swap:
            if self._tree is None or tree.epoch > self._tree.epoch:
                self._tree = tree

    def inspect(self, seen: Seen) -> None:
        """Prove that the store is ours, whole and new enough, touching nothing; raise CustodyMismatch."""
        failed_at = -1
        while True:
            with self.store.reading() as connection, roots.damage_refused():
                head = roots.read_head(connection)
                self._require_ours(head)
                self._require_newest(connection, head, seen)
                try:
                    tree = self.unseal(head)
                    require_kept(connection, self.ledger_key(tree), self.installation_id, head.epoch)
                except (KeyGone, IntegrityFault) as exc:
                    if head.epoch == failed_at:
                        raise _refusal(exc) from exc
                    failed_at = head.epoch  # another process may have moved the head since it was read
                    continue
            self.store.require_sound()
            return

    def _require_newest(self, connection: Connection, head: Head, seen: Seen) -> None:
        mine = leases.given_out(connection, head.epoch)
        if leases.is_behind(mine, seen):
            raise CustodyMismatch(
                "the custody store is older than the database; put the newest copy back, from a mirror "
                "if there is one"
            )
        for path in self.store.mirrors.paths:
            if path.exists() and leases.is_behind(mine, self.mirrored(path)):
                raise CustodyMismatch(
                    "the custody store is older than its mirror: it was rolled back; stop, and put the "
                    "mirror's copy in its place"
                )

    def mirrored(self, path: Path) -> Seen:
        """Return what a mirror holds; raise CustodyMismatch if it is none of ours, or damaged."""
        try:
            mirror = CustodyStore.open(f"sqlite:///{path}", read_only=True)
            with closing(mirror), mirror.reading() as connection:
                head = roots.read_head(connection)
                seen = leases.given_out(connection, head.epoch)
        except (CustodyMismatch, CustodyUnavailable) as exc:
            raise CustodyMismatch(
                "a mirror of the custody store is damaged or can not be read; look at its disk, remove the "
                "file, and start again"
            ) from exc
        if head.installation_id != self.installation_id:
            raise CustodyMismatch("a mirror belongs to another installation; look at SHOMEI_CUSTODY_MIRRORS")
        return seen

    def require_usable(self) -> None:
        """Raise CustodyUnavailable unless store and provider answer, and the head's key can be used now."""
        failed_at = -1
        while True:
            with self.store.reading() as connection:
                key = roots.read_key(connection)
            provider = self.holders.find(key.key_custody)
            state = KeyState.GONE if provider is None else provider.state(key.name)
            if state is KeyState.ACTIVE:
                return
            if key.epoch == failed_at:
                break
            failed_at = key.epoch  # another process may have moved the head since it was read
        if state is KeyState.PENDING:
            raise CustodyUnavailable("the current epoch key is being deleted: cancel that, or lose all")
        raise CustodyUnavailable("the provider no longer has the current epoch key; do not stop the service")

    def refresh(self) -> bool:
        """Take up the newest head if another process moved it; return whether it had moved."""
        with self.store.reading() as connection:
            epoch = roots.read_epoch(connection)
        if epoch == self.tree.epoch:
            return False
        self.adopt(self.probe())
        return True

    def probe(self) -> KeyTree:
        """Open the newest head, read anew; raise KeyGone or IntegrityFault if it does not open."""
        failed_at = -1
        while True:
            head = roots.probed_head(self.store)
            self.require_newer(head)
            try:
                return self.unseal(head)
            except KeyGone:
                if head.epoch == failed_at:
                    raise
                failed_at = head.epoch  # another process may have moved the head since it was read

    def confirm(self, tree: KeyTree) -> int:
        """P: serve a tree just written once the store gives it back; return the epoch that was opened.

        The tree in memory is kept because its blobs are open already.
        """
        found = self.probe()
        if found.epoch == tree.epoch and not found.has_same_root(tree):
            raise IntegrityFault("the custody store did not keep the head it was given")
        self.adopt(tree if found.epoch == tree.epoch else found)
        return found.epoch

    def plant(self, seed: bytes) -> DirtyBlobs:
        """Return the first state of a new tree."""
        return KeyTree.plant(self.read_blobs, domain=self.installation_id, seed=seed)

    def current(self, head: Head) -> KeyTree:
        """Return the tree of a head that was just read, without the provider when it is the one served."""
        self.require_newer(head)
        return self.tree if head.epoch == self.tree.epoch else self.unseal(head)

    def require_newer(self, head: Head) -> None:
        """Raise CustodyMismatch for a head that is not ours or older than the one served: the fence."""
        self._require_fresh(head.installation_id, head.epoch)

    def _require_fresh(self, installation_id: str, epoch: int) -> None:
        if installation_id != self.installation_id:
            raise CustodyMismatch("this custody store belongs to another installation; nothing was touched")
        if self._tree is not None and epoch < self._tree.epoch:
            raise CustodyMismatch(
                "the custody store went back while in use; stop, and put the newest copy back"
            )

    @contextmanager
    def writing(self) -> Generator[Book]:
        """Yield the records in a transaction that no other writer is in, and commit it."""
        with self.store.writing() as connection:
            installation_id, epoch, ledger = roots.lock_head(connection)
            self._require_fresh(installation_id, epoch)
            with self.book(connection, epoch, ledger) as book:
                yield book

    @contextmanager
    def book(self, connection: Connection, epoch: int, ledger: bytes) -> Generator[Book]:
        """Yield the records of a head that this transaction has locked."""
        key = self.ledger_key(self.tree)
        book = Book(connection, key, self.installation_id, epoch, ledger)
        yield book
        book.close()

    def ledger_key(self, tree: KeyTree) -> bytes:
        """Return the key that seals what the records add up to; an installation has one for life."""
        if self._ledger_key is None:
            self._ledger_key = ledger_key(tree.derive(_OWN_LEAF))
        return self._ledger_key

    def unseal(self, head: Head) -> KeyTree:
        """Return the tree that a head leads to; raise KeyGone or IntegrityFault."""
        aad = self.wrap_aad(head.epoch, head.key_name)
        provider = self.holders.of_head(head.key_custody)
        return KeyTree.open(
            self.read_blobs,
            domain=self.installation_id,
            epoch=head.epoch,
            root_key=provider.unwrap(head.key_name, head.wrapped_root, aad),
            sealed_root=head.sealed_root,
        )

    def read_blobs(self, names: Sequence[BlobName]) -> Mapping[BlobName, bytes]:
        """Return those of these blobs that the store has."""
        with self.store.reading() as connection:
            return roots.read_blobs(connection, names)

    def wrap_aad(self, epoch: int, key: Handle) -> bytes:
        """Return what binds a wrapped root key to this installation, epoch and key."""
        return bind(_LABEL, self.installation_id.encode(), epoch.to_bytes(8), key.encode())

    def _require_ours(self, head: Head) -> None:
        self._require_fresh(head.installation_id, head.epoch)


def _refusal(cause: KeyGone | IntegrityFault) -> CustodyMismatch:
    """Return what a store is refused with that the provider's key does not open, or whose records lie."""
    if isinstance(cause, KeyGone):
        return CustodyMismatch(
            "the provider has no key for this custody store: it was rolled back or the key was lost; "
            "put the newest store, or the key, back"
        )
    if isinstance(cause, RecordAltered):
        return CustodyMismatch(
            "a record of the custody store was altered, removed or added; put the newest copy back"
        )
    return CustodyMismatch("the provider's key does not open this custody store; put the right one back")
