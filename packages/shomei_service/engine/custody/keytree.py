"""The key tree: a puncturable PRF whose live frontier lies in sealed blobs. CUSTODY.md §3.

Pure: it reads blobs through a function and returns the blobs to write; the caller commits them.
A tree object is one state. A puncture gives a successor and leaves the old object as it was, so
readers on other threads never see a half-made state, and every seed cached for the old frontier
goes with the old object.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NewType

from .blob import FANOUT, LEVELS, SEED_BYTES, TOP, Blob, Draft, Link, grow
from .faults import BlobMissing, Punctured
from .sealing import bind, open_sealed, seal

Address = NewType("Address", int)
BlobName = tuple[bytes, int]  # prefix, and the epoch it was sealed in
BlobReader = Callable[[Sequence[BlobName]], Mapping[BlobName, bytes]]
Entropy = Callable[[int], bytes]

ADDRESS_BITS: Final = 56
ADDRESS_BYTES: Final = ADDRESS_BITS // 8
TENANT_BITS: Final = 16
TENANT_BYTES: Final = TENANT_BITS // 8
ROW_BITS: Final = ADDRESS_BITS - TENANT_BITS

_LABEL: Final = b"shomei/v1/tree"
_BLOCKS_KEPT: Final = 4096  # seeds of 256 rows each: 0.5 MB
_NEAR_LEVELS: Final = 4  # of a block's eight: sixteen rows have the same seed above them
_BLOBS_KEPT: Final = 32768  # packed blobs of about 0.5 KB: 16 MB


def address(tenant: int, row: int) -> Address:
    """Return the address of a tenant's row; raise ValueError when either does not fit its bits."""
    if not (0 <= tenant < 1 << TENANT_BITS and 0 <= row < 1 << ROW_BITS):
        raise ValueError("an address is 16 bits of tenant and 40 bits of row")
    return Address(tenant << ROW_BITS | row)


def path(leaf: Address) -> bytes:
    """Return the seven steps from the root to a leaf."""
    return leaf.to_bytes(ADDRESS_BYTES)


def tenant_path(tenant: int) -> bytes:
    """Return the two steps from the root to everything a tenant has."""
    return tenant.to_bytes(TENANT_BYTES)


@dataclass(frozen=True, slots=True, repr=False)
class DirtyBlobs:
    """What one puncture changed: what to write, what it replaces, and the tree as it then is."""

    root_key: bytes
    sealed: dict[bytes, bytes]
    replaced: list[BlobName]
    cut: list[bytes]
    tree: "KeyTree"


class KeyTree:
    """One state of the tree, open for reading."""

    def __init__(
        self, read: BlobReader, *, domain: str, epoch: int, root: Blob, entropy: Entropy = os.urandom
    ) -> None:
        self.domain: Final = domain
        self.epoch: Final = epoch
        self._read: Final = read
        self._entropy: Final = entropy
        self._root: Final = root
        self._blobs: dict[bytes, Blob] = {}
        self._blocks: dict[int, bytes] = {}
        # The last seed above sixteen rows, and the last blob walked to: what is asked next mostly lies there.
        self._last: tuple[int, bytes] = -1, b""
        self._walked: tuple[bytes, int, Blob] = b"", 0, root

    @classmethod
    def plant(
        cls, read: BlobReader, *, domain: str, seed: bytes, entropy: Entropy = os.urandom
    ) -> DirtyBlobs:
        """Return the first state of a new tree, epoch 0, nothing punctured."""
        blank = cls(read, domain=domain, epoch=-1, root=Draft().finish(), entropy=entropy)
        return blank._successor({b"": Draft({TOP: seed})}, epoch=0, cut=[])

    @classmethod
    def open(
        cls, read: BlobReader, *, domain: str, epoch: int, root_key: bytes, sealed_root: bytes
    ) -> "KeyTree":
        """Return the state whose root blob this is; raise IntegrityFault if it is not."""
        root = Blob.decode(open_sealed(root_key, sealed_root, _aad(domain, b"", epoch)))
        return cls(read, domain=domain, epoch=epoch, root=root)

    def has_same_root(self, other: "KeyTree") -> bool:
        """Say whether both are the same state."""
        return self.epoch == other.epoch and self._root == other._root

    def derive(self, leaf: Address) -> bytes:
        """Return the 32 bytes of a leaf.

        Raises Punctured when it was erased; BlobMissing or IntegrityFault when the way to it can not be read.
        """
        block = leaf >> LEVELS
        seed = self._blocks.get(block)
        if seed is None:
            depth, seed = self._frontier(leaf)
            below = ADDRESS_BITS - depth
            if below < LEVELS:
                return grow(seed, leaf, below)
            seed = grow(seed, block, below - LEVELS)
            if len(self._blocks) >= _BLOCKS_KEPT:
                self._blocks.clear()
            self._blocks[block] = seed
        return self._within(seed, leaf)

    def _within(self, block_seed: bytes, leaf: Address) -> bytes:
        """Return a leaf of a block; rows made together are read together and share most of the way."""
        near = leaf >> _NEAR_LEVELS
        last, seed = self._last
        if last != near:
            seed = grow(block_seed, near, LEVELS - _NEAR_LEVELS)
            self._last = near, seed
        return grow(seed, leaf, _NEAR_LEVELS)

    def puncture(self, leaves: Iterable[Address], *, epoch: int) -> DirtyBlobs:
        """Return the state in which none of these leaves can be derived; a repeat changes nothing."""
        return self.cut([path(leaf) for leaf in leaves], epoch=epoch)

    def puncture_prefix(self, prefix: bytes, *, epoch: int) -> DirtyBlobs:
        """Return the state in which nothing under a prefix of one to seven bytes can be derived."""
        return self.cut([prefix], epoch=epoch)

    def cut(self, targets: Iterable[bytes], *, epoch: int) -> DirtyBlobs:
        """Return the state in which nothing at or under these paths can be derived.

        The root is always sealed anew, so that the old epoch key opens nothing that is still in use.
        """
        drafts = {b"": Draft.of(self._root, self.epoch)}
        cut: list[bytes] = []
        going = {b"": sorted(set(targets))}
        while going:
            below: dict[bytes, list[bytes]] = {}
            for prefix, group in going.items():
                level = len(prefix)
                for target in group:
                    if len(target) > level + 1:
                        below.setdefault(target[: level + 1], []).append(target)
                    elif drafts[prefix].remove(target[level]):
                        cut.append(target)
            going = self._draft_children(drafts, below)
        return self._successor(drafts, epoch=epoch, cut=cut)

    def _draft_children(
        self, drafts: dict[bytes, Draft], below: dict[bytes, list[bytes]]
    ) -> dict[bytes, list[bytes]]:
        """Add a draft for each of these blobs; leave out those that are punctured already."""
        links: dict[bytes, Link] = {}
        alive: dict[bytes, list[bytes]] = {}
        for prefix, group in below.items():
            parent = drafts[prefix[:-1]]
            if (link := parent.links.get(prefix[-1])) is not None:
                links[prefix] = link
            elif (seed := parent.carve(prefix[-1])) is not None:
                drafts[prefix] = Draft({TOP: seed}, changed=True)
            else:
                continue
            alive[prefix] = group
        for prefix, blob in self._open(links).items():
            drafts[prefix] = Draft.of(blob, links[prefix].epoch)
        return alive

    def _successor(self, drafts: dict[bytes, Draft], *, epoch: int, cut: list[bytes]) -> DirtyBlobs:
        """Seal the changed drafts from the lowest up, each under a fresh key that its parent keeps."""
        sealed: dict[bytes, bytes] = {}
        replaced: list[BlobName] = []
        fresh: dict[bytes, Blob | None] = {}
        root_key = b""
        for prefix in sorted(drafts, key=len, reverse=True):
            draft = drafts[prefix]
            if prefix and not draft.changed:
                continue
            if draft.replaces is not None:
                replaced.append((prefix, draft.replaces))
            if prefix and draft.is_empty:
                fresh[prefix] = None
                self._unlink(drafts[prefix[:-1]], prefix[-1])
                continue
            key, blob = self._entropy(SEED_BYTES), draft.finish()
            fresh[prefix] = blob
            sealed[prefix] = seal(key, blob.encode(), _aad(self.domain, prefix, epoch))
            if prefix:
                self._relink(drafts[prefix[:-1]], prefix[-1], Link(key, epoch))
            else:
                root_key = key
        tree = self._with(fresh, epoch=epoch, cut=cut)
        return DirtyBlobs(root_key, sealed, replaced, cut, tree)

    @staticmethod
    def _unlink(parent: Draft, byte: int) -> None:
        parent.links.pop(byte, None)
        parent.changed = True

    @staticmethod
    def _relink(parent: Draft, byte: int, link: Link) -> None:
        parent.links[byte] = link
        parent.changed = True

    def _with(self, fresh: dict[bytes, Blob | None], *, epoch: int, cut: list[bytes]) -> "KeyTree":
        """Return the next state, which keeps what is already open of the untouched blobs."""
        root = fresh.pop(b"")
        assert root is not None, "the root is always sealed"  # noqa: S101
        tree = KeyTree(self._read, domain=self.domain, epoch=epoch, root=root, entropy=self._entropy)
        tree._blobs = self._blobs | {prefix: blob for prefix, blob in fresh.items() if blob is not None}
        for gone in [prefix for prefix, blob in fresh.items() if blob is None]:
            tree._blobs.pop(gone, None)
        for prefix in [prefix for prefix in tree._blobs if prefix.startswith(tuple(cut))] if cut else ():
            del tree._blobs[prefix]
        return tree

    def _frontier(self, leaf: Address) -> tuple[int, bytes]:
        """Return the depth and the seed that a leaf grows from; raise Punctured if there is none."""
        steps = path(leaf)
        level, blob = self._lowest(steps)
        found = blob.covering(FANOUT | steps[level])
        if found is None:
            raise Punctured("this key was erased and can not be derived again")
        node, seed = found
        return level * LEVELS + node.bit_length() - 1, seed

    def _lowest(self, steps: bytes) -> tuple[int, Blob]:
        """Return the lowest blob on the way to a leaf, and its level: the same for leaves side by side."""
        beside, level, blob = self._walked
        if beside != steps[:-1]:
            level, blob = 0, self._root
            while (link := blob.link(steps[level])) is not None:
                level += 1
                prefix = steps[:level]
                blob = self._blobs.get(prefix) or self._open({prefix: link})[prefix]
            self._walked = steps[:-1], level, blob
        return level, blob

    def _open(self, links: Mapping[bytes, Link]) -> dict[bytes, Blob]:
        """Return these blobs, reading in one go those not open yet; raise BlobMissing or IntegrityFault."""
        blobs = {prefix: blob for prefix in links if (blob := self._blobs.get(prefix)) is not None}
        wanted = {(prefix, link.epoch): link.key for prefix, link in links.items() if prefix not in blobs}
        if not wanted:
            return blobs
        found = self._read(list(wanted))
        if len(found) != len(wanted):
            raise BlobMissing("a blob of the key tree is not where its parent says it is")
        for (prefix, epoch), sealed in found.items():
            aad = _aad(self.domain, prefix, epoch)
            blobs[prefix] = Blob.decode(open_sealed(wanted[prefix, epoch], sealed, aad))
        if len(self._blobs) + len(blobs) > _BLOBS_KEPT:
            self._blobs = {}
        self._blobs.update(blobs)
        return blobs


def _aad(domain: str, prefix: bytes, epoch: int) -> bytes:
    return bind(_LABEL, domain.encode(), len(prefix).to_bytes(1), prefix, epoch.to_bytes(8))
