"""Query vectors: those asked for lately, kept in memory and nowhere else. RECALL.md §2.

What people search for is personal data, so the cache is bounded and can be cleared, and it knows its queries
only by a hash under a key that dies with it.
"""

import secrets
from collections import OrderedDict
from hashlib import blake2b

from .embedder import Embedder
from .features import Floats


class QueryVectors:
    """The vectors of the most recent queries."""

    def __init__(self, embedder: Embedder, capacity: int) -> None:
        self._embedder = embedder
        self._capacity = capacity
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, Floats] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def vector(self, text: str) -> Floats:
        """Return the vector of a query, embedding it if it is not kept; raise EmbedderFault."""
        kept = self.get(text)
        if kept is None:
            kept = self._embedder.query(text)
            self.put(text, kept)
        return kept

    def get(self, text: str) -> Floats | None:
        """Return the vector that is kept for a query, if any."""
        name = self._name(text)
        if name in self._kept:
            self._kept.move_to_end(name)
        return self._kept.get(name)

    def put(self, text: str, vector: Floats) -> None:
        """Keep a vector that was made elsewhere, in place of the one unused for longest."""
        self._kept[self._name(text)] = vector
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget every query."""
        self._kept.clear()

    def _name(self, text: str) -> bytes:
        return blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()
