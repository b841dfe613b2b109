"""Vectors: every passage's, in int8, and their similarity to a query. RECALL.md §1.

Rows lie in blocks of fixed size: adding never copies what is there, deleting frees a place, and a search
works through one block at a time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from . import coarse
from .coarse import Coarse
from .features import RowVectors
from .passages import Span
from .scoring import Doubles

_BLOCK_ROWS: Final = 4096
_PIECE_ROWS: Final = 256  # multiplied at once: as floats they stay in the processor's cache
_OCTETS_BESIDE: Final = 20  # a place's scale, slot, span and number
_FREE: Final = -1
# float32 holds every integer up to here.
_EXACT: Final = 1 << 24
_LARGEST_CODE: Final = 128
# Below, comparing all of them takes some twenty milliseconds and finds the nearest for certain.
COARSE_FROM: Final = 200_000
_REMAKE_AT: Final = 4
_NEAR: Final = 1000

Slots = NDArray[np.int32]
Numbers = NDArray[np.int64]


class _Block:
    """A fixed number of places, each for the vector of one passage."""

    def __init__(self, dimensions: int) -> None:
        self.codes = np.zeros((_BLOCK_ROWS, dimensions), dtype=np.int8)
        self.scales = np.zeros(_BLOCK_ROWS, dtype=np.float32)
        self.slots = np.full(_BLOCK_ROWS, _FREE, dtype=np.int32)
        self.spans = np.zeros((_BLOCK_ROWS, 2), dtype=np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Similarities:
    """How similar each visible passage is to a query: whose it is, the cosine, and where it lies."""

    slots: Slots
    cosines: Doubles
    places: Numbers


NOTHING_NEAR: Final = Similarities(np.zeros(0, dtype=np.int32), np.zeros(0), np.zeros(0, dtype=np.int64))


class VectorBlocks:
    """The vectors of one tenant's passages."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._blocks: list[_Block] = []
        self._free: list[int] = []
        self._coarse: Coarse | None = None
        # Norms of integer vectors multiply to less than 2^24, so by Cauchy-Schwarz every partial sum of a
        # product is an exact float32, in whatever order BLAS adds: equal vectors score equal to the last bit.
        self._query_norm = (_EXACT - 1) / (_LARGEST_CODE * math.sqrt(dimensions)) - math.sqrt(dimensions) / 2

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK_ROWS - len(self._free)

    def prepare(self) -> None:
        """Make coarse lists once there are very many passages, and better ones once there are far more."""
        enough = len(self) >= COARSE_FROM and coarse.is_installed()
        if enough and (self._coarse is None or len(self) > _REMAKE_AT * self._coarse.made_for):
            self._coarse = None  # first: both together would take twice the memory
            places = np.concatenate(
                [np.flatnonzero(block.slots >= 0) + n * _BLOCK_ROWS for n, block in enumerate(self._blocks)]
            )
            self._coarse = Coarse(self._unit_vectors(places), places)

    def _unit_vectors(self, places: Numbers) -> NDArray[np.float32]:
        found = np.empty((len(places), self._dimensions), dtype=np.float32)
        for number, block in enumerate(self._blocks):
            here = places // _BLOCK_ROWS == number
            rows = places[here] % _BLOCK_ROWS
            found[here] = block.codes[rows] * block.scales[rows, None]
        return found

    def candidates(self, query: NDArray[np.float32], visible: NDArray[np.bool_]) -> Slots | None:
        """Return the slots worth comparing, about a thousand passages; None when all had better be.

        Where most rows are out of sight, those in sight are few, or might all lie beyond the first thousand.
        """
        if self._coarse is None or 2 * np.count_nonzero(visible) < len(visible):
            return None
        places = (divmod(int(place), _BLOCK_ROWS) for place in self._coarse.near(query, _NEAR))
        return np.array([self._blocks[number].slots[row] for number, row in places], dtype=np.int32)

    def add(self, slot: int, vectors: RowVectors) -> None:
        """Enter the vectors of a row's passages."""
        places: list[int] = []
        for codes, scale, span in zip(vectors.codes, vectors.scales, vectors.spans, strict=True):
            block, row = self._place(places)
            block.codes[row] = codes
            block.scales[row] = scale
            block.spans[row] = span.start, span.end
            block.slots[row] = slot
        if self._coarse is not None:
            taken = np.array(places, dtype=np.int64)
            self._coarse.add(self._unit_vectors(taken), taken)

    def _place(self, places: list[int]) -> tuple[_Block, int]:
        if not self._free:
            first = len(self._blocks) * _BLOCK_ROWS
            self._blocks.append(_Block(self._dimensions))
            self._free.extend(range(first + _BLOCK_ROWS - 1, first - 1, -1))
        places.append(self._free.pop())
        number, row = divmod(places[-1], _BLOCK_ROWS)
        return self._blocks[number], row

    def discard(self, gone: NDArray[np.bool_]) -> None:
        """Overwrite and free the vectors of the slots marked."""
        for number, block in enumerate(self._blocks):
            rows = np.flatnonzero((block.slots >= 0) & gone[block.slots])
            if len(rows):
                if self._coarse is not None:
                    self._coarse.discard(number * _BLOCK_ROWS + rows)
                block.codes[rows] = 0
                block.scales[rows] = 0
                block.spans[rows] = 0
                block.slots[rows] = _FREE
                self._free.extend((number * _BLOCK_ROWS + rows[::-1]).tolist())

    def similarities(self, query: NDArray[np.float32], visible: NDArray[np.bool_]) -> Similarities:
        """Return the cosines of all passages whose slots are visible."""
        length = float(np.linalg.norm(query.astype(np.float64)))
        whole = np.rint(query.astype(np.float64) * (self._query_norm / length if length else 0.0))
        found = list(self._products(whole.astype(np.float32), visible))
        if not found:
            return NOTHING_NEAR
        slots, products, places = map(np.concatenate, zip(*found, strict=True))
        return Similarities(slots, products / self._query_norm, places)

    def _products(
        self, query: NDArray[np.float32], visible: NDArray[np.bool_]
    ) -> Iterator[tuple[Slots, Doubles, Numbers]]:
        scratch = np.empty((_PIECE_ROWS, self._dimensions), dtype=np.float32)
        everything = np.empty(_BLOCK_ROWS, dtype=np.float32)
        for number, block in enumerate(self._blocks):
            rows = np.flatnonzero((block.slots >= 0) & visible[block.slots])
            if not len(rows):
                continue
            if 2 * len(rows) > _BLOCK_ROWS:
                # Most of the block is asked for: multiplying all is quicker than picking.
                for first in range(0, _BLOCK_ROWS, _PIECE_ROWS):
                    np.copyto(scratch, block.codes[first : first + _PIECE_ROWS])
                    np.dot(scratch, query, out=everything[first : first + _PIECE_ROWS])
                products = everything[rows]
            else:
                products = block.codes[rows].astype(np.float32) @ query
            yield (
                block.slots[rows],
                products.astype(np.float64) * block.scales[rows],
                number * _BLOCK_ROWS + rows,
            )

    @property
    def octets(self) -> int:
        """Return how much memory the vectors take."""
        exact = len(self._blocks) * _BLOCK_ROWS * (self._dimensions + _OCTETS_BESIDE)
        return exact + (0 if self._coarse is None else len(self._coarse) * 2 * self._dimensions)

    def span(self, place: int) -> Span:
        """Return the span of the passage at a place."""
        number, row = divmod(place, _BLOCK_ROWS)
        start, end = self._blocks[number].spans[row].tolist()
        return Span(start, end)
