"""Rows: which memories are in, whose they are, and the slot each has. RECALL.md §2.

A slot is a small number other parts know a row by; it is used again once the row is gone.
"""

from array import array
from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FREE: Final = -1
_NOBODY: Final = 0
# Of CPython's objects: an id of 35 characters with its places in list and dictionary; a subject's 76.
_OCTETS_A_ROW: Final = 250
_OCTETS_A_SUBJECT: Final = 300

Mask = NDArray[np.bool_]


class Rows:
    """The slots of one tenant's memories, each with its subject."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._ids: list[str] = []
        self._free: list[int] = []
        self._subjects: dict[str, int] = {}
        self._names: list[str] = [""]
        self._members: list[int] = [0]
        self._vacant: list[int] = []
        self._owners = array("i")

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

    def add(self, memory_id: str, subject: str | None) -> int:
        """Give a memory a slot; it must not be in."""
        slot = self._free.pop() if self._free else len(self._ids)
        if slot == len(self._ids):
            self._ids.append("")
            self._owners.append(_FREE)
        self._slots[memory_id] = slot
        self._ids[slot] = memory_id
        owner = _NOBODY if subject is None else self._subject(subject)
        self._owners[slot] = owner
        self._members[owner] += 1
        return slot

    def _subject(self, subject: str) -> int:
        number = self._subjects.get(subject)
        if number is None:
            number = self._vacant.pop() if self._vacant else len(self._names)
            if number == len(self._names):
                self._names.append("")
                self._members.append(0)
            self._names[number] = subject
            self._subjects[subject] = number
        return number

    def discard(self, slot: int) -> None:
        """Free a slot that is taken; a subject without memories is forgotten."""
        owner = self._owners[slot]
        self._owners[slot] = _FREE
        self._members[owner] -= 1
        if owner != _NOBODY and not self._members[owner]:
            del self._subjects[self._names[owner]]
            self._names[owner] = ""
            self._vacant.append(owner)
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

    def visible(self, subject: str | None, allowed: Collection[str] | None, barred: Mask | None) -> Mask:
        """Return a mask by slot of the rows a search may return."""
        owners = np.frombuffer(self._owners, dtype=np.int32)
        mask = owners >= 0 if subject is None else owners == self._subjects.get(subject, _FREE - 1)
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
        return len(self._ids) * _OCTETS_A_ROW + len(self._names) * _OCTETS_A_SUBJECT
