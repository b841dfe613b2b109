"""One embedder for many threads: queries first, one passage at a time, and it can be told to stop.

An embedder serves one thread at a time and takes up to seconds for a passage, so background work gives way
to whoever waits for a query, and a query that waits too long goes by words alone. RELIABILITY.md §6.
"""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from .recall.embedder import Embedder, EmbedderFault
from .recall.features import Floats

_QUERY_WAIT_S: Final = 5.0


class SharedEmbedder:
    """An embedder behind one door. It is itself an Embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._door = threading.Condition()
        self._is_busy = False
        self._queries_waiting = 0
        self._stopping = threading.Event()

    @property
    def model_id(self) -> str:
        """Which model it is."""
        return self._embedder.model_id

    @property
    def dimensions(self) -> int:
        """How long its vectors are."""
        return self._embedder.dimensions

    @property
    def cosine_low(self) -> float:
        """Unrelated texts are about this similar."""
        return self._embedder.cosine_low

    @property
    def cosine_high(self) -> float:
        """Texts that say the same are about this similar."""
        return self._embedder.cosine_high

    @property
    def semantic_share(self) -> float:
        """How much of a score its similarity makes."""
        return self._embedder.semantic_share

    def self_test(self) -> None:
        """Raise EmbedderFault unless this is the model whose constants these are."""
        with self._inside(lambda: True):
            self._embedder.self_test()

    def query(self, text: str) -> Floats:
        """Return a query's vector; raise EmbedderFault when the embedder is not free in time."""
        with self._door:
            self._queries_waiting += 1
        try:
            with self._inside(lambda: True):
                return self._embedder.query(text)
        finally:
            with self._door:
                self._queries_waiting -= 1
                self._door.notify_all()

    def passages(self, texts: Sequence[str]) -> Floats:
        """Return a vector for each passage, giving way to queries between; raise EmbedderFault on stop."""
        vectors: list[Floats] = []
        for text in texts:
            with self._inside(lambda: not self._queries_waiting, patience=None):
                vectors.append(self._embedder.passages([text]))
        return np.concatenate(vectors) if vectors else np.empty((0, self.dimensions), dtype=np.float32)

    def stop(self) -> None:
        """Make background work end after the passage it is at."""
        self._stopping.set()
        with self._door:
            self._door.notify_all()

    @contextmanager
    def _inside(
        self, may_enter: Callable[[], bool], patience: float | None = _QUERY_WAIT_S
    ) -> Generator[None]:
        with self._door:
            free = self._door.wait_for(
                lambda: self._stopping.is_set() or (not self._is_busy and may_enter()), patience
            )
            if not free or self._stopping.is_set():
                raise EmbedderFault("the embedder is not free")
            self._is_busy = True
        try:
            yield
        finally:
            with self._door:
                self._is_busy = False
                self._door.notify_all()
