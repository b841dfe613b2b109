"""The head of the key tree: opened from the store by the provider, and served. CUSTODY.md §4."""

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from ..errors import IntegrityFault
from . import leases, records
from .faults import CustodyMismatch, KeyGone
from .keytree import BlobName, DirtyBlobs, KeyTree
from .providers.protocol import Handle, Provider
from .records import Head
from .sealing import bind
from .store import CustodyStore
from .values import Seen

_LABEL: Final = b"shomei/v1/epoch"


class Heads:
    """The tree being served, and the ways to a newer one. Never serves an older tree after a newer one."""

    def __init__(self, store: CustodyStore, provider: Provider, installation_id: str) -> None:
        """Serve nothing yet: `adopt` gives the first tree."""
        self.store: Final = store
        self.provider: Final = provider
        self.installation_id: Final = installation_id
        self._tree: KeyTree | None = None
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

    def inspect(self, seen: Seen) -> KeyTree:
        """Return the open tree of a store that is ours and new enough; raise CustodyMismatch."""
        with self.store.reading() as connection:
            head = records.read_head(connection)
            self._require_ours(head)
            if head.epoch < seen.epoch or leases.is_behind(connection, seen):
                raise CustodyMismatch(
                    "the custody store is older than the database; put the newest copy back"
                )
        try:
            return self.unseal(head)
        except KeyGone as exc:
            raise CustodyMismatch(
                "the provider has no key for this custody store: it was rolled back or the key was lost; "
                "put the newest store, or the key, back"
            ) from exc
        except IntegrityFault as exc:
            raise CustodyMismatch(
                "the provider's key does not open this custody store; put the right one back"
            ) from exc

    def refresh(self) -> bool:
        """Take up the newest head if another process moved it; return whether it had moved."""
        with self.store.reading() as connection:
            epoch = records.read_epoch(connection)
        if epoch == self.tree.epoch:
            return False
        self.adopt(self.probe())
        return True

    def probe(self) -> KeyTree:
        """Open the newest head, read anew; raise KeyGone or IntegrityFault if it does not open."""
        failed_at = -1
        while True:
            with self.store.probing() as connection:
                head = records.read_head(connection)
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
        self._require_ours(head)
        if self._tree is not None and head.epoch < self._tree.epoch:
            raise CustodyMismatch(
                "the custody store went back while in use; stop, and put the newest copy back"
            )

    def unseal(self, head: Head) -> KeyTree:
        """Return the tree that a head leads to; raise KeyGone or IntegrityFault."""
        aad = self.wrap_aad(head.epoch, head.key_name)
        return KeyTree.open(
            self.read_blobs,
            domain=self.installation_id,
            epoch=head.epoch,
            root_key=self.provider.unwrap(head.key_name, head.wrapped_root, aad),
            sealed_root=head.sealed_root,
        )

    def read_blobs(self, names: Sequence[BlobName]) -> Mapping[BlobName, bytes]:
        """Return those of these blobs that the store has."""
        with self.store.reading() as connection:
            return records.read_blobs(connection, names)

    def wrap_aad(self, epoch: int, key: Handle) -> bytes:
        """Return what binds a wrapped root key to this installation, epoch and key."""
        return bind(_LABEL, self.installation_id.encode(), epoch.to_bytes(8), key.encode())

    def _require_ours(self, head: Head) -> None:
        if head.installation_id != self.installation_id:
            raise CustodyMismatch("this custody store belongs to another installation; nothing was touched")
