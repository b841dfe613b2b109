"""One builder per receipt schema: the fields beyond the header. SEMANTICS.md §15, CUSTODY.md §6."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..model import (
    ArtifactKind,
    Basis,
    Cause,
    ConsentAction,
    DisclosureGround,
    Disposition,
    Hold,
    HoldScope,
    JsonObject,
    MemoryId,
    NewMemory,
    Pseudonym,
    PurgeState,
    SourceKind,
)


class Schema(StrEnum):
    """The schemas this service issues."""

    MEMORY_ADD = "shomei.memory_add.v1"
    MEMORY_UPDATE = "shomei.memory_update.v1"
    VECTOR_DELETE = "shomei.vector_delete.v1"
    RESTRICTION = "shomei.restriction.v1"
    LEGAL_HOLD = "shomei.legal_hold.v1"
    CONSENT = "shomei.consent.v1"
    DISCLOSURE = "shomei.disclosure.v1"
    DERIVED_ARTIFACT = "shomei.derived_artifact.v1"
    ACCESS_EXPORT = "shomei.access_export.v1"
    SUBJECT_CLOSURE = "shomei.subject_closure.v1"
    REERASE = "shomei.reerase.v1"
    KEY_ROTATION = "shomei.key_rotation.v1"
    LOG_RESTART = "shomei.log_restart.v1"


@dataclass(frozen=True, slots=True)
class KeyDestruction:
    """What custody says of one destroyed key, in receipt terms. Times are epoch seconds."""

    key_custody: str
    epoch_before: int
    epoch_after: int
    destroy_method: str
    finality: str
    key_final_at: int | None
    resurrection_bound_at: int | None

    def fields(self) -> JsonObject:
        """Return the custody fields of an erasing receipt."""
        return {
            "key_custody": self.key_custody,
            "erase_method": "pprf_puncture_v1",
            "epoch_before": self.epoch_before,
            "epoch_after": self.epoch_after,
            "destroy_method": self.destroy_method,
            "finality": self.finality,
            "key_final_at": self.key_final_at,
            "resurrection_bound_at": self.resurrection_bound_at,
        }


@dataclass(frozen=True, slots=True)
class Draft:
    """A body without its header, and what it is about: a memory, or for a closure its request."""

    schema: Schema
    about: str | None
    fields: JsonObject


def memory_add(
    *,
    memory_id: MemoryId,
    subject: Pseudonym | None,
    semantic: tuple[str, str],
    new: NewMemory,
    source_kind: SourceKind,
    held_on_arrival: bool,
    key_custody: str,
) -> Draft:
    """A memory was stored. `semantic` is the field (`semantic_type` or its `_ref`) and its value."""
    name, value = semantic
    fields: JsonObject = {
        "memory_id": memory_id,
        "subject_pseudonym": subject,
        name: value,
        "lawful_basis": new.lawful_basis.value,
        "purpose_codes": [*sorted(new.purposes)],
        "source_kind": source_kind.value,
        "derived_from_count": len(new.derived_from),
        "held_on_arrival": held_on_arrival,
        "expires_at": new.expires_at,
        "key_custody": key_custody,
    }
    return Draft(Schema.MEMORY_ADD, memory_id, fields)


def memory_update(
    *,
    memory_id: MemoryId,
    previous_id: MemoryId,
    tombstone_id: str,
    carried: Sequence[str],
    retirement_hashes: Sequence[str],
    destruction: KeyDestruction,
) -> Draft:
    """A memory was replaced: its predecessor is erased, the successor carries its governance on."""
    fields: JsonObject = {
        "memory_id": memory_id,
        "previous_id": previous_id,
        "tombstone_id": tombstone_id,
        "cause": Cause.SUPERSEDED_UPDATE.value,
        "physical_purge_state": PurgeState.KEY_DESTROYED.value,
        "carried": [*carried],
        "retirement_hashes": [*retirement_hashes],
        **destruction.fields(),
    }
    return Draft(Schema.MEMORY_UPDATE, memory_id, fields)


def restriction(
    *, memory_id: MemoryId, action: str, reason: str, ground_count: int, notice_recorded: bool = False
) -> Draft:
    """A ground of restriction was `applied` or `lifted`; the state is what holds now."""
    fields: JsonObject = {
        "memory_id": memory_id,
        "action": action,
        "restricted_state": ground_count > 0,
        "reason_code": reason,
        "ground_count": ground_count,
        "notice_recorded": notice_recorded,
    }
    return Draft(Schema.RESTRICTION, memory_id, fields)


def legal_hold(
    hold: Hold, *, action: str, code: str, matter_ref_hmac: str | None, obligations_fired: int
) -> Draft:
    """A legal hold was `placed` or `released`; `code` is its authority or why it was released."""
    target: JsonObject = (
        {"memory_id": hold.memory_id}
        if hold.scope is HoldScope.MEMORY
        else {"subject_pseudonym": hold.subject}
    )
    fields: JsonObject = {
        "hold_id": hold.hold_id,
        "action": action,
        "scope": hold.scope.value,
        **target,
        "authority_code" if action == "placed" else "release_code": code,
        "matter_ref_hmac": matter_ref_hmac,
        "obligations_fired": obligations_fired,
    }
    return Draft(Schema.LEGAL_HOLD, hold.memory_id, fields)


def consent(
    *, subject: Pseudonym, purpose: str, action: ConsentAction, affected: int, evidence_ref_hmac: str | None
) -> Draft:
    """A subject granted or withdrew consent to a purpose."""
    fields: JsonObject = {
        "subject_pseudonym": subject,
        "purpose_code": purpose,
        "action": action.value,
        "affected_count": affected,
        "evidence_ref_hmac": evidence_ref_hmac,
    }
    return Draft(Schema.CONSENT, None, fields)


def disclosure(*, memory_id: MemoryId, ground: DisclosureGround, recipient_ref: str | None) -> Draft:
    """A memory was read outside recall, on a stated ground."""
    fields: JsonObject = {"memory_id": memory_id, "ground_code": ground.value, "recipient_ref": recipient_ref}
    return Draft(Schema.DISCLOSURE, memory_id, fields)


def derived_artifact(*, artifact_id: str, kind: ArtifactKind, source_ids: Sequence[str]) -> Draft:
    """Something made from memories was registered; it may be used while all its sources may."""
    fields: JsonObject = {
        "artifact_id": artifact_id,
        "kind": kind.value,
        "source_ids": [*source_ids],
        "recallable": True,
    }
    return Draft(Schema.DERIVED_ARTIFACT, None, fields)


def access_export(*, export_id: str, subject: Pseudonym, witnessed: JsonObject) -> Draft:
    """A subject's data was exported. `witnessed` is what the export counts and commits to, export.md §5."""
    fields: JsonObject = {"export_id": export_id, "subject_pseudonym": subject, **witnessed}
    return Draft(Schema.ACCESS_EXPORT, export_id, fields)


def vector_delete(
    *,
    memory_id: MemoryId,
    tombstone_id: str,
    subject: Pseudonym | None,
    cause: Cause,
    basis: Basis,
    retirement_hashes: Sequence[str],
    destruction: KeyDestruction,
    derived_affected: int = 0,
    obligation_id: str | None = None,
) -> Draft:
    """A memory was erased: its key is destroyed, its row and vectors deleted."""
    fields: JsonObject = {
        "memory_id": memory_id,
        "tombstone_id": tombstone_id,
        "subject_pseudonym": subject,
        "physical_purge_state": PurgeState.KEY_DESTROYED.value,
        "cause": cause.value,
        "basis": basis.value,
        "retirement_hashes": [*retirement_hashes],
        "embedding_retired": True,
        "derived_affected_count": derived_affected,
        "obligation_id": obligation_id,
        **destruction.fields(),
    }
    return Draft(Schema.VECTOR_DELETE, memory_id, fields)


def disposition(matched: int, erased: int) -> Disposition:
    """Return the one word for m matched and e erased. SEMANTICS.md §8."""
    if matched == 0:
        return Disposition.NOOP_NO_MATCH
    if erased == matched:
        return Disposition.COMPLETE
    return Disposition.PARTIAL if erased else Disposition.DEFERRED


@dataclass(frozen=True, slots=True)
class ClosureCounts:
    """What a forget request has come to so far; m = e + d always."""

    matched: int
    erased: int
    derived_matched: int
    derived_erased: int
    artifacts: int
    artifacts_acknowledged: int


def subject_closure(
    *,
    subject: Pseudonym,
    request_id: str,
    counts: ClosureCounts,
    closed_set: tuple[str, int],
    prior_closure_hash: str | None,
) -> Draft:
    """A subject was forgotten. `closed_set` is the commitment and how many tombstones it covers."""
    commitment, size = closed_set
    fields: JsonObject = {
        "subject_pseudonym": subject,
        "matched_count": counts.matched,
        "erased_count": counts.erased,
        "deferred_count": counts.matched - counts.erased,
        "disposition": disposition(counts.matched, counts.erased).value,
        "match_basis": "subject_exact_plus_derived" if counts.derived_matched else "subject_exact",
        "closed_set_commitment": commitment,
        "closed_set_size": size,
        "request_id": request_id,
        "prior_closure_hash": prior_closure_hash,
        "derived_erased_count": counts.derived_erased,
        "external_artifact_count": counts.artifacts,
        "external_ack_count": counts.artifacts_acknowledged,
    }
    return Draft(Schema.SUBJECT_CLOSURE, request_id, fields)


def reerase(
    *, memory_id: MemoryId, tombstone_id: str, original_epoch: int, destruction: KeyDestruction
) -> Draft:
    """A restored database brought back a row whose key custody had already destroyed; it is gone again."""
    fields: JsonObject = {
        "memory_id": memory_id,
        "tombstone_id": tombstone_id,
        "original_epoch": original_epoch,
        "backup_detected": True,
        **destruction.fields(),
    }
    return Draft(Schema.REERASE, memory_id, fields)
