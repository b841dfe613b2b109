"""A tenant's index: from a query to the best visible memories. RECALL.md §2, §4.

In memory only. One thread at a time may use an index. What it is told to discard is gone when the call
returns.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from .errors import IndexFull
from .features import Floats, RowFeatures, RowVectors
from .passages import Span
from .postings import HIGHEST_SLOT, Postings
from .rows import Mask, Rows
from .scoring import NEAREST_IN_TEN, Doubles, VectorModel
from .vectors import NOTHING_NEAR, Numbers, Similarities, VectorBlocks

# Picking and multiplying so many rows takes as long as all of a hundred thousand.
COMPARED_EXACTLY: Final = 50_000
_BLOCK: Final = 64


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found: its score and the score's halves, and the passage whose vector matched."""

    memory_id: str
    score: float
    semantic: float
    lexical: float
    passage: Span | None


class TenantIndex:
    """Words and vectors of one tenant's memories; `model` is None where no embedder is configured."""

    def __init__(self, model: VectorModel | None) -> None:
        self._model = model
        self._rows = Rows()
        self._postings = Postings()
        self._vectors = None if model is None else VectorBlocks(model.dimensions)

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, memory_id: str, subject: str | None, features: RowFeatures, kind: str | None = None
    ) -> None:
        """Enter a memory, in place of what was known of it; raise IndexFull when there is no number left."""
        self.discard(memory_id)
        if len(self._rows) > HIGHEST_SLOT:
            raise IndexFull("the index holds as many rows as it can number")
        slot = self._rows.add(memory_id, subject, kind)
        self._postings.add(slot, features.terms)
        if features.vectors is not None:
            self._enter(slot, features.vectors)

    def add_vectors(self, memory_id: str, vectors: RowVectors) -> bool:
        """Enter vectors made later; False for a memory that is gone and for vectors of another model."""
        slot = self._rows.slot(memory_id)
        if slot is None:
            return False
        if self._vectors is not None:
            self._vectors.discard(self._rows.mask([slot]))
        return self._enter(slot, vectors)

    def _enter(self, slot: int, vectors: RowVectors) -> bool:
        """Take vectors only of the model in use: cosines across models are nonsense."""
        model = self._model
        if self._vectors is None or model is None or vectors.model_id != model.model_id:
            return False
        if vectors.codes.shape[1:] != (model.dimensions,):
            return False
        self._vectors.add(slot, vectors)
        return True

    def discard(self, *memory_ids: str) -> None:
        """Drop memories with their words, vectors and subjects; those not in are passed over."""
        slots = {slot for memory_id in memory_ids if (slot := self._rows.slot(memory_id)) is not None}
        if not slots:
            return
        self._postings.discard(slots)
        if self._vectors is not None:
            self._vectors.discard(self._rows.mask(slots))
        for slot in slots:
            self._rows.discard(slot)

    def weights(self, terms: Iterable[str], excluded: Collection[str] = ()) -> dict[str, float]:
        """Return how much each term of a query tells among all but the excluded, as in search."""
        return self._postings.weights(terms, self._postings.census(self._rows.barred(excluded)))

    @property
    def octets(self) -> int:
        """Return about how much memory the index takes."""
        return (
            self._rows.octets + self._postings.octets + (0 if self._vectors is None else self._vectors.octets)
        )

    def search(
        self,
        terms: Iterable[str],
        query_vector: Floats | None,
        *,
        limit: int,
        subject: str | None = None,
        kind: str | None = None,
        allowed: Collection[str] | None = None,
        excluded: Collection[str] = (),
        floor: float = 0.0,
    ) -> list[Hit]:
        """Return the best visible memories, best first: as many as reach the floor, up to the limit.

        A memory without a shared term and without a vector to compare is not an answer, and is left out.
        What is excluded shows in nothing: the scores are as if it had never been entered.
        """
        barred = self._rows.barred(excluded)
        visible = self._rows.visible(subject, kind, allowed, barred)
        census = self._postings.census(barred)
        lexical = self._postings.scores(self._postings.weights(terms, census), census)
        near = self._near(query_vector, visible, lexical)
        cosine = np.full(len(visible), -np.inf)
        np.maximum.at(cosine, near.slots, near.cosines)
        semantic = self._semantic(cosine)
        share = 0.0 if self._model is None else self._model.semantic_share
        score = share * semantic + (1 - share) * lexical
        found = np.flatnonzero(visible & ((lexical > 0) | (cosine > -np.inf)) & (score >= floor))
        best = self._chosen(found, score, cosine, semantic, limit)
        passages = self._passages(near, best)
        return [
            Hit(
                self._rows.memory_id(slot),
                float(score[slot]),
                float(semantic[slot]),
                float(lexical[slot]),
                passages.get(slot),
            )
            for slot in best
        ]

    def _near(self, query: Floats | None, visible: Mask, lexical: Doubles) -> Similarities:
        if query is None or self._vectors is None:
            return NOTHING_NEAR
        likely = self._vectors.candidates(query, visible)
        if likely is not None:
            # Of very many rows, those that may be near, and those whose words count: RECALL.md §2.
            worded = np.flatnonzero(visible & (lexical > 0))
            worded = np.concatenate(_parted(worded, lexical, COMPARED_EXACTLY))[:COMPARED_EXACTLY]
            visible = visible & (self._rows.mask(likely.tolist()) | self._rows.mask(worded.tolist()))
        return self._vectors.similarities(query, visible)

    def prepare(self) -> None:
        """Get ready for searches, now that many rows have come; takes seconds for hundreds of thousands."""
        if self._vectors is not None:
            self._vectors.prepare()

    def _semantic(self, cosine: Doubles) -> Doubles:
        if self._model is None:
            return np.zeros(len(cosine))
        low, high = self._model.cosine_low, self._model.cosine_high
        return np.clip((cosine - low) / (high - low), 0.0, 1.0)

    def _chosen(
        self, found: Numbers, score: Doubles, cosine: Doubles, semantic: Doubles, limit: int
    ) -> list[int]:
        """Return the best rows by score, with some places kept for the nearest in meaning. RECALL.md §4.

        Words that a question shares with other memories would crowd out the one that answers it in none of
        them; a place that no near row needs goes by score as well.
        """
        places = limit * NEAREST_IN_TEN // 10
        best = self._first(found, score, cosine, limit - places)
        left = found[~self._rows.mask(best)[found]]
        nearest = self._first(left[semantic[left] > 0], cosine, score, places)
        more: list[int] = []
        if len(nearest) < places:
            left = left[~self._rows.mask(nearest)[left]]
            more = self._first(left, score, cosine, places - len(nearest))
        return self._in_order([*best, *nearest, *more], score, cosine)

    def _first(self, found: Numbers, key: Doubles, then: Doubles, limit: int) -> list[int]:
        """Return the first rows by one key, then by the other, then by id."""
        if limit < 1:
            return []
        sure, tied = _parted(found, key, limit)
        closer, equal = _parted(tied, then, limit - len(sure))
        return self._in_order(np.concatenate((sure, closer, equal)).tolist(), key, then)[:limit]

    def _in_order(self, slots: list[int], key: Doubles, then: Doubles) -> list[int]:
        """Order rows the same way everywhere: by key, then the other, then id."""
        return sorted(slots, key=lambda slot: (-key[slot], -then[slot], self._rows.memory_id(slot)))

    def _passages(self, near: Similarities, slots: list[int]) -> dict[int, Span]:
        """Return the passage of each row that is nearest to the query."""
        nearest: dict[int, int] = {}
        for at in np.flatnonzero(self._rows.mask(slots)[near.slots]).tolist():
            slot = int(near.slots[at])
            if slot not in nearest or near.cosines[at] > near.cosines[nearest[slot]]:
                nearest[slot] = at
        if self._vectors is None:
            return {}
        return {slot: self._vectors.span(int(near.places[at])) for slot, at in nearest.items()}


def _parted(found: Numbers, key: Doubles, limit: int) -> tuple[Numbers, Numbers]:
    """Part rows into those among the first `limit` by key and those tied for the last places."""
    if len(found) <= limit:
        return found, found[:0]
    keys = key[found]
    last = _greatest(keys, limit) if limit else np.inf
    return found[keys > last], found[keys == last]


def _greatest(keys: Doubles, limit: int) -> float:
    """Return the value at that place from the top; np.partition is slow where most are equal, as here."""
    blocks = len(keys) // _BLOCK
    if blocks >= limit:
        # So many blocks reach it: so do so many values.
        reached = np.sort(keys[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1))[-limit]
        keys = keys[keys >= reached]
    return float(np.sort(keys)[-limit])
