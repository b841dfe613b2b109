"""The embedders behind one door: queries first, one passage at a time, and all can be told to stop.

An embedder serves one thread at a time and takes up to seconds for a passage. Where there are two, one is
for queries alone; the other makes passages, and helps out between two of them. RELIABILITY.md §6.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from .recall.embedder import Embedder, EmbedderFault
from .recall.features import Floats

_QUERY_WAIT_S: Final = 2.5  # and as long again for the embedder: then words alone answer


_FRONT: Final = -(1 << 63)  # before any address, a damaged one too


@dataclass(slots=True)
class Waiting:
    """How far a walk along the rows without vectors has come, and which of them will never have any."""

    after: int = _FRONT
    hopeless: set[str] = field(default_factory=set[str])
    met: set[str] = field(default_factory=set[str])  # of those, the ones this walk came by

    def end(self) -> None:
        """Begin again at the front, and forget those that are no longer there."""
        self.after, self.hopeless, self.met = _FRONT, self.met, set()


class SharedEmbedder:
    """One embedder, or one for queries and one for passages, for many threads. It is itself an Embedder."""

    def __init__(self, embedder: Embedder, background: Embedder | None = None) -> None:
        self._front = embedder
        self._back = background or embedder
        self._door = threading.Condition()
        self._busy: list[Embedder] = []
        self._queries = _Queue(self._for_query)
        self._passages = _Queue(self._for_passage)
        self._passage_is_next = False
        self._stopping = threading.Event()
        self.waiting = Waiting()

    @property
    def model_id(self) -> str:
        """Which model it is."""
        return self._front.model_id

    @property
    def dimensions(self) -> int:
        """How long its vectors are."""
        return self._front.dimensions

    @property
    def cosine_low(self) -> float:
        """Unrelated texts are about this similar."""
        return self._front.cosine_low

    @property
    def cosine_high(self) -> float:
        """Texts that say the same are about this similar."""
        return self._front.cosine_high

    @property
    def semantic_share(self) -> float:
        """How much of a score its similarity makes."""
        return self._front.semantic_share

    def self_test(self) -> None:
        """Raise EmbedderFault unless this is the model whose constants these are."""
        with self._inside(self._queries, _QUERY_WAIT_S) as embedder:
            embedder.self_test()

    def query(self, text: str) -> Floats:
        """Return a query's vector; raise EmbedderFault when no embedder is free in time."""
        with self._inside(self._queries, _QUERY_WAIT_S) as embedder:
            return embedder.query(text)

    def passages(self, texts: Sequence[str]) -> Floats:
        """Return a vector for each passage, giving way to queries between; raise EmbedderFault on stop."""
        vectors: list[Floats] = []
        for text in texts:
            with self._inside(self._passages, None) as embedder:
                vectors.append(embedder.passages([text]))
        return np.concatenate(vectors) if vectors else np.empty((0, self.dimensions), dtype=np.float32)

    def stop(self) -> None:
        """Make background work end after the passage it is at."""
        self._stopping.set()
        with self._door:
            self._door.notify_all()

    def _for_query(self) -> Embedder | None:
        if self._front not in self._busy:
            return self._front
        if self._back in self._busy or (self._passages.waiting and self._passage_is_next):
            return None
        # Passages that wait come next: a crowd of queries slows them down and stops them never.
        self._passage_is_next = True
        return self._back

    def _for_passage(self) -> Embedder | None:
        has_its_own = self._back is not self._front
        gives_way = self._queries.waiting and not (has_its_own and self._passage_is_next)
        if gives_way or self._back in self._busy:
            return None
        self._passage_is_next = False
        return self._back

    @contextmanager
    def _inside(self, queue: "_Queue", patience: float | None) -> Generator[Embedder]:
        place = object()
        with self._door:
            queue.line.append(place)
            try:
                embedder = self._door.wait_for(
                    lambda: self._stopping.is_set() or queue.chosen(place), patience
                )
            finally:
                queue.line.remove(place)
                self._door.notify_all()  # whoever is first now was not when it last looked
            if embedder is None or isinstance(embedder, bool):
                raise EmbedderFault("the embedder is not free")
            self._busy.append(embedder)
        try:
            yield embedder
        finally:
            with self._door:
                self._busy.remove(embedder)
                self._door.notify_all()


@dataclass(slots=True)
class _Queue:
    """Who waits for an embedder, first come first served, and which one they may have now."""

    choose: Callable[[], Embedder | None]
    line: deque[object] = field(default_factory=deque[object])

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self.line)

    def chosen(self, place: object) -> Embedder | None:
        """Return the embedder that whoever has this place may have now."""
        return self.choose() if self.line[0] is place else None
