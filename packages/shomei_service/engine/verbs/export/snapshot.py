"""What is read of a person: the entries of an export, made in one snapshot. docs/spec/export.md §2-§3."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ... import limits, policy
from ...custody import Punctured
from ...errors import IntegrityFault
from ...model import (
    Content,
    Json,
    JsonObject,
    LawfulBasis,
    Life,
    MemoryId,
    MemoryRow,
    Pseudonym,
    Redaction,
    SourceKind,
    Tenant,
    Tombstone,
)
from ...parts import Engine
from ...receipts.commitments import Commitments
from ...store import audit, consents, exports, holds, lineage, receipts, restrictions, tombstones
from ...store.audit import AuditEvent
from ...store.exports import Facts
from ...store.unit import Unit
from . import wording

_EVENTS = 250
_READS = frozenset({"get", "list", "search", "verify", "lineage", "disclose", "export", "consents"})
_LARGEST = 2**53 - 1  # RFC 7493 §2.2; beyond it a number is no number everywhere


class Form(StrEnum):
    """What is wanted: the data alone, or the package with the files for reading and for moving on."""

    JSON = "json"
    ZIP = "zip"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose data, and what the tenant decided about the request."""

    user_id: str
    identity_check: str | None = None
    redactions: Mapping[str, Redaction] = field(default_factory=dict[str, Redaction])
    export_id: str = ""


@dataclass(slots=True)
class Snapshot:
    """One person at one point in time."""

    engine: Engine
    unit: Unit
    tenant: Tenant
    wanted: Wanted
    subject: Pseudonym
    now: int
    header: JsonObject
    ids: list[MemoryId]
    artifacts: list[JsonObject]
    tombstones: list[Tombstone]

    @classmethod
    def of(
        cls, engine: Engine, unit: Unit, tenant: Tenant, commitments: Commitments, wanted: Wanted
    ) -> "Snapshot":
        """Read all but the memories and the disclosures, which are read while they are written."""
        subject, now = commitments.subject(wanted.user_id), engine.clock.now()
        lives = exports.ids_by_life(unit, subject)
        header: JsonObject = {
            "consents": _consents(unit, subject),
            "erasure_pending_count": len(lives[Life.ERASING]),
            "erasure_requests": _requests(unit, subject),
            "export_id": wanted.export_id,
            "format": "shomei-export/v1",
            "generated_at": now,
            "identity_check_code": wanted.identity_check,
            "log_origin": tenant.log_origin,
            "as_of_seq": tenant.next_seq,
            "preserved_for_legal_reasons": bool(holds.subjects_held(unit, [subject])),
            "processing": wording.processing(tenant.policies),
            "redactions": [
                {"memory_id": one, "code": code.value} for one, code in sorted(wanted.redactions.items())
            ],
            "subject": wanted.user_id,
            "subject_pseudonym": subject,
            "tenant": tenant.label,
            "tenant_id_hash": commitments.tenant(tenant.tenant_id),
            "update_pending_count": len(lives[Life.PENDING]),
        }
        return cls(
            engine,
            unit,
            tenant,
            wanted,
            subject,
            now,
            header,
            ids=lives[Life.LIVE],
            artifacts=_artifacts(unit, subject, now),
            tombstones=tombstones.about(unit, subject),
        )

    def records(self) -> Iterator[JsonObject]:
        """Yield every memory that is about the person, whatever state it is kept in."""
        for rows in exports.pages(self.unit, self.subject):
            ids = [row.memory_id for row in rows]
            facts, held = exports.facts(self.unit, ids), holds.held_among(self.unit, ids)
            for row in rows:
                yield self._record(row, facts, is_held=row.memory_id in held)

    def disclosures(self) -> Iterator[JsonObject]:
        """Yield every access on record to what is about the person, oldest first."""
        mine, after = {*self.ids, *(stone.memory_id for stone in self.tombstones)}, -1
        while events := audit.page(self.unit, after, _EVENTS, subject=self.subject):
            after = events[-1].seq
            counts = audit.count_for(self.unit, self.subject, [one.seq for one in events])
            proofs = receipts.of_hashes(
                self.unit, {one.access.receipt_hash for one in events if one.access.receipt_hash}
            )
            for one in events:
                access = one.access
                if access.outcome == "ok" and access.verb in _READS and counts[one.seq]:
                    proof = proofs.get(access.receipt_hash or "")
                    yield self._disclosure(one, counts[one.seq], mine, proof.body if proof else {})

    def _record(self, row: MemoryRow, facts: Facts, *, is_held: bool) -> JsonObject:
        code = self.wanted.redactions.get(row.memory_id)
        readable, content = self._opened(row)
        shown = content is not None and code is None
        imported = facts.imported.get(row.memory_id)
        return {
            "memory_id": row.memory_id,
            "text": content.text if content and shown else None,
            **(_metadata(content) if content and shown else {"metadata": {}}),
            "semantic_type": content.semantic_type if content else None,
            "created_at": row.created_at,
            "source_kind": row.source_kind.value,
            "origin": {"format": imported[0], "created_at": imported[1]} if imported else None,
            "lawful_basis": row.lawful_basis.value,
            "purposes": [*facts.purposes.get(row.memory_id, ())],
            "derived_from": [*facts.sources.get(row.memory_id, ())],
            "about_others": len(facts.subjects.get(row.memory_id, ())) > 1,
            "redacted": code.value if code else None,
            "state": {
                "readable": readable,
                "recallable": content is not None and self._is_recallable(row),
                "restricted": [*facts.grounds.get(row.memory_id, ())],
                "consent": _consent(row),
                "expires_at": row.expires_at,
                "expired": row.expires_at is not None and row.expires_at <= self.now,
                "preserved_for_legal_reasons": is_held,
            },
        }

    def _opened(self, row: MemoryRow) -> tuple[str, Content | None]:
        try:
            return "yes", self.engine.rows.open_content(self.unit.tenant, row)
        except Punctured:
            return "erased_meanwhile", None  # live in this snapshot, and gone when it was its turn
        except IntegrityFault:
            return "integrity_error", None  # I-16: said, never guessed

    def _is_recallable(self, row: MemoryRow) -> bool:
        if not policy.is_recallable(row, self.now):
            return False
        derived = row.source_kind is SourceKind.DERIVED
        return not (derived and restrictions.hidden_sources(self.unit, row.memory_id, self.now))

    def _disclosure(
        self, event: AuditEvent, count: int, mine: set[MemoryId], proof: Mapping[str, Json]
    ) -> JsonObject:
        access = event.access
        return {
            "audit_seq": event.seq,
            "at": access.at,
            "recipient": access.actor,
            "recipient_name": self.tenant.policies.texts.get(access.actor),
            "recipient_kind": str(event.told()["actor_kind"]),
            "verb": access.verb,
            "purpose_code": access.purpose,
            "memory_ids": [one for one in access.memory_ids if one in mine],
            "memory_count": count,
            "ground_code": proof.get("ground_code"),
            "disclosed_to_ref": proof.get("recipient_ref"),
            "receipt_hash": access.receipt_hash,
        }


def _metadata(content: Content) -> JsonObject:
    """Return the metadata as it is, or as the text it is stored as where JSON elsewhere could not hold it."""
    if _is_portable(content.metadata):
        return {"metadata": content.metadata}
    return {"metadata": {}, "metadata_text": wording.json_text(content.metadata)}


def _is_portable(value: Json, depth: int = 0) -> bool:
    if isinstance(value, dict | list):
        children = value.values() if isinstance(value, dict) else value
        return depth < limits.JSON_DEPTH and all(_is_portable(child, depth + 1) for child in children)
    return not isinstance(value, int) or -_LARGEST <= value <= _LARGEST


def _consent(row: MemoryRow) -> str:
    if row.lawful_basis is LawfulBasis.NOT_RECORDED:
        return "basis_not_recorded"
    if row.lawful_basis is not LawfulBasis.CONSENT:
        return "not_needed"
    return "valid" if row.consented else "invalid"


def _consents(unit: Unit, subject: Pseudonym) -> list[Json]:
    return [
        {
            "purpose": one.purpose,
            "action": one.action.value,
            "at": one.at,
            "policy_version": one.policy_version,
            "channel_code": one.channel_code,
        }
        for one in consents.of_subject(unit, subject)
    ]


def _requests(unit: Unit, subject: Pseudonym) -> list[Json]:
    return [
        {
            "request_id": one.request_id,
            "requested_at": one.requested_at,
            "matched_count": one.matched_count,
            "erased_count": one.erased_count,
        }
        for one in exports.asked(unit, subject)
    ]


def _artifacts(unit: Unit, subject: Pseudonym, now: int) -> list[JsonObject]:
    """Return what was made from the person's memories outside the store, erased memories included."""
    below = lineage.closure(unit, lineage.about(unit, subject))
    return [
        {
            "id": one.artifact_id,
            "recallable": one.erasure_requested_at is None
            and not restrictions.hidden_sources(unit, one.artifact_id, now),
            "kind": one.kind.value,
            "location_code": one.location_code,
            "created_at": one.created_at,
            "erasure_requested_at": one.erasure_requested_at,
            "acknowledged_at": one.acknowledged_at,
        }
        for one in exports.artifacts_among(unit, below)
    ]
