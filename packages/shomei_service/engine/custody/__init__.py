"""Custody: keys that can be destroyed for ever. CUSTODY.md."""

from .faults import CustodyMismatch, KeyGone, Punctured
from .keytree import Address, address
from .vault import Custody, Destruction, EpochEntry, Puncture, PuncturedAt

__all__ = [
    "Address",
    "Custody",
    "CustodyMismatch",
    "Destruction",
    "EpochEntry",
    "KeyGone",
    "Puncture",
    "Punctured",
    "PuncturedAt",
    "address",
]
