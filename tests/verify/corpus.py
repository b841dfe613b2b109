"""The vector files, and receipts of our own making, as typed values."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from nacl.signing import SigningKey

from shomei_memory_verify.canonical import canonical_bytes

VECTORS = Path(__file__).parents[1] / "vectors"

# A public test key: it authenticates nothing outside this folder.
SIGNER = SigningKey(hashlib.sha256(b"shomei test signer").digest())
PIN = SIGNER.verify_key.encode().hex()
STRANGER = SigningKey(hashlib.sha256(b"shomei test stranger").digest())
STRANGER_PIN = STRANGER.verify_key.encode().hex()


@dataclass(frozen=True, slots=True)
class ReceiptCase:
    """One line of receipts.jsonl."""

    id: str
    raw: str | bytes
    pin: str | None
    valid: bool
    authenticated: bool
    reason: str
    schema: str | None
    upstream: dict[str, object]

    def as_bytes(self) -> bytes:
        return self.raw if isinstance(self.raw, bytes) else self.raw.encode("utf-8", "surrogatepass")


def load(name: str) -> object:
    return json.loads((VECTORS / name).read_text("utf-8"))


def lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (VECTORS / name).read_text("utf-8").splitlines()]


def receipt_cases() -> list[ReceiptCase]:
    return [
        ReceiptCase(
            id=case["id"],
            raw=case["raw"] if "raw" in case else base64.b64decode(case["raw_b64"]),
            pin=case["pin"],
            valid=case["expect"]["valid"],
            authenticated=case["expect"]["authenticated"],
            reason=case["expect"]["reason_prefix"],
            schema=case["expect"].get("schema"),
            upstream=case["upstream"],
        )
        for case in lines("receipts.jsonl")
    ]


def seal(body: dict[str, object], key: SigningKey = SIGNER, **fields: object) -> dict[str, object]:
    """Sign a body and put it in an envelope; `fields` overrides what the envelope says."""
    canonical = canonical_bytes(body)
    return {
        "schema": body.get("schema", ""),
        "receipt_hash": "sha256:" + hashlib.sha256(canonical).hexdigest(),
        "signer_id": "shomei-receipt:0123456789abcdef",
        "public_key_hex": key.verify_key.encode().hex(),
        "signature_hex": key.sign(canonical).signature.hex(),
        "body": body,
        **fields,
    }


def text_of(envelope: object) -> str:
    return json.dumps(envelope, separators=(",", ":"))
