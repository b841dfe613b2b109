"""One blob of the key tree: the live seeds inside eight levels, and the way below. CUSTODY.md §3.

Nodes are numbered as in a heap: 1 is the blob's top, `2n` and `2n+1` are the children of `n`, and
256..511 are the 256 nodes eight levels down. The encoding is canonical: one set of seeds and links
has exactly one spelling.

    1 byte    format, 1
    64 bytes  which nodes have a seed: bit n of the big-endian number
    32 bytes  which of the 256 lower nodes have a blob of their own: bit b
    32 each   the seeds, by node
    40 each   the links, by byte: the seal key of the lower blob, then the epoch it was sealed in
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from ..errors import IntegrityFault

LEVELS: Final = 8
FANOUT: Final = 1 << LEVELS
SEED_BYTES: Final = 32
TOP: Final = 1

_FORMAT: Final = b"\x01"
_HELD_BYTES: Final = 2 * FANOUT // 8
_LINKED_BYTES: Final = FANOUT // 8
_HEADER_BYTES: Final = 1 + _HELD_BYTES + _LINKED_BYTES
_LINK_BYTES: Final = SEED_BYTES + 8
_PERSON: Final = b"shomei/ggm/v1"


class Link(NamedTuple):
    """What opens a lower blob, and which version of it is the live one."""

    key: bytes
    epoch: int


def halves(seed: bytes) -> tuple[bytes, bytes]:
    """Return the seeds of the left and the right child: G(seed) = BLAKE2b-512. CUSTODY.md §3."""
    both = blake2b(key=seed, person=_PERSON).digest()
    return both[:SEED_BYTES], both[SEED_BYTES:]


def grow(seed: bytes, bits: int, count: int) -> bytes:
    """Return the seed `count` levels below, turning by the low `count` bits, highest first."""
    for shift in range(count - 1, -1, -1):
        both = blake2b(key=seed, person=_PERSON).digest()
        seed = both[SEED_BYTES:] if bits >> shift & 1 else both[:SEED_BYTES]
    return seed


def _set_bits(bitmap: int) -> Iterator[int]:
    while bitmap:
        lowest = bitmap & -bitmap
        yield lowest.bit_length() - 1
        bitmap ^= lowest


@dataclass(frozen=True, slots=True, repr=False)
class Blob:
    """A blob as it is read: packed, because a large tree has many of them in memory."""

    held: int
    linked: int
    seeds: bytes
    links: bytes

    def covering(self, node: int) -> tuple[int, bytes] | None:
        """Return the node at or above this one that has a seed, and the seed; None when it is punctured."""
        while node:
            if self.held >> node & 1:
                at = (self.held & ((1 << node) - 1)).bit_count() * SEED_BYTES
                return node, self.seeds[at : at + SEED_BYTES]
            node >>= 1
        return None

    def link(self, byte: int) -> Link | None:
        """Return the way to the blob under this byte, if there is one."""
        if not self.linked >> byte & 1:
            return None
        at = (self.linked & ((1 << byte) - 1)).bit_count() * _LINK_BYTES
        packed = self.links[at : at + _LINK_BYTES]
        return Link(packed[:SEED_BYTES], int.from_bytes(packed[SEED_BYTES:]))

    def encode(self) -> bytes:
        """Return the canonical bytes."""
        bitmaps = self.held.to_bytes(_HELD_BYTES) + self.linked.to_bytes(_LINKED_BYTES)
        return _FORMAT + bitmaps + self.seeds + self.links

    @classmethod
    def decode(cls, packed: bytes) -> "Blob":
        """Return the blob; raise IntegrityFault unless the bytes are a whole canonical blob."""
        held = int.from_bytes(packed[1 : 1 + _HELD_BYTES])
        linked = int.from_bytes(packed[1 + _HELD_BYTES : _HEADER_BYTES])
        links_at = _HEADER_BYTES + held.bit_count() * SEED_BYTES
        whole = links_at + linked.bit_count() * _LINK_BYTES
        if packed[:1] != _FORMAT or len(packed) != whole or held & 1:
            raise IntegrityFault("a blob of the key tree is not in a format this version writes")
        return cls(held, linked, packed[_HEADER_BYTES:links_at], packed[links_at:])


@dataclass(slots=True, repr=False)
class Draft:
    """A blob being rewritten."""

    seeds: dict[int, bytes] = field(default_factory=dict[int, bytes])
    links: dict[int, Link] = field(default_factory=dict[int, Link])
    replaces: int | None = None
    changed: bool = False

    @classmethod
    def of(cls, blob: Blob, epoch: int) -> "Draft":
        """Return a draft that starts as this blob, sealed in that epoch."""
        seeds = {
            node: blob.seeds[i * SEED_BYTES : (i + 1) * SEED_BYTES]
            for i, node in enumerate(_set_bits(blob.held))
        }
        links = {byte: link for byte in _set_bits(blob.linked) if (link := blob.link(byte)) is not None}
        return cls(seeds, links, replaces=epoch)

    def carve(self, byte: int) -> bytes | None:
        """Take out the seed of a lower node, keeping its siblings' on the path; None when it is punctured."""
        goal = FANOUT | byte
        above = next((up for up in range(LEVELS + 1) if goal >> up in self.seeds), None)
        if above is None:
            return None
        seed = self.seeds.pop(goal >> above)
        for up in range(above - 1, -1, -1):
            left, right = halves(seed)
            node = goal >> up
            seed, self.seeds[node ^ 1] = (right, left) if node & 1 else (left, right)
        self.changed = True
        return seed

    def remove(self, byte: int) -> bool:
        """Forget everything under a lower node; return whether a blob of its own hung there."""
        if self.links.pop(byte, None) is not None:
            self.changed = True
            return True
        self.carve(byte)
        return False

    @property
    def is_empty(self) -> bool:
        """Nothing below can be derived any more."""
        return not self.seeds and not self.links

    def finish(self) -> Blob:
        """Return the blob this draft has become."""
        return Blob(
            held=sum(1 << node for node in self.seeds),
            linked=sum(1 << byte for byte in self.links),
            seeds=b"".join(self.seeds[node] for node in sorted(self.seeds)),
            links=b"".join(key + epoch.to_bytes(8) for _, (key, epoch) in sorted(self.links.items())),
        )
