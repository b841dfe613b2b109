"""Keyed hashes that bind without revealing. SEMANTICS.md §2, §8, §10; docs/spec/erasure.md §3.

Every value is HMAC-SHA256 under a commitment key of the tenant's over a label, a NUL and the data, so no
two kinds can be confused and none can be confirmed by a guess without the key. What names something is made
under the first key, for ever; what commits to a set, under the key that the receipt names.
"""

import hmac
from collections.abc import Iterable

from shomei_memory_verify.canonical import canonical_bytes

from ..model import MemoryId, Pseudonym, TenantId, Tombstone


def _mac(key: bytes, label: str, data: bytes) -> str:
    return hmac.digest(key, label.encode() + b"\0" + data, "sha256").hex()


def _leaf(stone: Tombstone) -> str:
    """Return a tombstone in canonical form (RFC 8785): names in order, and nothing in a value to escape."""
    return (
        f'{{"cause":"{stone.cause.value}","erased_at":{stone.erased_at},'
        f'"memory_id":"{stone.memory_id}","tombstone_id":"{stone.tombstone_id}"}}'
    )


class Commitments:
    """The names of one tenant's things: found again by them, so they never change."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def _mac(self, label: str, data: bytes) -> str:
        return _mac(self._key, label, data)

    def tenant(self, tenant_id: TenantId) -> str:
        """Return the tenant's name in receipts."""
        return "hmac-sha256:" + self._mac("tenant-v1", tenant_id.encode())

    def subject(self, user_id: str) -> Pseudonym:
        """Return the subject's pseudonym: exact UTF-8 bytes, no case folding, no normal form."""
        return Pseudonym("hmac-sha256:" + self._mac("subject-v1", user_id.encode()))

    def semantic_type(self, semantic_type: str) -> str:
        """Return the keyed hash by which rows of one semantic type are found; never in a receipt."""
        return "hmac-sha256:" + self._mac("semantic-type-v1", semantic_type.encode())

    def semantic_type_of(self, memory_id: MemoryId, semantic_type: str) -> str:
        """Return a reference for receipts: bound to the memory, so equal types do not show as equal."""
        data = memory_id.encode() + b"\0" + semantic_type.encode()
        return "hmac-sha256:" + self._mac("semantic-type-ref-v1", data)

    def matter(self, hold_id: str, reference: str) -> str:
        """Return the keyed hash of a hold's matter reference, bound to the hold."""
        return "hmac-sha256:" + self._mac("matter-v1", hold_id.encode() + b"\0" + reference.encode())

    def evidence(self, reference: str) -> str:
        """Return the keyed hash of what proves a consent."""
        return "hmac-sha256:" + self._mac("evidence-v1", reference.encode())

    def recipient(self, name: str) -> str:
        """Return the keyed hash of whom a memory was disclosed to."""
        return "hmac-sha256:" + self._mac("recipient-v1", name.encode())

    def retry_key(self, key: str) -> str:
        """Return the keyed hash of an Idempotency-Key, which is the caller's text."""
        return "hmac-sha256:" + self._mac("retry-key-v1", key.encode())

    def request_body(self, body: bytes) -> str:
        """Return the keyed fingerprint of a request's body."""
        return "hmac-sha256:" + self._mac("request-body-v1", body)

    def retirement(self, memory_id: MemoryId, slot: int) -> str:
        """Return the mark of a retired vector slot; never a hash of the vector."""
        return "hmac-sha256:" + self._mac("retire-v1", memory_id.encode() + b"\0" + str(slot).encode())

    def tombstone_id(self, memory_id: MemoryId) -> str:
        """Return the id a memory's tombstone always gets, also after a restore."""
        return "ts_" + self._mac("tombstone-v1", memory_id.encode())[:32]

    def import_line(self, origin: str, line: str) -> str:
        """Return the keyed hash by which a line that was imported is known again."""
        return "hmac-sha256:" + self._mac("import-line-v1", origin.encode() + b"\0" + line.encode())


class SetCommitments:
    """Commitments to whole sets, under the key that the receipt which states them names."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def set_of(self, kind: str, tenant_hash: str, subject: Pseudonym, leaves: Iterable[str]) -> str:
        """Return the commitment to a set about a subject; leaves are hashes of its entries. export.md §5."""
        data = canonical_bytes([tenant_hash, subject, sorted(leaves)])
        return "hmac-sha256:" + _mac(self._key, f"{kind}-set-v1", data)

    def closed_set(self, tenant_hash: str, subject: Pseudonym, stones: Iterable[Tombstone]) -> str:
        """Return the commitment to all tombstones of a subject; an auditor with the key recomputes it."""
        leaves = sorted(map(_leaf, stones))
        return "hmac-sha256:" + _mac(
            self._key, "closed-set-v1", canonical_bytes([tenant_hash, subject, leaves])
        )
