"""Offline verifier for the receipts of governed memory: standard library and PyNaCl only."""

from shomei_memory_verify.envelope import SignedReceipt
from shomei_memory_verify.verify import VerifyResult, verify_signed_receipt

__all__ = ["SignedReceipt", "VerifyResult", "verify_signed_receipt"]
