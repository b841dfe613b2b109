"""Authenticated encryption, and the way from a leaf to a sealed column. CUSTODY.md §3."""

import hmac
import os
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..errors import IntegrityFault

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12  # random 96-bit nonces, NIST SP 800-38D §8.2.2
TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = NONCE_BYTES + TAG_BYTES
SEALED_DEK_BYTES: Final = KEY_BYTES + OVERHEAD_BYTES

_ROW_LABEL: Final = b"shomei/v1"
_DEK_COLUMN: Final = "dek"


class Column(StrEnum):
    """The two sealed columns of a row."""

    CONTENT = "content"
    RECALL = "recall"


def bind(*parts: bytes) -> bytes:
    """Return the parts joined, each led by its length, so that no two lists give the same bytes."""
    return b"".join([len(part).to_bytes(4) + part for part in parts])


def seal(key: bytes, plaintext: bytes, aad: bytes) -> bytes:
    """Return nonce, ciphertext and tag of AES-256-GCM under a fresh random nonce."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, aad)


def open_sealed(key: bytes, blob: bytes, aad: bytes) -> bytes:
    """Return what was sealed; raise IntegrityFault if a byte, the key or the place is not the same."""
    if len(blob) < OVERHEAD_BYTES:
        raise IntegrityFault("sealed bytes are too short to be what was stored")
    try:
        return AESGCM(key).decrypt(blob[:NONCE_BYTES], blob[NONCE_BYTES:], aad)
    except InvalidTag:
        raise IntegrityFault("sealed bytes do not open here: altered, moved or under another key") from None


def expand(key: bytes, label: bytes) -> bytes:
    """Return 32 bytes by HKDF-Expand-SHA256; one block, so one HMAC. RFC 5869 §2.3."""
    return hmac.digest(key, label + b"\x01", "sha256")


def row_kek(leaf: bytes) -> bytes:
    """Return the key that wraps the DEK of the row at this leaf."""
    return expand(leaf, b"shomei/v1/row/kek")


def commitment_key(leaf: bytes) -> bytes:
    """Return K_commit of the tenant that this leaf is reserved for."""
    return expand(leaf, b"shomei/v1/tenant/commit")


def column_key(dek: bytes, column: Column) -> bytes:
    """Return the key of one sealed column."""
    return expand(dek, b"shomei/v1/col/" + column.value.encode())


@lru_cache(maxsize=1024)
def _led(domain: str, tenant: str) -> bytes:
    return bind(_ROW_LABEL, domain.encode(), tenant.encode())


@lru_cache(maxsize=1024)
def _ended(version: int, column: str) -> bytes:
    return bind(version.to_bytes(8), column.encode())


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row lies. It is bound into every seal, so nothing sealed can be moved elsewhere."""

    domain: str
    tenant: str
    memory_id: str
    version: int

    def aad(self, column: str) -> bytes:
        """Return a column's associated data: `shomei/v1|domain|tenant|memory id|row version|column`."""
        return b"".join(
            (_led(self.domain, self.tenant), bind(self.memory_id.encode()), _ended(self.version, column))
        )


@dataclass(frozen=True, slots=True, repr=False)
class RowKeys:
    """The open keys of one row, for the length of one request and never longer."""

    place: RowPlace
    dek: bytes

    def seal(self, column: Column, plaintext: bytes) -> bytes:
        """Return the sealed column."""
        return seal(column_key(self.dek, column), plaintext, self.place.aad(column))

    def open(self, column: Column, blob: bytes) -> bytes:
        """Return the column's plaintext; raise IntegrityFault if it is not what was sealed in this place."""
        return open_sealed(column_key(self.dek, column), blob, self.place.aad(column))


def seal_dek(leaf: bytes, place: RowPlace, dek: bytes) -> bytes:
    """Return the row's DEK sealed under its leaf: 60 bytes."""
    return seal(row_kek(leaf), dek, place.aad(_DEK_COLUMN))


def open_dek(leaf: bytes, place: RowPlace, sealed: bytes) -> RowKeys:
    """Return the row's keys; raise IntegrityFault if the DEK was not sealed for this place."""
    return RowKeys(place, open_sealed(row_kek(leaf), sealed, place.aad(_DEK_COLUMN)))


def new_row(leaf: bytes, place: RowPlace) -> tuple[RowKeys, bytes]:
    """Return fresh keys for a row and its DEK sealed for storage."""
    dek = os.urandom(KEY_BYTES)
    return RowKeys(place, dek), seal_dek(leaf, place, dek)
