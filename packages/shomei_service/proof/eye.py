"""Find any of hundreds of byte strings in one pass, by tables of how they may begin."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .spellings import Interleaved, Needle

_HEAD: Final = 4  # bytes by which candidates are told; no spelling is shorter than twice as many
_ZEROS: Final = bytes(2)


@dataclass(frozen=True, slots=True, repr=False)
class _Wanted:
    needle: int
    spelling: str
    whole: bytes
    interleaved: Interleaved | None = None

    @property
    def lead(self) -> int:
        """How many bytes come before those it is told by: two zeros are everywhere on a disk."""
        return next((at for at in range(_HEAD) if self.whole[at : at + 2] != _ZEROS), 0)

    def is_at(self, data: bytes, at: int) -> bool:
        """Say whether it lies at this place."""
        if at < 0 or not data.startswith(self.whole, at):
            return False
        return self.interleaved is None or self.interleaved.is_around(data, at, self.whole)


class Eye:
    """Sees needles in bytes."""

    def __init__(self, needles: Sequence[Needle]) -> None:
        self._heads: dict[bytes, list[tuple[int, _Wanted]]] = {}
        self._first = np.zeros(1 << 16, dtype=np.bool_)
        self._second = np.zeros(1 << 16, dtype=np.bool_)
        for needle in needles:
            for spelling, spelt in needle.spellings.items():
                for whole in spelt:
                    self._want(_Wanted(needle.number, spelling, whole))
            for group in needle.interleaved.groups if needle.interleaved else ():
                self._want(_Wanted(needle.number, "pglz", group, needle.interleaved))
        self._known = np.array([int.from_bytes(head, "little") for head in self._heads], dtype=np.uint32)
        self.reach: Final = 2 * max(needle.longest for needle in needles)

    def _want(self, wanted: _Wanted) -> None:
        head = wanted.whole[wanted.lead : wanted.lead + _HEAD]
        self._heads.setdefault(head, []).append((wanted.lead, wanted))
        self._first[head[0] | head[1] << 8] = True
        self._second[head[2] | head[3] << 8] = True

    def seen(self, data: bytes) -> Iterator[tuple[int, str, int]]:
        """Yield number, spelling and place of whatever is seen, in the order of the bytes."""
        octets = np.frombuffer(data, dtype=np.uint8)
        if len(octets) < _HEAD:
            return
        pairs = octets[1:].astype(np.uint16) << np.uint16(8) | octets[:-1]
        near = np.flatnonzero(self._first[pairs[:-2]] & self._second[pairs[2:]])
        heads = pairs[near].astype(np.uint32) | pairs[near + 2].astype(np.uint32) << np.uint32(16)
        for place in near[np.isin(heads, self._known)]:
            at = int(place)
            for lead, wanted in self._heads[data[at : at + _HEAD]]:
                if wanted.is_at(data, at - lead):
                    yield wanted.needle, wanted.spelling, at - lead
