"""Epoch keys in AWS KMS: a key each, scheduled for deletion when its epoch is over. CUSTODY.md §5.

A destroyed key can be had back until its date, and receipts say so. The state of a key is asked for before
each use and judged here, whatever the service would still decrypt.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final

from ...errors import CustodyUnavailable, IntegrityFault
from ..faults import CustodyMismatch, KeyGone
from ..sealing import KEY_BYTES
from .kms_wire import Answer, KmsPlace, KmsWire, NotFound, mapping
from .protocol import Description, Destroyed, DestroyMethod, Finality, Handle, KeyCustody, KeyState, named

_ALIAS: Final = "alias/shomei/"
_MARK: Final = "Shomei epoch key "  # in the description: an alias may be pointed at somebody else's key
_STATES: Final = {
    "Enabled": KeyState.ACTIVE,
    "Disabled": KeyState.ACTIVE,  # whoever disabled it can enable it
    "PendingDeletion": KeyState.PENDING,
    "PendingReplicaDeletion": KeyState.PENDING,
}


@dataclass(frozen=True, slots=True)
class _Key:
    """What KMS says of one key."""

    key_id: str
    state: KeyState
    is_enabled: bool
    final_at: int | None


class AwsKms:
    """Keys that never leave KMS, each under an alias that bears its name. Any thread may call."""

    def __init__(self, place: KmsPlace) -> None:
        """Prepare a client; raise StartRefused for what can never work."""
        self._wire: Final = KmsWire(place)
        self._days: Final = place.deletion_days

    def create(self, name: str) -> Handle:
        """Make a key, then its alias, and see it under that name before this returns."""
        if self._read(name) is not None:
            raise CustodyUnavailable("KMS has a key of that name already")
        tags = [{"TagKey": "shomei", "TagValue": name}]
        made = self._wire.ask("create_key", Description=_MARK + name, Tags=tags)
        key_id = _text(mapping(made.get("KeyMetadata")), "KeyId")
        self._wire.ask("create_alias", AliasName=_ALIAS + name, TargetKeyId=key_id)
        key = self._read(name)
        if key is None or key.key_id != key_id:
            raise CustodyUnavailable("KMS does not show the new key yet; another is made later")
        return Handle(name)

    def wrap(self, handle: Handle, key: bytes, aad: bytes) -> bytes:
        """Return the id of the epoch key, and KMS's ciphertext, bound to the associated data."""
        epoch_key = self._usable(handle)
        answer = self._wire.ask(
            "encrypt", KeyId=epoch_key.key_id, Plaintext=key, EncryptionContext=_context(aad)
        )
        return _mark(epoch_key) + _bytes(answer, "CiphertextBlob")

    def unwrap(self, handle: Handle, blob: bytes, aad: bytes) -> bytes:
        """Return what was wrapped; a key on its way to deletion counts as gone."""
        epoch_key = self._usable(handle)
        mark = _mark(epoch_key)
        sealed = blob[len(mark) :]
        if not blob.startswith(mark) or not sealed:
            raise IntegrityFault("the wrapped key is none that this key of KMS wrapped")
        answer = self._wire.ask(
            "decrypt", KeyId=epoch_key.key_id, CiphertextBlob=sealed, EncryptionContext=_context(aad)
        )
        key = _bytes(answer, "Plaintext")
        if len(key) != KEY_BYTES or not _text(answer, "KeyId").endswith(epoch_key.key_id):
            raise IntegrityFault("KMS did not give back the key that was wrapped")
        return key

    def destroy(self, handle: Handle) -> Destroyed:
        """Schedule the deletion, or find it scheduled; the date is the one KMS holds itself to."""
        key = self._read(handle)
        if key is not None and key.state is KeyState.ACTIVE:
            self._wire.ask("schedule_key_deletion", KeyId=key.key_id, PendingWindowInDays=self._days)
            key = self._read(handle)
        if key is not None and key.final_at is None:
            raise CustodyUnavailable("KMS does not show the scheduled deletion yet")
        # No key of the name: its date has passed, or somebody took its alias. That is no proof, so no date.
        final_at = None if key is None else key.final_at
        return Destroyed(DestroyMethod.KMS_SCHEDULE_DELETION, Finality.SCHEDULED, final_at)

    def state(self, handle: Handle) -> KeyState:
        """Return whether the key is there, on its way to deletion, or deleted."""
        key = self._read(handle)
        return KeyState.GONE if key is None else key.state

    def describe(self) -> Description:
        """Say that keys are held by AWS KMS."""
        return Description(KeyCustody.KMS_AWS, is_development=False)

    def _usable(self, handle: Handle) -> _Key:
        key = self._read(handle)
        if key is None or key.state is not KeyState.ACTIVE:
            raise KeyGone("KMS no longer has the epoch key, or is deleting it")
        if not key.is_enabled:
            raise CustodyUnavailable("the epoch key is disabled; enable it in KMS")
        return key

    def _read(self, handle: str) -> _Key | None:
        """Return what KMS says of a key; None when it says that there is none of this name."""
        try:
            answer = self._wire.ask("describe_key", KeyId=_ALIAS + named(handle))
        except NotFound:
            return None
        return _key(mapping(answer.get("KeyMetadata")), handle)


def _key(data: Answer, handle: str) -> _Key:
    """Read a key's description; raise CustodyMismatch if it is another key's, CustodyUnavailable if none."""
    if data.get("Description") != _MARK + handle:
        raise CustodyMismatch("an alias of ours leads to a key that is not ours; nothing was done to it")
    name = data.get("KeyState")
    state = _STATES.get(name) if isinstance(name, str) else None
    if state is None:
        raise CustodyUnavailable(
            "the epoch key is in a state in which KMS does not say what will become of it"
        )
    date = data.get("DeletionDate")
    final_at = ceil(date.timestamp()) if isinstance(date, datetime) else None
    is_pending = state is KeyState.PENDING
    return _Key(_text(data, "KeyId"), state, name == "Enabled", final_at if is_pending else None)


def _mark(key: _Key) -> bytes:
    return key.key_id.encode() + b":"


def _context(aad: bytes) -> Mapping[str, str]:
    # KMS binds words, and its log shows them; the hash binds as well and says nothing.
    return {"shomei": hashlib.sha256(aad).hexdigest()}


def _text(data: Answer, name: str) -> str:
    found = data.get(name)
    if not isinstance(found, str):
        raise CustodyUnavailable("KMS's answer lacks what was asked for")
    return found


def _bytes(data: Answer, name: str) -> bytes:
    found = data.get(name)
    if not isinstance(found, bytes):
        raise CustodyUnavailable("KMS's answer lacks what was asked for")
    return found
