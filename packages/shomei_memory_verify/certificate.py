"""A receipt as a page a person can file. docs/spec/receipt.md §8.

The page is never stronger than the verdict: a certificate only under the pin, an assertion without one, and
for anything else no statement at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from shomei_memory_verify.canonical import canonical_bytes
from shomei_memory_verify.envelope import SignedReceipt, pin_fits
from shomei_memory_verify.fields import Fields, Unfit, shown
from shomei_memory_verify.page import to_html
from shomei_memory_verify.signature import digest_of
from shomei_memory_verify.statements import STATEMENTS, Statement, is_development
from shomei_memory_verify.verify import (
    MALFORMED,
    OK,
    OK_UNPINNED,
    PUBLIC_KEY_MISMATCH,
    SIGNATURE_OR_HASH_INVALID,
    VerifyResult,
    verify_signed_receipt,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NON_CLAIMS", "render", "to_html"]

NON_CLAIMS = (
    "A signature shows who states something. It does not show that the statement is true.",
    "This covers one governed memory store. It says nothing about copies with third parties, in models, in "
    "logs, in caches or in backups outside that store.",
    "It does not say that facts about the subject cannot be inferred from other records.",
    "A subject is named by a pseudonym. A pseudonym is not anonymity: whoever holds the tenant's commitment "
    "key can recompute it.",
    "It states how things stood at the stated time, and that time is the signer's own.",
    "The strength of an erasure is bounded by the custody of the keys.",
    "This receipt is no proof of inclusion in a transparency log.",
)

_PINNED = "**Verdict: authenticated.** The receipt is intact and signed by the key you pinned."
_UNPINNED = (
    "**Verdict: valid, signer unknown.** The receipt is intact, but no key was pinned: anyone can make "
    "such a document with a key of their own. Get the signer's public key by another way, and check again."
)
_WHY = {
    MALFORMED: "The document is not a receipt in the one form that the specification allows.",
    PUBLIC_KEY_MISMATCH: "The key you pinned is not the key that the document carries.",
    SIGNATURE_OR_HASH_INVALID: "The document does not say what its key signed: it was altered, or forged.",
}
_DEVELOPMENT = (
    "**Development key custody.** The keys lie in a development store. Do not rely on their destruction: "
    "copies may exist that nobody has counted."
)


def render(
    receipt: VerifyResult | SignedReceipt | Mapping[str, object] | str | bytes,
    *,
    expected_public_key_hex: str | None = None,
) -> str:
    """Return the receipt's page in Markdown, verifying it first unless a result is given.

    A result keeps its verdict; a pin given beside it can only weaken it. Never raises on a receipt; raises
    NotCanonical on a result whose body was put there by hand and is not JSON.
    """
    if issubclass(type(receipt), VerifyResult):  # not isinstance: an object may lie about its class
        result = _held_to(expected_public_key_hex, cast("VerifyResult", receipt))
    else:
        given = cast("Mapping[str, object]", receipt)
        result = verify_signed_receipt(given, expected_public_key_hex=expected_public_key_hex)
    lines = _page(result) if _is_sound(result) else _refusal(result)
    return "\n".join([*lines, *_closing(result)]) + "\n"


def _held_to(pin: str | None, result: VerifyResult) -> VerifyResult:
    if pin is None or pin_fits(pin, result.public_key_hex):
        return result
    return VerifyResult(False, False, PUBLIC_KEY_MISMATCH)


def _is_sound(result: VerifyResult) -> bool:
    """Tell whether the parts of a verdict agree: a caller may have put it together by hand."""
    return result.valid and result.reason == (OK if result.authenticated else OK_UNPINNED)


def _refusal(result: VerifyResult) -> list[str]:
    why = _WHY.get(result.reason.split(":")[0], "The verdict contradicts itself.")
    return [
        "# No valid receipt",
        "",
        f"**Verdict: refused.** {why} Reason: {shown(result.reason)}.",
        "",
        "Nothing in the document can be relied on, and nothing of it is repeated here.",
        "",
        *_not_claimed(),
    ]


def _page(result: VerifyResult) -> list[str]:
    fields = Fields(result.body)
    statement, problem = _statement(result.schema, fields)
    certified = result.authenticated
    warnings = [*statement.warnings]
    if is_development(fields):
        warnings.append(_DEVELOPMENT)
    return [
        f"# {_kind(certified=certified, problem=problem)}: {statement.title}",
        "",
        *_verdict(certified=certified),
        *_warned(warnings),
        *(_not_certified(problem) if problem else _stated(statement, certified=certified)),
        *_not_claimed(),
        "## What was signed" if certified else "## What the document contains",
        "",
        *fields.listing(),
        "",
    ]


def _kind(*, certified: bool, problem: str) -> str:
    if not certified:
        return "Unattributed receipt"
    return "Receipt without certificate" if problem else "Certificate"


def _statement(schema: str, fields: Fields) -> tuple[Statement, str]:
    """Return what the schema lets us say, or an empty statement and why there is none."""
    write = STATEMENTS.get(schema)
    if write is None:
        return Statement("Unknown kind", ()), "this verifier has no wording for the schema"
    try:
        return write(fields), ""
    except Unfit as exc:
        return Statement("Nothing to state", ()), str(exc)


def _verdict(*, certified: bool) -> list[str]:
    return [_PINNED if certified else _UNPINNED, ""]


def _warned(warnings: list[str]) -> list[str]:
    return [line for warning in warnings for line in (f"> {warning}", "")]


def _not_certified(problem: str) -> list[str]:
    return ["## Nothing is certified", "", f"The signature was checked, but {problem}.", ""]


def _stated(statement: Statement, *, certified: bool) -> list[str]:
    heading = "What the holder of the pinned key states" if certified else "What an unknown signer asserts"
    mark = "" if certified else "Asserted: "
    return [f"## {heading}", "", *(f"- {mark}{sentence}" for sentence in statement.sentences), ""]


def _not_claimed() -> list[str]:
    return ["## What this does not claim", "", *(f"- {claim}" for claim in NON_CLAIMS), ""]


def _closing(result: VerifyResult) -> list[str]:
    return [
        "## Check it yourself",
        "",
        "This page is no evidence: anyone can print one. The receipt itself is, checked again with",
        "",
        "```",
        "shomei-memory-verify RECEIPT --pin PUBLIC_KEY_HEX",
        "```",
        "",
        "Or, without installing anything, with the page shomei-verify.html in a browser, offline.",
        "",
        "---",
        "",
        *_appendix(result),
    ]


def _appendix(result: VerifyResult) -> list[str]:
    lines = [f"- reason: {shown(result.reason)}"]
    if _is_sound(result):
        lines += [
            f"- schema: {shown(result.schema)}",
            f"- receipt_hash: {shown(_hash_of(result))}",
            f"- public_key_hex: {shown(result.public_key_hex)}",
            f"- signer_id (not signed): {shown(result.signer_id)}",
        ]
    return lines


def _hash_of(result: VerifyResult) -> str:
    return digest_of(canonical_bytes(result.body))
