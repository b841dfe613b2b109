"""The two checks on a canonical body: its hash and its ed25519 signature. docs/spec/receipt.md §5."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

# One function of libsodium is needed. nacl.bindings loads all of them, a third of the command's start-up;
# this is the compiled module under it, and a test holds the two to the same verdicts.
if TYPE_CHECKING:
    from typing import Protocol, cast

    class _Ffi(Protocol):
        def new(self, kind: str, size: int = ..., /) -> object: ...

    class _Lib(Protocol):
        def sodium_init(self) -> int: ...
        def crypto_sign_open(
            self, message: object, length: object, signed: bytes, size: int, key: bytes, /
        ) -> int: ...

    ffi, lib = cast("tuple[_Ffi, _Lib]", None)
else:
    from nacl._sodium import ffi, lib

_KEY_BYTES = 32
_SIGNATURE_BYTES = 64

lib.sodium_init()


def digest_of(canonical: bytes) -> str:
    """Return the receipt_hash of a canonical body."""
    return "sha256:" + hashlib.sha256(canonical).hexdigest()


def is_key(text: str) -> bool:
    """Tell whether the text is an ed25519 public key in hex."""
    return len(_unhex(text)) == _KEY_BYTES


def signature_fits(canonical: bytes, *, signature_hex: str, public_key_hex: str) -> bool:
    """Tell whether the signature over the canonical body is by the key, under libsodium's strict rule."""
    signature, key = _unhex(signature_hex), _unhex(public_key_hex)
    if len(signature) != _SIGNATURE_BYTES or len(key) != _KEY_BYTES:
        return False
    signed = signature + canonical
    opened = ffi.new("unsigned char[]", len(signed))
    length = ffi.new("unsigned long long *")
    return lib.crypto_sign_open(opened, length, signed, len(signed), key) == 0


def _unhex(text: str) -> bytes:
    """Return the bytes that hex digits spell, nothing when it is not digits alone."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        return b""
    # fromhex skips white space, which would give one receipt endless spellings.
    return data if 2 * len(data) == len(text) else b""
