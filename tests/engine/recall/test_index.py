"""The index's bounds and odd corners; what it finds is in test_cases.py and test_index_laws.py."""

import time

import numpy as np
import pytest

from shomei_service.engine.recall import IndexFull, RowFeatures, Span, TenantIndex, analyse, words_of
from shomei_service.engine.recall.features import quantise
from tests.engine.recall.oracle import SmallModel

MODEL = SmallModel()


def test_an_empty_index_answers_nothing() -> None:
    for model in (None, MODEL):
        index = TenantIndex(model)
        assert index.search(["tea"], np.ones(8, dtype=np.float32), limit=5) == []
        assert index.search([], None, limit=5, subject="anna", allowed=["x"], excluded=["y"]) == []
        assert len(index) == 0
        assert "x" not in index
        index.discard("x")


def test_a_page_as_a_query_finds_itself_and_takes_little() -> None:
    index = TenantIndex(None)
    page = " ".join(f"word{number} the quick" for number in range(2000))
    index.add("page", None, words_of(page))
    for number in range(500):
        index.add(f"row{number}", None, words_of(f"the quick word{number % 7} and quick things"))
    assert len(index.weights(analyse(page))) == 200
    started = time.process_time()
    assert index.search(analyse(page), None, limit=3)[0].memory_id == "page"
    assert time.process_time() - started < 10


def test_many_subjects_come_and_go_in_linear_time() -> None:
    index, words = TenantIndex(None), RowFeatures({"tea": 1})
    started = time.process_time()
    for number in range(20_000):
        index.add(f"row{number}", f"subject{number}", words)
    index.discard(*(f"row{number}" for number in range(0, 20_000, 2)))
    for number in range(0, 20_000, 2):
        index.add(f"row{number}", f"new{number}", words)
    assert time.process_time() - started < 60
    assert [hit.memory_id for hit in index.search(["tea"], None, limit=5, subject="new4")] == ["row4"]
    assert index.search(["tea"], None, limit=5, subject="subject4") == []
    assert [hit.memory_id for hit in index.search(["tea"], None, limit=5, subject="subject5")] == ["row5"]


def test_blocks_are_filled_emptied_and_filled_again() -> None:
    index = TenantIndex(MODEL)
    vectors = quantise("small", np.eye(8, dtype=np.float32), [Span(at, at + 1) for at in range(8)])
    for turn in range(3):
        for number in range(1100):
            index.add(f"row{number}", None, RowFeatures({f"turn{turn}": 1}, vectors))
        hits = index.search([], np.eye(8, dtype=np.float32)[3], limit=2000)
        assert len(hits) == 1100
        assert {hit.passage for hit in hits} == {Span(3, 4)}
        index.discard(*(f"row{number}" for number in range(turn, 1100)))
        assert len(index.search([], np.eye(8, dtype=np.float32)[3], limit=2000)) == turn
    assert len(index._vectors._blocks) == 3


def test_equal_content_is_ordered_by_id_and_scores_equal() -> None:
    index = TenantIndex(MODEL)
    direction = np.random.default_rng(1).standard_normal((1, 8)).astype(np.float32)
    vectors = quantise("small", direction / np.linalg.norm(direction), [Span(0, 3)])
    for number in np.random.default_rng(2).permutation(9000):
        index.add(f"row{number:04}", None, RowFeatures({"tea": 1}, vectors))
    hits = index.search(["tea"], direction[0], limit=50)
    assert [hit.memory_id for hit in hits] == [f"row{number:04}" for number in range(50)]
    assert len({hit.score for hit in hits}) == 1
    some = index.search(["tea"], direction[0], limit=50, allowed=["row8000", "row0001"])
    assert {hit.score for hit in some} == {hit.score for hit in hits}


def test_vectors_of_another_size_or_model_are_refused() -> None:
    index = TenantIndex(MODEL)
    narrow = quantise("small", np.ones((1, 4), dtype=np.float32), [Span(0, 1)])
    foreign = quantise("large", np.ones((1, 8), dtype=np.float32), [Span(0, 1)])
    for vectors in (narrow, foreign):
        index.add("row", None, RowFeatures({"tea": 1}, vectors))
        assert not index.add_vectors("row", vectors)
        assert index.search(["tea"], np.ones(8, dtype=np.float32), limit=5)[0].semantic == 0
    assert not TenantIndex(None).add_vectors("row", narrow)


def test_rows_are_refused_beyond_the_highest_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shomei_service.engine.recall.index.HIGHEST_SLOT", 1)
    index = TenantIndex(None)
    index.add("a", None, words_of("tea"))
    index.add("b", None, words_of("tea"))
    with pytest.raises(IndexFull):
        index.add("c", None, words_of("tea"))
    index.add("a", None, words_of("milk"))
    assert len(index) == 2


def test_a_kind_of_memory_is_asked_for_alone_and_forgotten_with_its_last() -> None:
    index = TenantIndex(None)
    for number in range(6):
        index.add(f"row{number}", "anna", words_of("tea"), "health" if number % 2 else "work")
    found = index.search(["tea"], None, limit=10, subject="anna", kind="health")
    assert [hit.memory_id for hit in found] == ["row1", "row3", "row5"]
    assert index.search(["tea"], None, limit=10, kind="unheard of") == []
    index.discard("row1", "row3", "row5")
    assert index.search(["tea"], None, limit=10, kind="health") == []
    index.add("new", None, words_of("tea"), "play")
    assert [hit.memory_id for hit in index.search(["tea"], None, limit=10, kind="play")] == ["new"]


def test_some_places_go_to_the_nearest_whatever_their_words() -> None:
    index = TenantIndex(MODEL)
    away, near, *_ = np.eye(8, dtype=np.float32)
    roughly = np.ones((1, 8), dtype=np.float32) - away
    roughly /= np.linalg.norm(roughly)
    for number in range(30):
        vectors = quantise("small", away[None], [Span(0, 1)])
        index.add(f"wordy{number:02}", None, RowFeatures({"tea": 1, "five": 1}, vectors))
    for number in range(4):
        vectors = quantise("small", roughly, [Span(0, 1)])
        index.add(f"near{number}", None, RowFeatures({"other": 1}, vectors))
    hits = [hit.memory_id for hit in index.search(["tea", "five"], near, limit=10)]
    assert sorted(hits) == ["near0", "near1", "near2", *(f"wordy{number:02}" for number in range(7))]
    assert all(hit.startswith("wordy") for hit in hits[:7])
    # Whoever asks for more than a score gets no less of what reaches it.
    score = index.search(["tea", "five"], near, limit=1)[0].score
    assert len(index.search(["tea", "five"], near, limit=10, floor=score)) == 10
