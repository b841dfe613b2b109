"""No sequence of adds, late vectors and discards makes the index differ from the formula."""

import math

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shomei_service.engine.recall import RowFeatures, RowVectors, Span, TenantIndex
from shomei_service.engine.recall.features import quantise
from tests.engine.recall.oracle import Oracle, SmallModel

MODEL = SmallModel()
IDS = st.integers(0, 30).map(lambda number: f"lm_{number:02}")
SUBJECTS = st.sampled_from([None, "alice", "Alice", "bob", ""])
TERMS = st.dictionaries(
    st.sampled_from(["tea", "train", "~trai", "tax", "zug", "猫耳", "~猫", "9"]),
    st.integers(1, 300),
    max_size=5,
)
QUERIES = st.lists(st.sampled_from(["tea", "train", "~trai", "zug", "~猫", "unseen"]), max_size=4)
DIRECTIONS = st.lists(st.integers(-3, 3), min_size=8, max_size=8).filter(any)


def unit(direction: list[int]) -> np.ndarray:
    vector = np.array(direction, dtype=np.float32)
    return vector / np.linalg.norm(vector)


@st.composite
def row_vectors(draw: st.DrawFn) -> RowVectors:
    directions = draw(st.lists(DIRECTIONS, min_size=1, max_size=3))
    spans = [Span(10 * number, 10 * number + 9) for number in range(len(directions))]
    name = draw(st.sampled_from([MODEL.model_id] * 4 + ["another"]))
    return quantise(name, np.array([unit(direction) for direction in directions]), spans)


class IndexMachine(RuleBasedStateMachine):
    """The index beside the oracle."""

    model: SmallModel | None = MODEL

    def __init__(self) -> None:
        super().__init__()
        self.index, self.oracle = TenantIndex(self.model), Oracle(self.model)

    @rule(memory_id=IDS, subject=SUBJECTS, terms=TERMS, vectors=st.none() | row_vectors())
    def add(self, memory_id, subject, terms, vectors):
        terms = {term: min(count, 255) for term, count in terms.items()}
        self.index.add(memory_id, subject, RowFeatures(terms, vectors))
        self.oracle.add(memory_id, subject, RowFeatures(terms, vectors))

    @rule(memory_id=IDS, vectors=row_vectors())
    def add_vectors(self, memory_id, vectors):
        taken = self.index.add_vectors(memory_id, vectors)
        self.oracle.add_vectors(memory_id, vectors)
        assert taken == (memory_id in self.oracle.vectors)

    @rule(memory_ids=st.lists(IDS, max_size=6))
    def discard(self, memory_ids):
        self.index.discard(*memory_ids)
        for memory_id in memory_ids:
            self.oracle.discard(memory_id)

    @rule(
        terms=QUERIES,
        query=st.none() | DIRECTIONS.map(unit),
        limit=st.integers(0, 12),
        subject=SUBJECTS,
        allowed=st.none() | st.sets(IDS),
        excluded=st.sets(IDS),
        floor=st.sampled_from([0.0, 0.0, 0.3]),
    )
    def search(self, terms, query, limit, subject, allowed, excluded, floor):
        wanted = {"limit": limit, "subject": subject, "allowed": allowed, "excluded": excluded}
        wanted["floor"] = floor
        found = self.index.search(terms, query, **wanted)
        expected = self.oracle.search(terms, query if self.model else None, **wanted)
        assert [hit.memory_id for hit in found] == [hit.memory_id for hit in expected]
        for mine, theirs in zip(found, expected, strict=True):
            assert math.isclose(mine.score, theirs.score, abs_tol=1e-12)
            assert math.isclose(mine.lexical, theirs.lexical, abs_tol=1e-12)
            assert math.isclose(mine.semantic, theirs.semantic, abs_tol=1e-12)
            assert mine.memory_id not in excluded
        keys = [(-hit.score, hit.memory_id) for hit in found]
        assert [score for score, _ in keys] == sorted(score for score, _ in keys)

    @rule(terms=QUERIES, query=st.none() | DIRECTIONS.map(unit))
    def passages(self, terms, query):
        for hit in self.index.search(terms, query, limit=50):
            vectors = self.oracle.vectors.get(hit.memory_id)
            if query is None or vectors is None:
                assert hit.passage is None
            else:
                cosines = vectors.codes.astype(np.float64) @ query * vectors.scales
                assert hit.passage in vectors.spans
                assert cosines[vectors.spans.index(hit.passage)] >= cosines.max() - 1e-3

    @invariant()
    def holds_the_same(self):
        assert len(self.index) == len(self.oracle.rows)
        assert all(memory_id in self.index for memory_id in self.oracle.rows)


class WordsOnlyMachine(IndexMachine):
    """The same without an embedder."""

    model = None


LAWS = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestIndex = IndexMachine.TestCase
TestIndex.settings = LAWS
TestWordsOnly = WordsOnlyMachine.TestCase
TestWordsOnly.settings = LAWS
