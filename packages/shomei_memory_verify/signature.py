"""The two checks on a canonical body: its hash and its ed25519 signature. docs/spec/receipt.md §5."""

from __future__ import annotations

import hashlib
import re
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

_KEY_DIGITS = 64
_SIGNATURE_DIGITS = 128

# bytes.fromhex skips white space, which would give one receipt endless spellings.
_HEX = re.compile(r"[0-9A-Fa-f]*")

lib.sodium_init()


def digest_of(canonical: bytes) -> str:
    """Return the receipt_hash of a canonical body."""
    return "sha256:" + hashlib.sha256(canonical).hexdigest()


def is_key(text: str) -> bool:
    """Tell whether the text is an ed25519 public key in hex."""
    return len(text) == _KEY_DIGITS and _HEX.fullmatch(text) is not None


def signature_fits(canonical: bytes, *, signature_hex: str, public_key_hex: str) -> bool:
    """Tell whether the signature over the canonical body is by the key, under libsodium's strict rule."""
    if len(signature_hex) != _SIGNATURE_DIGITS or not _HEX.fullmatch(signature_hex):
        return False
    if not is_key(public_key_hex):
        return False
    signed = bytes.fromhex(signature_hex) + canonical
    opened = ffi.new("unsigned char[]", len(signed))
    length = ffi.new("unsigned long long *")
    return lib.crypto_sign_open(opened, length, signed, len(signed), bytes.fromhex(public_key_hex)) == 0
