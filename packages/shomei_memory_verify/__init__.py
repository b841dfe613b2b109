"""Offline verifier for the receipts of governed memory: standard library and PyNaCl only."""

from typing import TYPE_CHECKING

from shomei_memory_verify.envelope import SignedReceipt
from shomei_memory_verify.verify import VerifyResult, verify_signed_receipt

if TYPE_CHECKING:
    from shomei_memory_verify.certificate import render, to_html

__version__ = "0.1.0"
__all__ = ["SignedReceipt", "VerifyResult", "__version__", "render", "to_html", "verify_signed_receipt"]


def __getattr__(name: str) -> object:
    """Load the certificate only when it is asked for: a verdict does not need it."""
    if name in {"render", "to_html"}:
        from shomei_memory_verify import certificate

        return getattr(certificate, name)
    raise AttributeError(name)
