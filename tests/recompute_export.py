"""What an auditor runs: every commitment of an export, recomputed from the package and the commitment key.

    python recompute_export.py PACKAGE COMMITMENT_KEY_HEX[:FIRST_KEY_HEX] [RECEIPTS_JSONL]

The key is the one that the witness names as `commit_key_id`; the tenant's first key, by which subject and
tombstones are named, is given beside it where it is another. Standard library alone, and nothing of ours:
docs/spec/export.md is all that was needed to write it. With the receipt log as JSON Lines, in order, it is
also replayed up to the export's point in it, and compared with what it holds. Signatures are for
shomei-memory-verify. Exit 0: all agree; 1: what does not is named.
"""

import hashlib
import hmac
import json
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def canonical(value: Any) -> str:
    """Return the RFC 8785 form."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def number(value: float) -> str:
    """Return a double as ECMAScript writes it."""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    power = int(exponent)
    if -7 < power < 0:
        digits = mantissa.lstrip("-").replace(".", "").rstrip("0")
        return ("-" if value < 0 else "") + "0." + "0" * (-power - 1) + digits
    return f"{mantissa.removesuffix('.0')}e{power:+d}"


def hashed(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def keyed(key: bytes, label: str, text: str) -> str:
    message = label.encode() + b"\0" + text.encode()
    return "hmac-sha256:" + hmac.new(key, message, hashlib.sha256).hexdigest()


def opened(package: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, str]]:
    """Return export, manifest, the witness's body, and the hash of each file."""
    if zipfile.is_zipfile(package):
        with zipfile.ZipFile(package) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        told = {name: json.loads(parts[f"{name}.json"]) for name in ("export", "manifest", "witness")}
        hashes = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
        return told["export"], told["manifest"], told["witness"]["body"], hashes
    answer = json.loads(package.read_bytes())
    return answer["export"], answer["manifest"], answer["receipt"], {"export.json": hashed(answer["export"])}


def commitments(export: dict[str, Any], key: bytes, first: bytes) -> dict[str, Any]:
    """Return what the witness must say of the export."""
    tenant, subject = export["tenant_id_hash"], export["subject_pseudonym"]
    told: dict[str, Any] = {}
    for name in ("record", "artifact", "disclosure"):
        leaves = sorted(map(hashed, export[f"{name}s"]))
        told[f"{name}_count"] = len(leaves)
        told[f"{name}_set_commitment"] = keyed(key, f"{name}-set-v1", canonical([tenant, subject, leaves]))
    stones = sorted(
        canonical({name: one[name] for name in ("memory_id", "tombstone_id", "erased_at", "cause")})
        for one in export["tombstones"]
    )
    told["tombstone_count"] = len(stones)
    told["closed_set_commitment"] = keyed(key, "closed-set-v1", canonical([tenant, subject, stones]))
    told["subject_pseudonym"] = keyed(first, "subject-v1", export["subject"])
    told["export_id"], told["as_of_seq"] = export["export_id"], export["as_of_seq"]
    told["tenant_id_hash"] = tenant
    if len(export["artifacts"]) <= 500:
        told["artifacts"] = [
            {"id": one["id"], "recallable": one["recallable"]} for one in export["artifacts"]
        ]
    return told


def replayed(receipts: Iterable[dict[str, Any]], export: dict[str, Any]) -> set[str]:
    """Return the subject's own memories that are alive at the export's point in the log."""
    alive: set[str] = set()
    for receipt in receipts:
        body = receipt["body"]
        if body["log"]["origin"] == export["log_origin"] and body["log"]["seq"] >= export["as_of_seq"]:
            break
        kind = body["schema"].split(".")[1]
        if kind == "memory_add" and body["subject_pseudonym"] == export["subject_pseudonym"]:
            alive.add(body["memory_id"])
        elif kind == "memory_update" and body["previous_id"] in alive:
            alive ^= {body["previous_id"], body["memory_id"]}
        elif kind in {"vector_delete", "reerase"}:
            alive.discard(body["memory_id"])
    return alive


def disagreements(
    package: Path, key: bytes, receipts: Path | None = None, *, first: bytes | None = None
) -> Iterator[str]:
    """Name everything that does not agree; the first key is `key` unless it is given."""
    first = first or key
    export, manifest, body, hashes = opened(package)
    yield from (name for name, told in commitments(export, key, first).items() if body.get(name) != told)
    digest = hashlib.sha256(bytes.fromhex(manifest["nonce"]) + canonical(manifest["files"]).encode())
    if body["package_digest"] != "sha256:" + digest.hexdigest():
        yield "package_digest"
    yield from (name for name, wanted in manifest["files"] if hashes.get(name) != wanted)
    ids = [one["tombstone_id"] for one in export["tombstones"]]
    derived = [
        "ts_" + keyed(first, "tombstone-v1", one["memory_id"]).partition(":")[2][:32]
        for one in export["tombstones"]
    ]
    if ids != derived:
        yield "tombstone_id"
    if receipts is not None:
        log = [json.loads(line) for line in receipts.read_text("utf-8").splitlines()]
        wanted = replayed(log, export)
        own = {one["memory_id"] for one in export["records"]}
        others = {one["memory_id"] for one in export["records"] if one["source_kind"] == "derived"}
        if wanted - own or own - wanted - others:
            yield "the log"


def main(arguments: list[str]) -> int:
    """Print what does not agree."""
    package, key, *log = arguments
    named, _, first = key.partition(":")
    keys = bytes.fromhex(named), bytes.fromhex(first or named)
    found = list(disagreements(Path(package), keys[0], Path(log[0]) if log else None, first=keys[1]))
    print("\n".join(f"does not agree: {name}" for name in found) or "everything agrees")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
