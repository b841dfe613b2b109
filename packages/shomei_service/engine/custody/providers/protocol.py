"""The port every provider of epoch keys fits. CUSTODY.md §5."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType, Protocol

from ..faults import CustodyMismatch

Handle = NewType("Handle", str)

_NAME: Final = re.compile(r"[a-z0-9-]{1,64}")


class KeyCustody(StrEnum):
    """Who holds the epoch key, as receipts say it. SEMANTICS.md §10."""

    EPHEMERAL_TEST = "ephemeral_test"
    DEV_LOCAL_FILE = "dev_local_file"
    VAULT_TRANSIT = "vault_transit"
    KMS_AWS = "kms_aws"
    HSM_PKCS11 = "hsm_pkcs11"


class DestroyMethod(StrEnum):
    """How an epoch key ends, as receipts say it. CUSTODY.md §6."""

    FILE_OVERWRITE_UNLINK = "file_overwrite_unlink"
    PKCS11_DESTROY_OBJECT = "pkcs11_destroy_object"
    TRANSIT_TRIM = "transit_trim"
    KMS_SCHEDULE_DELETION = "kms_schedule_deletion"


class Finality(StrEnum):
    """What a destruction is worth: final at once, cancellable until a date, or not to be assured."""

    FINAL = "final"
    SCHEDULED = "scheduled"
    UNASSURED = "unassured"


class KeyState(StrEnum):
    """What has become of an epoch key."""

    ACTIVE = "active"
    PENDING = "pending"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Destroyed:
    """The end of an epoch key; `final_at` is the provider's date for it, None when it is at once."""

    method: DestroyMethod
    finality: Finality
    final_at: int | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """What a provider says of itself."""

    key_custody: KeyCustody
    is_development: bool


class Provider(Protocol):
    """A holder of epoch keys. Every call may raise CustodyUnavailable; none logs or returns a key."""

    def create(self, name: str) -> Handle:
        """Make a new key, durable before this returns; raise CustodyUnavailable if the name is taken."""
        ...

    def wrap(self, handle: Handle, key: bytes, aad: bytes) -> bytes:
        """Return 32 bytes wrapped under the key; raise KeyGone."""
        ...

    def unwrap(self, handle: Handle, blob: bytes, aad: bytes) -> bytes:
        """Return what was wrapped; raise KeyGone, or IntegrityFault when the key or the bytes are others."""
        ...

    def destroy(self, handle: Handle) -> Destroyed:
        """End the key, or find it ended already: a repeat is no error."""
        ...

    def state(self, handle: Handle) -> KeyState:
        """Return what has become of the key."""
        ...

    def describe(self) -> Description:
        """Return the code that receipts carry, and whether it is for development only."""
        ...


def named(handle: str) -> str:
    """Return a key's name as it is; raise CustodyMismatch for what can be none, before anything is asked."""
    if not _NAME.fullmatch(handle):
        raise CustodyMismatch("the custody store names a key that is no key's name; it was altered")
    return handle
