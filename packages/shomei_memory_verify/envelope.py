"""A receipt read strictly, from text or from a parsed mapping. docs/spec/receipt.md §3 and §4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from shomei_memory_verify import signature
from shomei_memory_verify.canonical import NotCanonical, canonical_bytes, plain_bytes
from shomei_memory_verify.text import (
    MAX_BYTES,
    MAX_DEPTH,
    Malformed,
    exact,
    parse,
    require_safe,
    too_deep,
    too_large,
)

_LABELS = ("schema", "receipt_hash", "signer_id", "public_key_hex", "signature_hex")
_FIELDS = (*_LABELS, "body")

if TYPE_CHECKING:
    from typing import TypedDict

    class _Fields(TypedDict):
        schema: str
        receipt_hash: str
        signer_id: str
        public_key_hex: str
        signature_hex: str
        body: dict[str, object]


@dataclass(frozen=True, slots=True)
class SignedReceipt:
    """The six fields of a receipt. Only `body` is signed; `schema` and `signer_id` are labels."""

    schema: str
    receipt_hash: str
    signer_id: str
    public_key_hex: str
    signature_hex: str
    body: dict[str, object]

    @classmethod
    def from_dict(cls, d: Mapping[str, object]) -> SignedReceipt:
        """Read a parsed receipt.

        Raises Malformed, a ValueError, when it is not one.
        """
        return _read_mapping(d).receipt

    def hash_matches(self) -> bool:
        """Tell whether receipt_hash is the hash of the body."""
        try:
            return _read_mapping(self).hash_fits()
        except Malformed:
            return False

    def signature_valid(self, *, expected_public_key_hex: str | None = None) -> bool:
        """Tell whether signature and hash fit the body, and the key fits the pin when one is given."""
        try:
            reading = _read_mapping(self)
        except Malformed:
            return False
        pinned = expected_public_key_hex is None or pin_fits(expected_public_key_hex, self.public_key_hex)
        return pinned and reading.fits()


@dataclass(frozen=True, slots=True)
class Reading:
    """A well-formed receipt and the canonical bytes of its body."""

    receipt: SignedReceipt
    canonical: bytes

    def hash_fits(self) -> bool:
        """Tell whether receipt_hash is the hash of the body."""
        return signature.digest_of(self.canonical) == self.receipt.receipt_hash

    def fits(self) -> bool:
        """Tell whether both the hash and the signature belong to the body."""
        return self.hash_fits() and signature.signature_fits(
            self.canonical,
            signature_hex=self.receipt.signature_hex,
            public_key_hex=self.receipt.public_key_hex,
        )


def pin_fits(pin: object, public_key_hex: str) -> bool:
    """Tell whether the pin names the key: outer white space and upper case pass, nothing else."""
    if not issubclass(type(pin), str):  # not isinstance: an object may lie about its class
        return False
    return str.strip(cast("str", pin)).lower() == public_key_hex.lower()


def read(receipt: object) -> Reading:
    """Read a receipt given as text, as UTF-8 bytes, as a mapping or as a SignedReceipt.

    Raises Malformed for anything that is not strictly a receipt.
    """
    try:
        return _read(receipt)
    except Malformed:
        raise
    except (NotCanonical, RecursionError):  # within the caps only a caller's own deep stack leads here
        raise Malformed("nested deeper than the stack allows here") from None
    except Exception:  # noqa: BLE001  # an object of another's making may raise anything while it is read
        raise Malformed("the object cannot be read") from None


def _read(receipt: object) -> Reading:
    kind = type(receipt)
    if issubclass(kind, str):
        return _read_text(str.__str__(cast("str", receipt)))
    if issubclass(kind, bytes | bytearray):
        return _read_text(_decode(memoryview(cast("bytes", receipt))))
    return _read_mapping(receipt)


def _decode(data: memoryview) -> str:
    if data.nbytes > MAX_BYTES:
        raise too_large()
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None


def _read_text(text: str) -> Reading:
    envelope, plain = parse(text)
    receipt = _take_fields(envelope)
    return Reading(receipt, plain_bytes(receipt.body) if plain else canonical_bytes(receipt.body))


def _read_mapping(receipt: object) -> Reading:
    """Read a receipt someone else has parsed, from a private copy that later changes cannot reach."""
    envelope = _copy_of(receipt)
    try:
        size = len(canonical_bytes(envelope))
    except NotCanonical:
        raise Malformed("a lone surrogate") from None  # all that _copy_of lets through
    if size > MAX_BYTES:
        raise too_large()
    taken = _take_fields(envelope)
    return Reading(taken, canonical_bytes(taken.body))


def _take_fields(envelope: object) -> SignedReceipt:
    if type(envelope) is not dict:
        raise Malformed("not an object")
    members = cast("dict[str, object]", envelope)
    for name in _LABELS:
        if type(members.get(name)) is not str:
            raise Malformed(f"{name} is missing or not a string")
    if type(members.get("body")) is not dict:
        raise Malformed("body is missing or not an object")
    fields = cast("_Fields", members)
    return SignedReceipt(
        fields["schema"],
        fields["receipt_hash"],
        fields["signer_id"],
        fields["public_key_hex"],
        fields["signature_hex"],
        fields["body"],
    )


def _copy_of(receipt: object) -> object:
    if isinstance(receipt, SignedReceipt):
        receipt = {name: getattr(receipt, name) for name in _FIELDS}
    return _Copier().copy(receipt, 0)


class _Copier:
    """Copies JSON values into plain types, within the caps: a cycle or an endless iterator ends there too."""

    __slots__ = ("_room",)

    def __init__(self) -> None:
        self._room = MAX_BYTES

    def copy(self, value: object, depth: int) -> object:
        self._spend(1)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return require_safe(int.__index__(value))
        if isinstance(value, float):
            return exact(float.__float__(value))
        if depth == MAX_DEPTH:
            raise too_deep()
        if isinstance(value, Mapping):
            return self._members(cast("Mapping[object, object]", value), depth + 1)
        if isinstance(value, list | tuple):
            return [self.copy(item, depth + 1) for item in cast("list[object]", value)]
        raise Malformed("a value that is not JSON")

    def _members(self, mapping: Mapping[object, object], depth: int) -> dict[str, object]:
        members: dict[str, object] = {}
        for name, value in mapping.items():
            if not isinstance(name, str):
                raise Malformed("a name that is not a string")
            plain_name = self._text(name)
            if plain_name in members:
                raise Malformed("a duplicate name")
            members[plain_name] = self.copy(value, depth)
        return members

    def _text(self, text: str) -> str:
        self._spend(str.__len__(text))
        return str.__str__(text)

    def _spend(self, size: int) -> None:
        # Never more than the canonical form's own bytes, so what fits is not refused here.
        self._room -= size
        if self._room < 0:
            raise too_large()
