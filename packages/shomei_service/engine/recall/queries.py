"""Query vectors: those asked for lately, kept in memory and nowhere else. RECALL.md §2.

What people search for is personal data, so the cache is bounded and can be cleared, and it knows its queries
only by a hash under a key that dies with it. Each tenant has its own: a quick answer would tell one of them
what another one asked.
"""

import secrets
import threading
from collections import OrderedDict
from hashlib import blake2b

from .features import Floats


class QueryVectors:
    """The vectors of the most recent queries, for any number of threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, Floats] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, tenant: str, text: str) -> Floats | None:
        """Return the vector that is kept for a tenant's query, if any."""
        name = self._name(tenant, text)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def put(self, tenant: str, text: str, vector: Floats) -> None:
        """Keep a vector, in place of the one unused for longest."""
        name = self._name(tenant, text)
        with self._lock:
            self._kept[name] = vector
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget every query."""
        with self._lock:
            self._kept.clear()

    def _name(self, tenant: str, text: str) -> bytes:
        asked = f"{tenant}\0{text}".encode("utf-8", "surrogatepass")
        return blake2b(asked, key=self._key, digest_size=16).digest()
