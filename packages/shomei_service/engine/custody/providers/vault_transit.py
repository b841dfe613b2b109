"""Epoch keys in Vault or OpenBao: a transit key each, ended by trimming its only version away. CUSTODY.md §5.

A key of its own for each epoch, not a version of one shared key: epochs name their key before it exists,
and a version has no name until it was made.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ...errors import CustodyUnavailable, Fault, IntegrityFault
from ..faults import KeyGone
from ..sealing import KEY_BYTES
from .protocol import Description, Destroyed, DestroyMethod, Finality, Handle, KeyCustody, KeyState, named
from .vault_wire import Absent, Data, Declined, Denied, VaultPlace, VaultWire

_PREFIX: Final = "shomei-"  # one policy for transit/keys/shomei-* reaches our keys and no other
_KIND: Final = "aes256-gcm96"
_MARK: Final = b"vault:v1:"  # every wrap is by version 1; a later one exists only on the way out
_NUMBERS: Final = ("latest_version", "min_available_version", "min_decryption_version")


@dataclass(frozen=True, slots=True)
class _Key:
    """What Vault says of one key."""

    latest: int
    min_available: int
    min_decryption: int
    is_hidden: bool
    may_leave: bool

    @property
    def is_trimmed(self) -> bool:
        """Say whether version 1 is gone for good. A raised minimum alone hides it, and can be lowered."""
        return self.min_available > 1


class VaultTransit:
    """Keys that never leave Vault. Any thread may call; every call ends within the time allowed."""

    def __init__(self, place: VaultPlace, token: Callable[[], str]) -> None:
        """Prepare, asking nothing yet; raise StartRefused for what can never work."""
        self._wire: Final = VaultWire(place, token)

    def create(self, name: str) -> Handle:
        """Make a key that can be neither exported nor backed up in the clear; stored before Vault answers."""
        if self._read(name) is not None:
            raise CustodyUnavailable("Vault has a key of that name already")
        self._do(name, "", {"type": _KIND, "exportable": False, "allow_plaintext_backup": False})
        key = self._read(name)
        if key is None or key.latest != 1 or key.may_leave:
            raise CustodyUnavailable("Vault did not make the key it was asked for")
        return Handle(name)

    def wrap(self, handle: Handle, key: bytes, aad: bytes) -> bytes:
        """Return Vault's ciphertext of the key, bound to the associated data."""
        # Asked first: where a policy is too wide, encrypting under a missing key would make a new one.
        if self.state(handle) is KeyState.GONE:
            raise KeyGone("Vault no longer has the epoch key")
        asked = {"plaintext": _b64(key), "associated_data": _b64(aad), "key_version": 1}
        wrapped = _text(self._use("encrypt", handle, asked), "ciphertext").encode()
        if not wrapped.startswith(_MARK):
            raise CustodyUnavailable("Vault did not wrap with the version it was asked for")
        return wrapped

    def unwrap(self, handle: Handle, blob: bytes, aad: bytes) -> bytes:
        """Return what was wrapped."""
        if not blob.startswith(_MARK) or not blob.isascii():
            raise IntegrityFault("the wrapped key is none that Vault wrapped")
        answer = self._use("decrypt", handle, {"ciphertext": blob.decode(), "associated_data": _b64(aad)})
        try:
            key = base64.b64decode(_text(answer, "plaintext"), validate=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise IntegrityFault("Vault did not give back the key that was wrapped")
        return key

    def destroy(self, handle: Handle) -> Destroyed:
        """Rotate, raise the minimums, trim: version 1 is gone. Then drop the empty key, where we may."""
        ended = Destroyed(DestroyMethod.TRANSIT_TRIM, Finality.FINAL)
        key = self._read(handle)
        if key is None:
            return ended
        if not key.is_trimmed:
            if key.latest == 1:
                self._do(handle, "/rotate", {})
            # Together with what allows the deletion below; trimming wants both minimums raised before.
            raised = {"min_decryption_version": 2, "min_encryption_version": 2, "deletion_allowed": True}
            self._do(handle, "/config", raised)
            self._do(handle, "/trim", {"min_available_version": 2})
        # What is left has wrapped nothing. It goes so that dead keys do not pile up, one an epoch.
        with suppress(Absent, Declined, Denied):
            self._wire.ask("DELETE", _path("keys", handle))
        return ended

    def state(self, handle: Handle) -> KeyState:
        """Return whether version 1 can still be used, at once or after somebody lowers a minimum."""
        key = self._read(handle)
        return KeyState.GONE if key is None or key.is_trimmed else KeyState.ACTIVE

    def describe(self) -> Description:
        """Say that keys are held by Vault's transit engine."""
        return Description(KeyCustody.VAULT_TRANSIT, is_development=False)

    def _read(self, handle: str) -> _Key | None:
        """Return what Vault says of a key; None when it says that there is none of this name."""
        try:
            return _key(self._wire.ask("GET", _path("keys", handle)))
        except Absent:
            return None
        except Declined as exc:
            raise CustodyUnavailable("Vault does not tell of its keys; look at SHOMEI_VAULT_MOUNT") from exc
        except Denied as exc:
            raise _denied() from exc

    def _do(self, handle: str, act: str, body: Mapping[str, object]) -> None:
        """Change a key."""
        try:
            self._wire.ask("POST", _path("keys", handle) + act, body)
        except (Absent, Declined) as exc:
            raise CustodyUnavailable("Vault would not change the epoch key; look at its log") from exc
        except Denied as exc:
            raise _denied() from exc

    def _use(self, act: str, handle: Handle, body: Mapping[str, object]) -> Data:
        """Wrap or unwrap with a key."""
        try:
            return self._wire.ask("POST", _path(act, handle), body)
        except (Absent, Declined) as exc:
            raise self._refusal(handle) from exc
        except Denied as exc:
            raise _denied() from exc

    def _refusal(self, handle: Handle) -> Fault:
        """Tell why Vault would not use a key: it is gone, was hidden by hand, or the bytes are others."""
        key = self._read(handle)
        if key is None or key.is_trimmed:
            return KeyGone("Vault no longer has the epoch key")
        if key.is_hidden or key.min_decryption > 1:
            return CustodyUnavailable("the epoch key may not be used: somebody raised its minimum or hid it")
        return IntegrityFault("the wrapped key does not open: altered, moved or under another key")


def _path(act: str, handle: str) -> str:
    return f"{act}/{_PREFIX}{named(handle)}"


def _denied() -> CustodyUnavailable:
    return CustodyUnavailable(
        "Vault refuses the token: it expired, or its policy does not reach this mount's shomei-* keys"
    )


def _key(data: Data) -> _Key:
    """Read a key's description; raise CustodyUnavailable if it is none."""
    numbers = [number for name in _NUMBERS if isinstance(number := data.get(name), int)]
    if len(numbers) != len(_NUMBERS) or data.get("type") != _KIND:
        raise CustodyUnavailable("what Vault says of the epoch key can not be understood")
    return _Key(
        *numbers,
        is_hidden=data.get("soft_deleted", False) is not False,  # OpenBao's; it can be undone
        may_leave=any(data.get(name) is not False for name in ("exportable", "allow_plaintext_backup")),
    )


def _text(data: Data, name: str) -> str:
    found = data.get(name)
    if not isinstance(found, str) or not found.isascii():
        raise CustodyUnavailable("Vault's answer lacks what was asked for")
    return found


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
