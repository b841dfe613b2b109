"""Seal a memory into a row and open it again. CUSTODY.md §3: leaf -> row KEK -> DEK -> one key a column."""

import json
from dataclasses import replace
from typing import Protocol, cast

from .custody import Custody
from .custody.keytree import ADDRESS_BITS, Address
from .custody.sealing import Column, RowKeys, RowPlace, new_row, open_dek
from .errors import IntegrityFault, RowDamaged
from .model import Content, Json, Life, MemoryId, MemoryRow, Pseudonym, Recalled, TenantId
from .recall.features import FeaturesMalformed, RowFeatures

_FIRST_VERSION = 1
# SQLite keeps whatever it is given: what damage made of a number need not be a number that we write.
_DAMAGE = (IntegrityFault, AttributeError, OverflowError, TypeError)


class SealedFeatures(Protocol):
    """As much of a row as opening its features takes."""

    @property
    def memory_id(self) -> MemoryId: ...
    @property
    def address(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def sealed_dek(self) -> bytes: ...
    @property
    def sealed_recall(self) -> bytes: ...


class Rows:
    """Seals and opens the rows of one installation; keys live for the length of one call."""

    def __init__(self, custody: Custody) -> None:
        self._custody = custody

    def opens_at(
        self, tenant: TenantId, address: int, memory_id: MemoryId, version: int, sealed_dek: bytes
    ) -> bool:
        """Say whether a row's DEK is sealed under the leaf at an address.

        Raises Punctured for an erased leaf, IntegrityFault when custody's own records do not lead to it.
        """
        leaf = self._custody.derive(Address(address))
        try:
            open_dek(leaf, self._place(tenant, memory_id, version), sealed_dek)
        except _DAMAGE:
            return False
        return True

    def _open_dek(
        self, tenant: TenantId, address: int, memory_id: MemoryId, version: int, sealed_dek: bytes
    ) -> RowKeys:
        try:
            if not 0 <= address < 1 << ADDRESS_BITS:
                raise IntegrityFault("a row names a leaf that there is not")
            leaf = self._custody.derive(Address(address))
            return open_dek(leaf, self._place(tenant, memory_id, version), sealed_dek)
        except _DAMAGE as exc:
            raise RowDamaged("what is stored of this memory is not what was sealed") from exc

    def _place(self, tenant: TenantId, memory_id: MemoryId, version: int) -> RowPlace:
        return RowPlace(self._custody.installation_id, tenant, memory_id, version)

    def _keys(self, tenant: TenantId, row: SealedFeatures) -> RowKeys:
        return self._open_dek(tenant, row.address, row.memory_id, row.version, row.sealed_dek)

    def seal(
        self,
        tenant: TenantId,
        address: Address,
        memory_id: MemoryId,
        content: Content,
        features: RowFeatures,
        *,
        subject: Pseudonym | None,
        created_at: int,
    ) -> MemoryRow:
        """Return a new row, sealed under a fresh DEK under the leaf at `address`."""
        place = self._place(tenant, memory_id, _FIRST_VERSION)
        keys, sealed_dek = new_row(self._custody.derive(address), place)
        return MemoryRow(
            memory_id=memory_id,
            address=address,
            version=_FIRST_VERSION,
            life=Life.LIVE,
            subject=subject,
            created_at=created_at,
            sealed_dek=sealed_dek,
            sealed_content=keys.seal(Column.CONTENT, _content_bytes(content)),
            sealed_recall=keys.seal(Column.RECALL, features.to_bytes()),
            embedded=features.vectors is not None,
            intent_id=None,
        )

    def open_content(self, tenant: TenantId, row: MemoryRow) -> Content:
        """Return what the row holds. Raise Punctured if its key is gone, RowDamaged if bytes changed."""
        return _content(_opened(self._keys(tenant, row), Column.CONTENT, row.sealed_content))

    def recalled(self, tenant: TenantId, row: MemoryRow) -> Recalled:
        """Return the memory as its tenant may see it, for a row that policy lets be seen and that is whole.

        Raises as `open_content` does, whichever of the row's columns changed: a damaged row is not recalled.
        """
        keys = self._keys(tenant, row)
        _opened(keys, Column.RECALL, row.sealed_recall)
        content = _content(_opened(keys, Column.CONTENT, row.sealed_content))
        return Recalled(row.memory_id, content, row.created_at)

    def require_whole(self, tenant: TenantId, row: MemoryRow) -> None:
        """Raise as `open_content` does unless everything in the row is what was sealed, vectors included."""
        self.open_content(tenant, row)
        # A column put back from before its vectors were made opens as well: it was sealed for this place.
        if self.open_features(tenant, row).vectors is None and row.embedded:
            raise RowDamaged("a row lacks the vectors that it was given")

    def open_features(self, tenant: TenantId, row: SealedFeatures) -> RowFeatures:
        """Return the row's terms and vectors; raises as `open_content` does."""
        stored = _opened(self._keys(tenant, row), Column.RECALL, row.sealed_recall)
        try:
            return RowFeatures.from_bytes(stored)
        except FeaturesMalformed as exc:
            raise RowDamaged("a row's features are not in a form this version knows") from exc

    def reseal_features(self, tenant: TenantId, row: MemoryRow, features: RowFeatures) -> MemoryRow:
        """Return the row with new features under the same DEK and a fresh nonce."""
        sealed = self._keys(tenant, row).seal(Column.RECALL, features.to_bytes())
        return replace(row, sealed_recall=sealed, embedded=True)


def _opened(keys: RowKeys, column: Column, sealed: bytes) -> bytes:
    try:
        return keys.open(column, sealed)
    except _DAMAGE as exc:
        raise RowDamaged("what is stored of this memory is not what was sealed") from exc


def _content_bytes(content: Content) -> bytes:
    document = [content.text, content.user_id, content.semantic_type, content.metadata]
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _content(plaintext: bytes) -> Content:
    try:
        document = cast("tuple[str, str | None, str, dict[str, Json]]", json.loads(plaintext))
        text, user_id, semantic_type, metadata = document
    except ValueError as exc:
        raise RowDamaged("a row's content is not in a form this version knows") from exc
    return Content(text, user_id, semantic_type, metadata)
