"""What custody is asked for and what it answers. CUSTODY.md §4, §6."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .keytree import Address
from .providers.protocol import DestroyMethod, Finality, KeyCustody


@dataclass(frozen=True, slots=True)
class Puncture:
    """One leaf to destroy, and why."""

    address: Address
    cause: str


@dataclass(frozen=True, slots=True)
class Destruction:
    """How an epoch ended its predecessor's key: the custody part of an erasing receipt. CUSTODY.md §6.

    `key_final_at` is None when the provider can assure no moment at which the key is gone for good.
    """

    epoch_before: int
    epoch_after: int
    at: int
    destroy_method: DestroyMethod
    finality: Finality
    key_final_at: int | None
    destroyed_at: int
    key_custody: KeyCustody


@dataclass(frozen=True, slots=True)
class Rotated:
    """An epoch that began because somebody asked for a new key, and whose the two keys are."""

    epoch: int
    at: int
    old_custody: KeyCustody
    new_custody: KeyCustody


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """What one epoch punctured for one cause: leaves, and tenants as a whole."""

    epoch: int
    at: int
    cause: str
    addresses: tuple[Address, ...]
    tenants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PuncturedAt:
    """When and why one leaf was punctured."""

    epoch: int
    at: int
    cause: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a database has seen custody do. Custody that has done less was rolled back or lost."""

    epoch: int = 0
    journal_seq: int = 0
    rows: Mapping[int, int] = field(default_factory=dict[int, int])  # tenant -> highest row in use


@dataclass(frozen=True, slots=True)
class EpochStatus:
    """One epoch for the operator: how much it punctured, and how its predecessor's key ended."""

    epoch: int
    at: int
    punctured: int
    rotated: bool
    old_custody: KeyCustody
    destroyed: Destruction | None


class MirrorState(StrEnum):
    """What a mirror is worth now."""

    CURRENT = "current"
    BEHIND = "behind"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """A mirror, and what it is worth."""

    where: str
    state: MirrorState


@dataclass(frozen=True, slots=True)
class CustodyStatus:
    """What `custody status` prints: counts and codes."""

    installation_id: str
    epoch: int
    key_custody: KeyCustody
    is_development: bool
    is_file: bool
    blobs: int
    blob_bytes: int
    keys_to_destroy: int
    keys_named: int
    epochs: tuple[EpochStatus, ...]
    mirrors: tuple[MirrorStatus, ...]
