"""The verdict on one receipt. docs/spec/receipt.md §5."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shomei_memory_verify.envelope import Reading, SignedReceipt, pin_fits, read
from shomei_memory_verify.signature import is_key
from shomei_memory_verify.text import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

# The five reasons; `malformed` is followed by `: ` and a fixed sentence.
MALFORMED = "malformed"
PUBLIC_KEY_MISMATCH = "public_key_mismatch"
SIGNATURE_OR_HASH_INVALID = "signature_or_hash_invalid"
OK_UNPINNED = "ok_unpinned"
OK = "ok"


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The verdict. `valid` is self-consistent; `authenticated` is valid and signed by the pinned key.

    Unless `authenticated`, the fields after `reason` are what an unknown party claims. `signer_id` is never
    signed.
    """

    valid: bool
    authenticated: bool
    reason: str
    public_key_hex: str = ""
    schema: str = ""
    signer_id: str = ""
    body: dict[str, object] = field(default_factory=dict[str, object])

    def __bool__(self) -> bool:
        return self.authenticated


def verify_signed_receipt(
    receipt: SignedReceipt | Mapping[str, object] | str | bytes,
    *,
    expected_public_key_hex: str | None = None,
) -> VerifyResult:
    """Return the verdict on a receipt; never raise, whatever the input.

    Without a pin nothing is authenticated: anyone can sign a receipt with a key of their own.
    """
    # 1. It must be readable as a receipt, the whole of it.
    try:
        reading = read(receipt)
    except Malformed as exc:
        return VerifyResult(False, False, f"{MALFORMED}: {exc}")
    return _result(reading.receipt, reason_for(reading, expected_public_key_hex))


def reason_for(reading: Reading, pin: object) -> str:
    """Return the reason of the verdict on a receipt that was read."""
    # 2. A pin that was given must name its key. An empty pin is a pin.
    pinned = pin is not None
    if pinned and not pin_fits(pin, reading.receipt.public_key_hex):
        return PUBLIC_KEY_MISMATCH
    # 3. Hash and signature must belong to the body.
    if not reading.fits():
        return SIGNATURE_OR_HASH_INVALID
    # 4. Only a pin tells who signed.
    return OK if pinned else OK_UNPINNED


def _result(receipt: SignedReceipt, reason: str) -> VerifyResult:
    schema = receipt.body.get("schema")
    return VerifyResult(
        valid=reason in {OK, OK_UNPINNED},
        authenticated=reason == OK,
        reason=reason,
        public_key_hex=receipt.public_key_hex.lower() if is_key(receipt.public_key_hex) else "",
        schema=schema if isinstance(schema, str) else "",  # the signed one, never the envelope's
        signer_id=receipt.signer_id,
        body=receipt.body,
    )
