"""Custody: keys that can be destroyed for ever. CUSTODY.md."""

from .faults import CustodyMismatch, KeyGone, Punctured
from .journal import JournalEntry, LogMark
from .keytree import Address, address
from .values import CustodyStatus, Destruction, EpochEntry, Puncture, PuncturedAt, Rotated, Seen
from .vault import Custody

__all__ = [
    "Address",
    "Custody",
    "CustodyMismatch",
    "CustodyStatus",
    "Destruction",
    "EpochEntry",
    "JournalEntry",
    "KeyGone",
    "LogMark",
    "Puncture",
    "Punctured",
    "PuncturedAt",
    "Rotated",
    "Seen",
    "address",
]
