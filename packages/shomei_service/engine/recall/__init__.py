"""Recall: from words and vectors to the right memory. RECALL.md.

A library in memory: no SQL, no keys, no web, no threads. What it holds is content, and inside the erasure
boundary: whoever erases a memory discards it here too.
"""

from .embedder import Embedder, build_embedder, vectors_of, words_of
from .errors import EmbedderFault, FeaturesMalformed, IndexFull, RecallError
from .features import RowFeatures, RowVectors
from .index import Hit, TenantIndex
from .lexical import analyse
from .passages import Quote, Span, quote, split_passages
from .queries import QueryVectors
from .scoring import VectorModel

__all__ = [
    "Embedder",
    "EmbedderFault",
    "FeaturesMalformed",
    "Hit",
    "IndexFull",
    "QueryVectors",
    "Quote",
    "RecallError",
    "RowFeatures",
    "RowVectors",
    "Span",
    "TenantIndex",
    "VectorModel",
    "analyse",
    "build_embedder",
    "quote",
    "split_passages",
    "vectors_of",
    "words_of",
]
