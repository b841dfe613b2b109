"""The files of an export, written as they are read: no list of memories is held. docs/spec/export.md §4."""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

from shomei_memory_verify.canonical import canonical_bytes

from ...custody.spool import Spool
from ...model import Json, JsonObject, SourceKind
from . import page
from .snapshot import Form, Snapshot

EXPORT: Final = "export.json"
PORTABLE: Final = "art20/memories.jsonl"
PAGE: Final = "report.html"
_LATEST: Final = 100  # accesses on the page; all of them are in export.json


@dataclass(slots=True)
class Sets:
    """The leaves of what the witness commits to: the hash of each entry's RFC 8785 form."""

    NAMES: ClassVar = ("record", "artifact", "disclosure")
    records: list[str] = field(default_factory=list[str])
    artifacts: list[str] = field(default_factory=list[str])
    disclosures: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Recipient:
    """Who has had access: one API key, one command on the machine, or one artifact's owner."""

    kind: str
    name: str | None
    first_at: int
    last_at: int
    access_count: int = 0
    verbs: set[str] = field(default_factory=set[str])
    purposes: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Written:
    """What was learnt while it was written."""

    sets: Sets = field(default_factory=Sets)
    recipients: dict[str, Recipient] = field(default_factory=dict[str, Recipient])
    latest: deque[JsonObject] = field(default_factory=lambda: deque[JsonObject](maxlen=_LATEST))


def write(snapshot: Snapshot, form: Form, spools: dict[str, Spool]) -> Written:
    """Write the files into new spools, by name; the spools are the caller's to close."""
    names = [EXPORT] if form is Form.JSON else [EXPORT, PORTABLE, PAGE]
    for name in names:
        spools[name] = Spool()
    written = Written()
    members = {name: iter([canonical_bytes(value)]) for name, value in snapshot.header.items()}
    members["artifacts"] = _listed(_noted(snapshot.artifacts, written.sets.artifacts))
    members["tombstones"] = _listed(_tombstones(snapshot))
    members["disclosures"] = _listed(_noted(_followed(snapshot, written), written.sets.disclosures))
    members["recipients"] = _recipients(snapshot, written)  # after the disclosures, by name too
    members["records"] = _listed(_noted(_copied(snapshot, written, spools), written.sets.records))
    out = spools[EXPORT]
    for number, name in enumerate(sorted(members)):
        out.write((b"," if number else b"{") + canonical_bytes(name) + b":")
        for piece in members[name]:
            out.write(piece)
    out.write(b"}")
    return written


def _listed(entries: Iterable[JsonObject]) -> Iterator[bytes]:
    yield b"["
    for number, entry in enumerate(entries):
        yield (b"," if number else b"") + canonical_bytes(entry)
    yield b"]"


def _noted(entries: Iterable[JsonObject], leaves: list[str]) -> Iterator[JsonObject]:
    for entry in entries:
        leaves.append(hashlib.sha256(canonical_bytes(entry)).hexdigest())
        yield entry


def _tombstones(snapshot: Snapshot) -> Iterator[JsonObject]:
    for stone in snapshot.tombstones:
        yield {
            "tombstone_id": stone.tombstone_id,
            "memory_id": stone.memory_id,
            "erased_at": stone.erased_at,
            "cause": stone.cause.value,
            "receipt_hash": stone.receipt_hash,
        }


def _followed(snapshot: Snapshot, written: Written) -> Iterator[JsonObject]:
    """Yield the disclosures, and take down who made them."""
    for entry in snapshot.disclosures():
        ref, at = str(entry["recipient"]), entry["at"]
        assert isinstance(at, int), "we wrote it"  # noqa: S101
        name = entry["recipient_name"]
        known = written.recipients.setdefault(
            ref, Recipient(str(entry["recipient_kind"]), name if isinstance(name, str) else None, at, at)
        )
        known.first_at, known.last_at = min(known.first_at, at), max(known.last_at, at)
        known.access_count += 1
        known.verbs.add(str(entry["verb"]))
        if entry["purpose_code"]:
            known.purposes.add(str(entry["purpose_code"]))
        written.latest.append(entry)
        yield entry


def _recipients(snapshot: Snapshot, written: Written) -> Iterator[bytes]:
    """Yield everyone who had access, and everyone who holds something made from the memories. C-154/21."""
    told: list[Json] = [
        {
            "recipient": ref,
            "recipient_kind": one.kind,
            "recipient_name": one.name,
            "first_at": one.first_at,
            "last_at": one.last_at,
            "access_count": one.access_count,
            "verbs": [*sorted(one.verbs)],
            "purposes": [*sorted(one.purposes)],
        }
        for ref, one in sorted(written.recipients.items())
    ]
    holders: list[Json] = [
        {
            "recipient": one["id"],
            "recipient_kind": "external_artifact",
            "recipient_name": one["location_code"],
            "first_at": one["created_at"],
            "last_at": one["created_at"],
            "access_count": 1,
            "verbs": [one["kind"]],
            "purposes": [],
        }
        for one in snapshot.artifacts
    ]
    yield canonical_bytes([*told, *holders])


def _copied(snapshot: Snapshot, written: Written, spools: dict[str, Spool]) -> Iterator[JsonObject]:
    """Yield the memories, and write each into the other files on the way."""
    portable, paper = spools.get(PORTABLE), spools.get(PAGE)
    if paper is not None:
        paper.write(page.head(snapshot))
    for entry in snapshot.records():
        if portable is not None and _is_portable(entry):
            portable.write(canonical_bytes(_line(snapshot, entry)) + b"\n")
        if paper is not None:
            paper.write(page.memory(entry))
        yield entry
    if paper is not None:
        paper.write(page.rest(snapshot, written.recipients, written.latest))


def _is_portable(entry: JsonObject) -> bool:
    """Say whether Art. 20 covers it: what the person provided or we observed, not what was made from it."""
    return entry["text"] is not None and entry["source_kind"] != SourceKind.DERIVED


def _line(snapshot: Snapshot, entry: JsonObject) -> JsonObject:
    state = entry["state"]
    assert isinstance(state, dict), "we wrote it"  # noqa: S101
    kept = ("text", "semantic_type", "metadata", "metadata_text", "created_at", "source_kind", "lawful_basis")
    line = {name: entry[name] for name in (*kept, "purposes") if name in entry}
    return {
        "id": entry["memory_id"],
        "user_id": snapshot.wanted.user_id,
        "expires_at": state["expires_at"],
        **line,
    }
