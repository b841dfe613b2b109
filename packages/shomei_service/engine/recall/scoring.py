"""The score: how much a memory and a query have in common, from 0 to 1. RECALL.md §4.

It is absolute: it needs no other result to compare with, so results of different queries compare too.
"""

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

# BM25: how fast a repeated word stops counting, and how much a long text is discounted.
K1: Final = 0.9
B: Final = 0.4

# Of ten places, how many go to the nearest in meaning whatever their words: docs/decisions/0010.
NEAREST_IN_TEN: Final = 3

Doubles = NDArray[np.float64]


class VectorModel(Protocol):
    """What scores need to know of an embedder, without loading it."""

    @property
    def model_id(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def cosine_low(self) -> float:
        """Unrelated texts are about this similar."""
        ...

    @property
    def cosine_high(self) -> float:
        """A question and the text that answers it best are about this similar."""
        ...

    @property
    def semantic_share(self) -> float:
        """How much of the score the model's word is worth; the rest is the words'."""
        ...
