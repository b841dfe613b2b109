"""Whether a package is the export that its signed witness speaks of. docs/spec/export.md §6."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from shomei_memory_verify.canonical import NotCanonical, canonical_bytes
from shomei_memory_verify.verify import PUBLIC_KEY_MISMATCH, VerifyResult, verify_signed_receipt
from shomei_memory_verify.witness_files import EXPORT, MANIFEST, WITNESS, Files, opened, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "shomei.access_export.v1"
FORMAT = "shomei-export-manifest/v1"

COMPLETE = "complete"
DIFFERENT = "different"
UNKNOWN = "unknown"  # without a valid witness nothing can be said of the files

_NO_WITNESS = b""  # is malformed as a receipt, and so says it
_NONCE_DIGITS = 64
_HASH_DIGITS = 64


@dataclass(frozen=True, slots=True)
class Witnessed:
    """The verdict on the witness, and what of the package is not as it says.

    `contradicts` names what the witness and the package's own data say differently although every file is the
    one that was signed: then the signer is at fault, not the messenger.
    """

    witness: VerifyResult
    package: str
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the package is the one that was signed, whoever signed it."""
        return self.package == COMPLETE

    def __bool__(self) -> bool:
        return self.witness.authenticated and self.is_complete


@dataclass(slots=True)
class _Differences:
    missing: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])
    altered: list[str] = field(default_factory=list[str])


def check(package: str, *, pin: str | None = None, witness: bytes | None = None) -> Witnessed:
    """Return whether the package is what its witness was signed for; a witness that is given counts alone.

    Raises NotAPackage if there is none to look into, OSError if it can not be read.
    """
    files = opened(package)
    # 1. The witness must stand as a receipt, and be one about an export.
    taken = witness if witness is not None else files.witness
    result = verify_signed_receipt(taken if taken is not None else _NO_WITNESS, expected_public_key_hex=pin)
    if not result.valid or result.schema != SCHEMA:
        if taken is None:
            return Witnessed(result, UNKNOWN, missing=(WITNESS,))
        is_altered = witness is None and result.reason != PUBLIC_KEY_MISMATCH
        return Witnessed(result, UNKNOWN, altered=(WITNESS,) if is_altered else ())
    # 2. The manifest must be the one that was signed, and every file the one in the manifest.
    found = _compare(files, result.body)
    # 3. What the witness counts must be what the export holds.
    intact = not (found.missing or found.added or found.altered)
    contradicts = tuple(_contradictions(files.export, result.body)) if intact else ()
    return Witnessed(
        result,
        COMPLETE if intact and not contradicts else DIFFERENT,
        tuple(found.missing),
        tuple(found.added),
        tuple(found.altered),
        contradicts,
    )


def package_digest(nonce: bytes, files: list[list[str]]) -> str:
    """Return what a witness binds a package by: the nonce, which only the package holds, and its files."""
    return "sha256:" + hashlib.sha256(nonce + canonical_bytes(files)).hexdigest()


def _compare(files: Files, body: dict[str, object]) -> _Differences:
    found = _Differences()
    if files.manifest is None:
        (found.altered if MANIFEST in files.digests else found.missing).append(MANIFEST)
    listed = _listed(files.manifest or b"")
    signed = body.get("package_digest")
    if files.manifest is not None and not (
        listed and isinstance(signed, str) and hmac.compare_digest(listed[0], signed)
    ):
        found.altered.append(MANIFEST)
    # A manifest that was tampered with still tells what it was compared with; the verdict stands already.
    expected = listed[1] if listed else {}
    for name in sorted(expected.keys() | files.digests.keys()):
        if name in {MANIFEST, WITNESS}:
            if name in files.repeated:
                found.added.append(name)
        elif name not in files.digests:
            found.missing.append(name)
        elif name not in expected or name in files.repeated:
            if listed or name in files.repeated:  # without any list, nothing is known of the others
                found.added.append(name)
        elif files.digests[name] != expected[name]:
            found.altered.append(name)
    return found


def _listed(manifest: bytes) -> tuple[str, dict[str, str]] | None:
    """Return the digest that a manifest stands for and its files; None for one that is not exactly ours."""
    try:
        value = parsed(manifest)
        if canonical_bytes(value) != manifest or not isinstance(value, dict):
            return None
    except (ValueError, NotCanonical):
        return None
    members = cast("dict[str, object]", value)
    nonce, entries = members.get("nonce"), members.get("files")
    if members.keys() != {"files", "format", "nonce"} or members["format"] != FORMAT:
        return None
    if not _is_hex(nonce, _NONCE_DIGITS) or not isinstance(entries, list):
        return None
    rows = cast("list[object]", entries)
    pairs = [cast("list[str]", row) for row in rows if _is_entry(row)]
    names = [name for name, _ in pairs]
    if len(pairs) != len(rows) or names != sorted(set(names)) or not {MANIFEST, WITNESS}.isdisjoint(names):
        return None
    return package_digest(bytes.fromhex(cast("str", nonce)), pairs), dict(
        cast("list[tuple[str, str]]", pairs)
    )


def _is_entry(row: object) -> bool:
    if not isinstance(row, list):
        return False
    parts = cast("list[object]", row)
    return len(parts) == 2 and isinstance(parts[0], str) and _is_hex(parts[1], _HASH_DIGITS)


def _is_hex(value: object, digits: int) -> bool:
    return isinstance(value, str) and len(value) == digits and not value.strip("0123456789abcdef")


def _contradictions(export: bytes | None, body: dict[str, object]) -> Iterator[str]:
    """Name every field in which witness and export differ; a list left out is compared by its count."""
    try:
        value = parsed(export or b"")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        yield EXPORT
        return
    data = cast("dict[str, object]", value)
    for name in ("export_id", "subject_pseudonym", "tenant_id_hash", "as_of_seq"):
        if data.get(name) != body.get(name):
            yield name
    for name, member in (
        ("record_count", "records"),
        ("artifact_count", "artifacts"),
        ("disclosure_count", "disclosures"),
        ("tombstone_count", "tombstones"),
    ):
        if body.get(name) != len(_rows(data.get(member))):
            yield name
    if "artifacts" in body:
        flags = [
            {"id": row.get("id"), "recallable": row.get("recallable")} for row in _rows(data.get("artifacts"))
        ]
        if flags != body["artifacts"]:
            yield "artifacts"


def _rows(value: object) -> list[dict[str, object]]:
    rows = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, object]", row) if isinstance(row, dict) else {} for row in rows]


def as_lines(found: Witnessed) -> str:
    """Return the verdict for people, in ASCII; the first line is the one every receipt gets."""
    lines = [f"package={found.package}"]
    for word in ("missing", "added", "altered", "contradicts"):
        lines += [f"  {word}: {_inert(name)}" for name in getattr(found, word)]
    return "".join(line + "\n" for line in lines)


def as_report(found: Witnessed) -> dict[str, object]:
    """Return the verdict as plain JSON."""
    return {
        "package": found.package,
        "missing": [*found.missing],
        "added": [*found.added],
        "altered": [*found.altered],
        "contradicts": [*found.contradicts],
    }


def _inert(name: str) -> str:
    return name.encode("unicode_escape").decode()
