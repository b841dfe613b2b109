"""One builder per receipt schema: the fields beyond the header. SEMANTICS.md §15, CUSTODY.md §6."""

from dataclasses import dataclass
from enum import StrEnum

from ..model import Basis, Cause, Disposition, Json, JsonObject, LawfulBasis, MemoryId, Pseudonym, PurgeState


class Schema(StrEnum):
    """The schemas this service issues."""

    MEMORY_ADD = "shomei.memory_add.v1"
    VECTOR_DELETE = "shomei.vector_delete.v1"
    SUBJECT_CLOSURE = "shomei.subject_closure.v1"
    REERASE = "shomei.reerase.v1"
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
    """A body without its header, and the memory it is about."""

    schema: Schema
    memory_id: MemoryId | None
    fields: JsonObject


def memory_add(
    *,
    memory_id: MemoryId,
    subject: Pseudonym | None,
    semantic: tuple[str, str],
    lawful_basis: LawfulBasis,
    key_custody: str,
) -> Draft:
    """A memory was stored. `semantic` is the field (`semantic_type` or its `_ref`) and its value."""
    name, value = semantic
    fields: JsonObject = {
        "memory_id": memory_id,
        "subject_pseudonym": subject,
        name: value,
        "lawful_basis": lawful_basis.value,
        "purpose_codes": [],
        "source_kind": "provided",
        "derived_from_count": 0,
        "held_on_arrival": False,
        "expires_at": None,
        "key_custody": key_custody,
    }
    return Draft(Schema.MEMORY_ADD, memory_id, fields)


def vector_delete(
    *,
    memory_id: MemoryId,
    tombstone_id: str,
    subject: Pseudonym | None,
    cause: Cause,
    basis: Basis,
    retirement_hashes: list[str],
    destruction: KeyDestruction,
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
        "derived_affected_count": 0,
        "obligation_id": None,
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


def subject_closure(
    *, subject: Pseudonym, request_id: str, matched: int, erased: int, closed_set: tuple[str, int]
) -> Draft:
    """A subject was forgotten. `closed_set` is the commitment and how many tombstones it covers."""
    commitment, size = closed_set
    fields: dict[str, Json] = {
        "subject_pseudonym": subject,
        "matched_count": matched,
        "erased_count": erased,
        "deferred_count": matched - erased,
        "disposition": disposition(matched, erased).value,
        "match_basis": "subject_exact",
        "closed_set_commitment": commitment,
        "closed_set_size": size,
        "request_id": request_id,
        "prior_closure_hash": None,
        "derived_erased_count": 0,
        "external_artifact_count": 0,
        "external_ack_count": 0,
    }
    return Draft(Schema.SUBJECT_CLOSURE, None, fields)


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


def log_restart(*, previous_origin: str, previous_next_seq: int) -> Draft:
    """The database came back older than its receipt log; the log goes on under a new origin."""
    fields: JsonObject = {"previous_origin": previous_origin, "previous_next_seq": previous_next_seq}
    return Draft(Schema.LOG_RESTART, None, fields)
