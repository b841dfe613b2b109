"""Rows: which memories are in, whose and of which kind they are, and the slot each has. RECALL.md §2.

A slot is a small number other parts know a row by; it is used again once the row is gone.
"""

from array import array
from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FREE: Final = -1
_NOBODY: Final = 0
# Of CPython's objects: an id of 35 characters with its places in list and dictionary; a keyed hash's 76.
_OCTETS_A_ROW: Final = 250
_OCTETS_A_LABEL: Final = 300

Mask = NDArray[np.bool_]


class Labels:
    """One label for each slot, such as its subject; a label that no slot bears is forgotten."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = [""]
        self._members: list[int] = [0]
        self._vacant: list[int] = []
        self._borne = array("i")

    def put(self, slot: int, name: str | None) -> None:
        """Give a label, or none, to a slot that has none; it is at most one beyond the last."""
        if slot == len(self._borne):
            self._borne.append(_FREE)
        number = _NOBODY if name is None else self._number(name)
        self._borne[slot] = number
        self._members[number] += 1

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._vacant.pop() if self._vacant else len(self._names)
            if number == len(self._names):
                self._names.append("")
                self._members.append(0)
            self._names[number] = name
            self._numbers[name] = number
        return number

    def drop(self, slot: int) -> None:
        """Take the label off a slot."""
        number = self._borne[slot]
        self._borne[slot] = _FREE
        self._members[number] -= 1
        if number != _NOBODY and not self._members[number]:
            del self._numbers[self._names[number]]
            self._names[number] = ""
            self._vacant.append(number)

    def borne(self) -> Mask:
        """Return a mask by slot of those that are taken."""
        return np.frombuffer(self._borne, dtype=np.int32) >= 0

    def named(self, name: str) -> Mask:
        """Return a mask by slot of those that bear a label."""
        return np.frombuffer(self._borne, dtype=np.int32) == self._numbers.get(name, _FREE - 1)

    @property
    def octets(self) -> int:
        """Return about how much memory the labels take."""
        return len(self._names) * _OCTETS_A_LABEL + len(self._borne) * 4


class Rows:
    """The slots of one tenant's memories, each with its subject and its kind."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._ids: list[str] = []
        self._free: list[int] = []
        self._subjects = Labels()
        self._kinds = Labels()

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._slots

    def __len__(self) -> int:
        return len(self._slots)

    def slot(self, memory_id: str) -> int | None:
        """Return a memory's slot, or None when it is not in."""
        return self._slots.get(memory_id)

    def memory_id(self, slot: int) -> str:
        """Return the memory that has a slot."""
        return self._ids[slot]

    def add(self, memory_id: str, subject: str | None, kind: str | None) -> int:
        """Give a memory a slot; it must not be in."""
        slot = self._free.pop() if self._free else len(self._ids)
        if slot == len(self._ids):
            self._ids.append("")
        self._slots[memory_id] = slot
        self._ids[slot] = memory_id
        self._subjects.put(slot, subject)
        self._kinds.put(slot, kind)
        return slot

    def discard(self, slot: int) -> None:
        """Free a slot that is taken."""
        self._subjects.drop(slot)
        self._kinds.drop(slot)
        del self._slots[self._ids[slot]]
        self._ids[slot] = ""
        self._free.append(slot)

    def mask(self, slots: Iterable[int]) -> Mask:
        """Return a mask by slot that is true for these."""
        marked = np.zeros(len(self._ids), dtype=np.bool_)
        marked[list(slots)] = True
        return marked

    def barred(self, excluded: Collection[str]) -> Mask | None:
        """Return a mask by slot of the rows that a search must not know of; None when there are none."""
        slots = list(self._known(excluded))
        return self.mask(slots) if slots else None

    def visible(
        self, subject: str | None, kind: str | None, allowed: Collection[str] | None, barred: Mask | None
    ) -> Mask:
        """Return a mask by slot of the rows a search may return."""
        mask = self._subjects.borne() if subject is None else self._subjects.named(subject)
        if kind is not None:
            mask &= self._kinds.named(kind)
        if allowed is not None:
            mask &= self.mask(self._known(allowed))
        if barred is not None:
            mask &= ~barred
        return mask

    def _known(self, memory_ids: Collection[str]) -> Iterable[int]:
        if len(memory_ids) > len(self._slots) and isinstance(memory_ids, set | frozenset):
            return [slot for memory_id, slot in self._slots.items() if memory_id in memory_ids]
        return [self._slots[memory_id] for memory_id in memory_ids if memory_id in self._slots]

    @property
    def octets(self) -> int:
        """Return about how much memory the rows take."""
        return len(self._ids) * _OCTETS_A_ROW + self._subjects.octets + self._kinds.octets
