"""Coarse lists: they say where to look, never what is there; below a size nobody uses them."""

import sys

import numpy as np
import pytest

from shomei_service.engine.recall import RowFeatures, RowVectors, Span, TenantIndex
from shomei_service.engine.recall import vectors as blocks
from shomei_service.engine.recall.features import quantise
from tests.engine.recall.oracle import SmallModel

MODEL = SmallModel(dimensions=16)
ROWS = 3_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="must: the extra is not installed")
    monkeypatch.setattr(blocks, "COARSE_FROM", 1_000)


def directions() -> np.ndarray:
    """Return rows that point in some thirty directions, more or less."""
    chance = np.random.default_rng(3)
    centres = chance.standard_normal((30, 16))
    found = centres[chance.integers(0, 30, ROWS)] + 0.3 * chance.standard_normal((ROWS, 16))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def vectors(direction: np.ndarray) -> RowVectors:
    return quantise("small", direction[None], [Span(0, 9)])


def index(rows: np.ndarray) -> TenantIndex:
    made = TenantIndex(MODEL)
    for number, direction in enumerate(rows):
        terms = {"tea": 1} if number % 3 == 0 else {"milk": 1}
        made.add(
            f"row{number:05}", "anna" if number % 50 == 0 else "bert", RowFeatures(terms, vectors(direction))
        )
    return made


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return directions()


def both(rows: np.ndarray) -> tuple[TenantIndex, TenantIndex]:
    coarse, exact = index(rows), index(rows)
    coarse.prepare()
    assert coarse._vectors is not None
    assert coarse._vectors._coarse is not None
    return coarse, exact


def test_what_is_found_is_scored_exactly_and_is_almost_all_there_is(rows: np.ndarray) -> None:
    coarse, exact = both(rows)
    missed = 0
    for number in range(0, 400, 7):
        for terms in ([], ["tea"]):
            mine = coarse.search(terms, rows[number], limit=10)
            theirs = {hit.memory_id: hit for hit in exact.search(terms, rows[number], limit=1000)}
            assert len(mine) == 10
            assert all(theirs[hit.memory_id] == hit for hit in mine)
            best = [hit.memory_id for hit in exact.search(terms, rows[number], limit=10)]
            missed += len(set(best) - {hit.memory_id for hit in mine})
    assert missed <= 12  # of 1,160


def test_filters_find_what_is_theirs_however_far_away(rows: np.ndarray) -> None:
    coarse, exact = both(rows)
    for options in ({"subject": "anna"}, {"allowed": [f"row{number:05}" for number in range(5)]}):
        assert coarse.search([], rows[1], limit=100, **options) == exact.search(
            [], rows[1], limit=100, **options
        )
    hidden = [hit.memory_id for hit in exact.search([], rows[1], limit=100)]
    shown = coarse.search([], rows[1], limit=10, excluded=hidden)
    assert len(shown) == 10
    assert not {hit.memory_id for hit in shown} & set(hidden)


def test_what_comes_later_is_found_and_what_goes_is_gone(rows: np.ndarray) -> None:
    coarse, _ = both(rows)
    lonely = np.zeros(16, dtype=np.float32)
    lonely[0] = 1
    coarse.add("lonely", None, RowFeatures({"rare": 1}, vectors(lonely)))
    assert coarse.search([], lonely, limit=1)[0].memory_id == "lonely"
    coarse.discard("lonely")
    assert "lonely" not in [hit.memory_id for hit in coarse.search([], lonely, limit=100)]
    assert len(coarse._vectors._coarse) == ROWS
    coarse.discard(*(f"row{number:05}" for number in range(ROWS)))
    assert coarse.search(["tea"], lonely, limit=10) == []
    assert len(coarse._vectors._coarse) == 0


def test_lists_are_made_again_when_there_is_far_more(rows: np.ndarray) -> None:
    made = index(rows[:1_200])
    made.prepare()
    first = made._vectors._coarse
    made.prepare()
    assert made._vectors._coarse is first
    for turn in range(4):
        for number, direction in enumerate(rows[:1_200]):
            made.add(f"more{turn}-{number}", None, RowFeatures({}, vectors(direction)))
    made.prepare()
    assert made._vectors._coarse is not first
    assert made._vectors._coarse.made_for == 6_000


def test_without_the_extra_everything_is_compared(rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(blocks.coarse, "is_installed", lambda: False)
    made = index(rows[:1_200])
    made.prepare()
    assert made._vectors._coarse is None
    assert len(made.search([], rows[0], limit=10)) == 10
