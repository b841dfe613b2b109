"""Ed25519 signing of canonical bodies. RFC 8032; RECEIPTS.md §1. The signer's key is never custody's."""

import hashlib
import os
from pathlib import Path
from typing import Protocol

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey

from ..errors import SigningFault, StartRefused

_SEED_BYTES = 32


class ReceiptSigner(Protocol):
    """Whoever can sign; one of them at a time."""

    @property
    def signer_id(self) -> str:
        """`shomei-receipt:` and 16 hex, derived from the public key."""
        ...

    @property
    def public_key_hex(self) -> str:
        """The pin: 64 lower-case hex."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature, or raise SigningFault."""
        ...


class LocalFileSigner:
    """A signer whose seed is a 0600 file of 32 bytes. For development; production keeps it in custody."""

    def __init__(self, seed: bytes) -> None:
        self._key = SigningKey(seed)
        public = bytes(self._key.verify_key)
        self._public_key_hex = public.hex()
        self._signer_id = "shomei-receipt:" + hashlib.sha256(public).hexdigest()[:16]

    @classmethod
    def create(cls, path: Path) -> "LocalFileSigner":
        """Make a new seed file. Raise StartRefused if one is there: a signer is never replaced silently."""
        seed = os.urandom(_SEED_BYTES)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise StartRefused("a signer key is already there; init creates, it never replaces") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(seed)
            file.flush()
            os.fsync(file.fileno())
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return cls(seed)

    @classmethod
    def open(cls, path: Path) -> "LocalFileSigner":
        """Read the seed file. Raise StartRefused if it is missing, cut short or open to others."""
        try:
            seed = path.read_bytes()
            shared = path.stat().st_mode & 0o077
        except OSError:
            raise StartRefused(
                "the signer key is missing or cannot be read; restore it, a new one is never made"
            ) from None
        if len(seed) != _SEED_BYTES:
            raise StartRefused("the signer key file is not 32 bytes long; restore it")
        if shared:
            raise StartRefused("the signer key file is open to other users; set its mode to 0600")
        return cls(seed)

    @property
    def signer_id(self) -> str:
        """`shomei-receipt:` and 16 hex of a hash of the public key."""
        return self._signer_id

    @property
    def public_key_hex(self) -> str:
        """The pin: 64 lower-case hex."""
        return self._public_key_hex

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature."""
        try:
            return self._key.sign(message).signature
        except CryptoError as exc:
            raise SigningFault("the signer could not sign") from exc
