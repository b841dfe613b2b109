"""The score of RECALL.md §4, worked out one row at a time from the formula and from nothing else."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from shomei_service.engine.recall import Hit, RowFeatures, RowVectors


@dataclass(frozen=True)
class SmallModel:
    """A model small enough to compare by hand."""

    model_id: str = "small"
    dimensions: int = 8
    cosine_low: float = 0.1
    cosine_high: float = 0.8
    semantic_share: float = 0.4


@dataclass
class Oracle:
    """What an index should hold, in plain dictionaries."""

    model: SmallModel | None
    rows: dict[str, tuple[str | None, Mapping[str, int]]] = field(default_factory=dict)
    vectors: dict[str, RowVectors] = field(default_factory=dict)

    def add(self, memory_id: str, subject: str | None, features: RowFeatures) -> None:
        self.discard(memory_id)
        self.rows[memory_id] = subject, dict(features.terms)
        if features.vectors is not None:
            self.add_vectors(memory_id, features.vectors)

    def add_vectors(self, memory_id: str, vectors: RowVectors) -> None:
        self.vectors.pop(memory_id, None)
        if memory_id in self.rows and self.model is not None and vectors.model_id == self.model.model_id:
            self.vectors[memory_id] = vectors

    def discard(self, memory_id: str) -> None:
        self.rows.pop(memory_id, None)
        self.vectors.pop(memory_id, None)

    def lexical(self, memory_id: str, query: Collection[str], excluded: Collection[str] = ()) -> float:
        """BM25 among all rows but those excluded, which leave no trace in it."""
        terms = self.rows[memory_id][1]
        rows = [held for name, (_, held) in self.rows.items() if name not in excluded]
        average = sum(sum(held.values()) for held in rows) / len(rows)
        norm = 0.9 * (1 - 0.4 + 0.4 * sum(terms.values()) / average) if average else 0.0
        reached = weights = 0.0
        for term in sorted(set(query)):
            holders = sum(term in held for held in rows)
            idf = math.log(1 + (len(rows) - holders + 0.5) / (holders + 0.5))
            idf *= 0.5 if term.startswith("~") else 1.0
            weights += idf
            if term in terms:
                reached += idf * 1.9 * terms[term] / (terms[term] + norm)
        return reached / (weights * 1.9) if weights else 0.0

    def cosine(self, memory_id: str, query: np.ndarray | None) -> float | None:
        """The nearest passage's, to a query in whole numbers as small as float32 adds without rounding."""
        vectors = self.vectors.get(memory_id)
        if query is None or vectors is None:
            return None
        dimensions = vectors.codes.shape[1]
        length = (2**24 - 1) / (128 * math.sqrt(dimensions)) - math.sqrt(dimensions) / 2
        exact = query.astype(np.float64)
        whole = np.rint(exact * (length / float(np.linalg.norm(exact)))).astype(np.int64)
        return max(
            float(codes.astype(np.int64) @ whole) * float(scale) / length
            for codes, scale in zip(vectors.codes, vectors.scales, strict=True)
        )

    def search(self, terms, query, *, limit, subject=None, allowed=None, excluded=(), floor=0.0) -> list[Hit]:
        """The best by score; of ten places, three for the nearest in meaning of what is left."""
        found = []
        for memory_id, (owner, _) in self.rows.items():
            if (subject is not None and owner != subject) or memory_id in excluded:
                continue
            if allowed is not None and memory_id not in allowed:
                continue
            lexical, cosine = self.lexical(memory_id, terms, excluded), self.cosine(memory_id, query)
            semantic = 0.0
            if lexical == 0 and cosine is None:
                continue
            if self.model is not None and cosine is not None:
                low, high = self.model.cosine_low, self.model.cosine_high
                semantic = min(max((cosine - low) / (high - low), 0.0), 1.0)
            share = 0.0 if self.model is None else self.model.semantic_share
            score = share * semantic + (1 - share) * lexical
            nearness = -math.inf if cosine is None else cosine
            if score >= floor:
                found.append((-score, -nearness, memory_id, Hit(memory_id, score, semantic, lexical, None)))
        places = limit * 3 // 10
        found.sort(key=lambda one: one[:3])
        chosen, left = found[: limit - places], found[limit - places :]
        nearest = [one for one in left if one[3].semantic > 0]
        chosen += sorted(nearest, key=lambda one: (one[1], one[0], one[2]))[:places]
        chosen += [one for one in left if one not in chosen][: limit - len(chosen)]
        return [hit for *_, hit in sorted(chosen, key=lambda one: one[:3])]
