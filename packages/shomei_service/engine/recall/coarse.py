"""Coarse nearness: which passages of very many are worth comparing exactly. RECALL.md §1; extra `[faiss]`.

An inverted file: passages lie in lists by the direction they point in, and a query looks into the nearest
lists alone. It says where to look, never how near; what it misses can be found by its words.
"""

import math
from importlib import import_module
from importlib.util import find_spec
from typing import Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray

_TRAINED_ON: Final = 40_000
_ROUNDS: Final = 5
_LISTS_A_ROOT: Final = 2  # lists for each unit of the root of the number of passages
_LOOKED_INTO: Final = 24  # one list in so many
_FEWEST_LOOKED_INTO: Final = 16

_Floats = NDArray[np.float32]
_Places = NDArray[np.int64]


class _Lists(Protocol):
    """The part of a faiss index used here."""

    nprobe: int
    ntotal: int

    def train(self, x: _Floats, /) -> None: ...
    def add_with_ids(self, x: _Floats, ids: _Places, /) -> None: ...
    def remove_ids(self, ids: _Places, /) -> int: ...
    def search(self, x: _Floats, k: int, /) -> tuple[_Floats, _Places]: ...


class _Faiss(Protocol):
    """The part of faiss used here."""

    def index_factory(self, dimensions: int, description: str, metric: int, /) -> _Lists: ...
    def omp_set_num_threads(self, number: int, /) -> None: ...


def is_installed() -> bool:
    """Say whether the extra is there."""
    return find_spec("faiss") is not None


class Coarse:
    """Passages by direction, each under its place."""

    def __init__(self, vectors: _Floats, places: _Places) -> None:
        """Learn directions from the passages there are, and take them in."""
        faiss = import_module("faiss")
        cast("_Faiss", faiss).omp_set_num_threads(1)  # its threads would take the cores that embed
        lists = max(1, int(_LISTS_A_ROOT * math.sqrt(len(vectors))))
        description = f"IVF{lists},SQfp16"
        self.made_for: int = len(vectors)
        self._lists = cast("_Faiss", faiss).index_factory(
            vectors.shape[1], description, faiss.METRIC_INNER_PRODUCT
        )
        faiss.extract_index_ivf(self._lists).cp.niter = _ROUNDS
        self._lists.train(vectors[:: max(1, len(vectors) // _TRAINED_ON)])
        self._lists.nprobe = max(_FEWEST_LOOKED_INTO, lists // _LOOKED_INTO)
        self._lists.add_with_ids(vectors, places)

    def __len__(self) -> int:
        return self._lists.ntotal

    def add(self, vectors: _Floats, places: _Places) -> None:
        """Take passages in; their places must be free."""
        self._lists.add_with_ids(vectors, places)

    def discard(self, places: _Places) -> None:
        """Drop the passages at these places."""
        self._lists.remove_ids(places)

    def near(self, query: _Floats, count: int) -> _Places:
        """Return the places of about that many passages, likely the nearest."""
        _, places = self._lists.search(query[None].astype(np.float32), count)
        return places[0][places[0] >= 0]
