"""Features: what is known of a memory for finding it, and its stored form. RECALL.md §2.

The stored form is the plaintext of a sealed column: terms with counts, then int8 vectors with their scales.
Features are content (a vector gives its text away), so they live and die with the row's key.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .errors import FeaturesMalformed
from .lexical import HIGHEST_COUNT
from .passages import Span

Codes = NDArray[np.int8]
Floats = NDArray[np.float32]

# Version, bytes of the model's name, passages, dimensions, bytes of terms, number of terms.
_HEAD: Final = struct.Struct("<BBHHII")
_VERSION: Final = 1
_SPAN: Final = struct.Struct("<II")
# Separates terms; no term holds a space.
_BREAK: Final = "\n"
_LARGEST_CODE: Final = 127


@dataclass(frozen=True, slots=True, eq=False)
class RowVectors:
    """One model's int8 vectors for the passages of one row, a scale for each."""

    model_id: str
    codes: Codes
    scales: Floats
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RowFeatures:
    """A row's terms, and its vectors once they are made."""

    terms: Mapping[str, int]
    vectors: RowVectors | None = None

    def to_bytes(self) -> bytes:
        """Return the stored form; raise ValueError for terms no analysis makes."""
        if any(_BREAK in term for term in self.terms):
            raise ValueError("a term holds a line break")
        words = _BREAK.join(self.terms).encode()
        counts = bytes(min(count, HIGHEST_COUNT) for count in self.terms.values())
        vectors = self.vectors
        if vectors is None:
            return _HEAD.pack(_VERSION, 0, 0, 0, len(words), len(counts)) + words + counts
        model = vectors.model_id.encode()
        passages, dimensions = vectors.codes.shape
        return b"".join(
            (
                _HEAD.pack(_VERSION, len(model), passages, dimensions, len(words), len(counts)),
                words,
                counts,
                model,
                *(_SPAN.pack(span.start, span.end) for span in vectors.spans),
                vectors.scales.astype("<f4").tobytes(),
                vectors.codes.tobytes(),
            )
        )

    @staticmethod
    def from_bytes(stored: bytes) -> "RowFeatures":
        """Read the stored form; raise FeaturesMalformed for anything else."""
        try:
            version, model, passages, dimensions, words, counts = _HEAD.unpack_from(stored)
            if version != _VERSION:
                raise FeaturesMalformed("features of an unknown version")
            if len(stored) != _HEAD.size + words + counts + model + passages * (_SPAN.size + 4 + dimensions):
                raise FeaturesMalformed("features of a wrong length")
            end = _HEAD.size + words
            named = stored[_HEAD.size : end].decode().split(_BREAK) if counts else []
            terms = dict(zip(named, stored[end : end + counts], strict=True))
            end += counts
            if not passages:
                return RowFeatures(terms)
            return RowFeatures(terms, _vectors(stored, end, model, passages, dimensions))
        except (struct.error, ValueError) as failure:
            raise FeaturesMalformed("features cannot be read") from failure


def _vectors(stored: bytes, at: int, model: int, passages: int, dimensions: int) -> RowVectors:
    name = stored[at : at + model].decode()
    at += model
    places = struct.unpack_from(f"<{2 * passages}I", stored, at)
    spans = tuple(map(Span, places[::2], places[1::2]))
    at += passages * _SPAN.size
    scales = np.frombuffer(stored, "<f4", passages, at)
    at += passages * 4
    codes = np.frombuffer(stored, np.int8, passages * dimensions, at).reshape(passages, dimensions)
    return RowVectors(name, codes, scales, spans)


def quantise(model_id: str, vectors: Floats, spans: Sequence[Span]) -> RowVectors:
    """Round vectors to int8, each by its own largest component."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    scales = (largest / _LARGEST_CODE).astype(np.float32)
    steps = np.where(scales > 0, scales, 1)[:, None]
    return RowVectors(model_id, np.rint(vectors / steps).astype(np.int8), scales, tuple(spans))
