"""Postings: which rows hold a term, and BM25 over them. RECALL.md §1, §4.

A row is known by its slot, a small number that is used again once the row is gone. Everything a discarded row
brought in is dropped: its postings, its length, and terms that no other row holds.
"""

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .lexical import HIGHEST_COUNT, WEAK
from .scoring import K1, B, Doubles

# A posting is one 32-bit number: the slot above, the count in the lowest byte.
_COUNT_BITS: Final = 8
_OCTETS_A_NUMBER: Final = 4
HIGHEST_SLOT: Final = (1 << 32 - _COUNT_BITS) - 1
_WEAK_SHARE: Final = 0.5
# Of CPython's objects: a slot's bytes; a term's name, number and array; a posting there and in its slot.
_OCTETS_A_ROW: Final = 50
_OCTETS_A_TERM: Final = 250
_OCTETS_A_POSTING: Final = 9
# A page pasted as a query has thousands of terms; the rarest say what it is about, and are quick to look up.
_QUERY_TERMS: Final = 200


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """What words are weighed against: the rows and their words, without those that are barred.

    A row that recall must pass over would otherwise show in the scores of all others.
    """

    count: int
    total: int
    barred: NDArray[np.bool_] | None


class Postings:
    """An inverted index that can be added to and deleted from exactly."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._rows: list[array[int]] = []
        self._free: list[int] = []
        # Which terms a slot holds, so that a row can be dropped without its text.
        self._terms: list[bytes] = []
        self._lengths = array("I")
        self._total = 0
        self._count = 0
        self._postings = 0

    def add(self, slot: int, terms: Mapping[str, int]) -> None:
        """Enter a row under its terms; the slot must be free and at most one beyond the last."""
        # A hundred thousand rows come through here when a tenant is loaded: two million turns of this loop.
        known, rows, place = self._numbers.get, self._rows, slot << _COUNT_BITS
        numbers: list[int] = []
        for term, count in terms.items():
            number = known(term)
            if number is None:
                number = self._name(term)
            numbers.append(number)
            rows[number].append(place | (count if count < HIGHEST_COUNT else HIGHEST_COUNT))
        length = sum(terms.values())
        if slot == len(self._terms):
            self._terms.append(b"")
            self._lengths.append(0)
        self._terms[slot] = array("I", numbers).tobytes()
        self._lengths[slot] = length
        self._total += length
        self._count += 1
        self._postings += len(numbers)

    def _name(self, term: str) -> int:
        if self._free:
            number = self._free.pop()
            self._names[number] = term
        else:
            number = len(self._names)
            self._names.append(term)
            self._rows.append(array("I"))
        self._numbers[term] = number
        return number

    def discard(self, slots: Iterable[int]) -> None:
        """Drop rows that are in, each once."""
        gone = np.zeros(len(self._terms), dtype=np.bool_)
        touched: set[int] = set()
        for slot in slots:
            gone[slot] = True
            touched.update(array("I", self._terms[slot]))
            self._total -= self._lengths[slot]
            self._count -= 1
            self._postings -= len(self._terms[slot]) // _OCTETS_A_NUMBER
            self._terms[slot] = b""
            self._lengths[slot] = 0
        for number in touched:
            self._thin(number, gone)

    def _thin(self, number: int, gone: NDArray[np.bool_]) -> None:
        rows = np.frombuffer(self._rows[number], dtype=np.uint32)
        left = rows[~gone[rows >> _COUNT_BITS]]
        self._rows[number] = array("I", left.tobytes())
        if not len(left):
            del self._numbers[self._names[number]]
            self._names[number] = ""
            self._free.append(number)

    def census(self, barred: NDArray[np.bool_] | None = None) -> Census:
        """Count the rows but for those barred."""
        if barred is None:
            return Census(self._count, self._total, None)
        # Lengths of free slots are nothing, and no slot that is barred is free.
        lengths = np.frombuffer(self._lengths, dtype=np.uint32)
        return Census(
            self._count - int(barred.sum()), self._total - int(lengths[barred].sum(dtype=np.int64)), barred
        )

    def weights(self, terms: Iterable[str], census: Census | None = None) -> dict[str, float]:
        """Return what each term tells: its idf, half of that for a weak one; a long query keeps its best."""
        counted = census or self.census()
        weights = {term: self._weight(term, counted) for term in sorted(set(terms))}
        if len(weights) > _QUERY_TERMS:
            telling = sorted(weights, key=lambda term: (-weights[term], term))[:_QUERY_TERMS]
            weights = {term: weights[term] for term in sorted(telling)}
        return weights

    def _weight(self, term: str, census: Census) -> float:
        number = self._numbers.get(term)
        rows = 0 if number is None else self._holders(number, census.barred)
        idf = math.log(1 + (census.count - rows + 0.5) / (rows + 0.5))
        return idf * _WEAK_SHARE if term.startswith(WEAK) else idf

    def _holders(self, number: int, barred: NDArray[np.bool_] | None) -> int:
        rows = self._rows[number]
        if barred is None:
            return len(rows)
        return len(rows) - int(barred[np.frombuffer(rows, dtype=np.uint32) >> _COUNT_BITS].sum())

    def scores(self, weights: Mapping[str, float], census: Census | None = None) -> Doubles:
        """Return BM25 by slot, as a share of the most any row could reach; barred slots' mean nothing."""
        scores = np.zeros(len(self._terms))
        bound = sum(weights.values()) * (K1 + 1)
        if not bound:
            return scores
        counted = census or self.census()
        lengths = np.frombuffer(self._lengths, dtype=np.uint32)
        average = max(counted.total, 1) / max(counted.count, 1)
        for term, weight in weights.items():
            number = self._numbers.get(term)
            if number is not None:
                rows = np.frombuffer(self._rows[number], dtype=np.uint32)
                slots, counts = rows >> _COUNT_BITS, rows & HIGHEST_COUNT
                norm = K1 * (1 - B + B * lengths[slots] / average)
                scores[slots] += weight * (K1 + 1) * counts / (counts + norm)
        return scores / bound

    @property
    def octets(self) -> int:
        """Return about how much memory the postings take."""
        return (
            len(self._terms) * _OCTETS_A_ROW
            + len(self._names) * _OCTETS_A_TERM
            + self._postings * _OCTETS_A_POSTING
        )
