"""One body for every schema of docs/spec/receipt.md §7, as the service would sign it."""

from __future__ import annotations

HEADER: dict[str, object] = {
    "tenant_id_hash": "hmac-sha256:" + "1a" * 32,
    "applied_at": 1781585654,
    "actor_ref": "key_0123456789abcdef",
    "commit_key_id": "ck_fedcba9876543210",
    "log": {"origin": "shomei/" + "0f" * 16, "seq": 17, "issued_at": 1781585655},
}
MEMORY = "lm_" + "2b" * 16
TOMBSTONE = "ts_" + "3c" * 16
SUBJECT = "hmac-sha256:" + "4d" * 32
COMMITMENT = "hmac-sha256:" + "5e" * 32
ARTIFACT = "artifact:" + "6f" * 16

HARDWARE: dict[str, object] = {
    "key_custody": "hsm_pkcs11",
    "erase_method": "pprf_puncture_v1",
    "epoch_before": 41,
    "epoch_after": 42,
    "destroy_method": "pkcs11_destroy_object",
    "finality": "final",
    "key_final_at": 1781585653,
    "resurrection_bound_at": 1784177653,
    "physical_purge_state": "key_destroyed",
}
DEVELOPMENT: dict[str, object] = {
    **HARDWARE,
    "key_custody": "dev_local_file",
    "destroy_method": "file_overwrite_unlink",
    "finality": "unassured",
    "resurrection_bound_at": None,
    "physical_purge_state": "ciphertext_deleted",
}
SCHEDULED: dict[str, object] = {
    **HARDWARE,
    "key_custody": "kms_aws",
    "destroy_method": "kms_schedule_deletion",
    "finality": "scheduled",
    "key_final_at": 1782190453,
    "resurrection_bound_at": 1782190453,
    "physical_purge_state": "purged_verified",
}


def body(schema: str, **fields: object) -> dict[str, object]:
    return {"schema": f"shomei.{schema}.v1", **HEADER, **fields}


def closure(
    matched: int, erased: int, deferred: int, disposition: str, **fields: object
) -> dict[str, object]:
    return body(
        "subject_closure",
        **{
            "subject_pseudonym": SUBJECT,
            "matched_count": matched,
            "erased_count": erased,
            "deferred_count": deferred,
            "disposition": disposition,
            "match_basis": "subject_exact_plus_derived",
            "closed_set_commitment": COMMITMENT,
            "closed_set_size": erased,
            "request_id": "obl_" + "7a" * 16,
            "prior_closure_hash": None,
            "derived_erased_count": 0,
            "external_artifact_count": 0,
            "external_ack_count": 0,
            **fields,
        },
    )


DELETION: dict[str, object] = {
    "memory_id": MEMORY,
    "tombstone_id": TOMBSTONE,
    "subject_pseudonym": SUBJECT,
    "cause": "delete_request",
    "basis": "subject_request",
    "retirement_hashes": [COMMITMENT],
    "embedding_retired": True,
    "derived_affected_count": 0,
    "obligation_id": None,
}
HOLD: dict[str, object] = {"hold_id": "hold_" + "8b" * 16, "matter_ref_hmac": COMMITMENT}

# Every schema at least once; where the page differs by a field's value, once for each.
EXAMPLES: dict[str, dict[str, object]] = {
    "memory_add": body(
        "memory_add",
        memory_id=MEMORY,
        subject_pseudonym=SUBJECT,
        semantic_type="preference",
        lawful_basis="consent",
        purpose_codes=["support", "quality"],
        source_kind="provided",
        derived_from_count=0,
        held_on_arrival=False,
        expires_at=1784177654,
        key_custody="vault_transit",
    ),
    "memory_add_without_subject": body(
        "memory_add",
        memory_id=MEMORY,
        subject_pseudonym=None,
        semantic_type_ref=COMMITMENT,
        lawful_basis="not_recorded",
        purpose_codes=[],
        source_kind="observed",
        derived_from_count=0,
        held_on_arrival=False,
        expires_at=None,
        key_custody="dev_local_file",
    ),
    "memory_update": body(
        "memory_update",
        memory_id="lm_" + "9c" * 16,
        previous_id=MEMORY,
        tombstone_id=TOMBSTONE,
        cause="superseded_update",
        carried=["lawful_basis", "purposes"],
        retirement_hashes=[COMMITMENT],
        **HARDWARE,
    ),
    "vector_delete_hardware": body("vector_delete", **DELETION, **HARDWARE),
    "vector_delete_development": body("vector_delete", **DELETION, **DEVELOPMENT),
    "vector_delete_scheduled": body("vector_delete", **DELETION, **SCHEDULED),
    "restriction_applied": body(
        "restriction",
        memory_id=MEMORY,
        action="applied",
        restricted_state=True,
        reason_code="art18_request",
        ground_count=1,
        notice_recorded=False,
    ),
    "restriction_lifted": body(
        "restriction",
        memory_id=MEMORY,
        action="lifted",
        restricted_state=False,
        reason_code="art18_lifted",
        ground_count=0,
        notice_recorded=True,
    ),
    "restriction_lifted_in_part": body(
        "restriction",
        memory_id=MEMORY,
        action="lifted",
        restricted_state=True,
        reason_code="art18_lifted",
        ground_count=1,
        notice_recorded=True,
    ),
    "subject_closure_no_match": closure(0, 0, 0, "noop_no_match"),
    "subject_closure_complete": closure(5, 5, 0, "complete", derived_erased_count=1),
    "subject_closure_deferred": closure(2, 0, 2, "deferred"),
    "subject_closure_partial": closure(
        5, 4, 1, "partial", derived_erased_count=1, external_artifact_count=2, external_ack_count=1
    ),
    "legal_hold_placed": body(
        "legal_hold",
        **HOLD,
        action="placed",
        scope="subject",
        subject_pseudonym=SUBJECT,
        authority_code="litigation",
        obligations_fired=0,
    ),
    "legal_hold_released": body(
        "legal_hold",
        **HOLD,
        action="released",
        scope="memory",
        memory_id=MEMORY,
        release_code="matter_closed",
        obligations_fired=1,
    ),
    "consent": body(
        "consent",
        subject_pseudonym=SUBJECT,
        purpose_code="support",
        action="withdrawn",
        affected_count=3,
        evidence_ref_hmac=COMMITMENT,
    ),
    "access_export": body(
        "access_export",
        export_id="exp_" + "ad" * 16,
        subject_pseudonym=SUBJECT,
        as_of_seq=3,
        record_count=4,
        record_set_commitment=COMMITMENT,
        artifacts=[{"id": ARTIFACT, "recallable": False}],
        artifact_count=1,
        artifact_set_commitment=COMMITMENT,
        disclosure_count=2,
        disclosure_set_commitment=COMMITMENT,
        tombstone_count=1,
        package_digest="sha256:" + "be" * 32,
    ),
    "disclosure": body(
        "disclosure",
        memory_id=MEMORY,
        ground_code="art18_2_legal_claims",
        recipient_ref=COMMITMENT,
    ),
    "derived_artifact": body(
        "derived_artifact", artifact_id=ARTIFACT, kind="summary", source_ids=[MEMORY], recallable=True
    ),
    "physical_purge": body(
        "physical_purge",
        tombstone_ids_commitment=COMMITMENT,
        count=7,
        method_code="sqlite_wal_truncated",
        physical_purge_state="purged_verified",
    ),
    "reerase": body(
        "reerase",
        memory_id=MEMORY,
        tombstone_id=TOMBSTONE,
        original_epoch=42,
        backup_detected=True,
        **HARDWARE,
    ),
    "key_rotation": body(
        "key_rotation", key_role="signer", old_key_id="key-of-2025", new_key_id="key-of-2026"
    ),
    "log_restart": body("log_restart", previous_origin="shomei/" + "cf" * 16, previous_next_seq=120),
    "trust": {
        "schema": "shomei.trust.v1",
        "version": 2,
        "prev": "sha256:" + "d0" * 32,
        "issued_at": 1781587600,
        "root_public_key_hex": "e1" * 32,
        "logs": [],
        "keys": [],
        "witnesses": [],
        "quorum": 0,
    },
}
