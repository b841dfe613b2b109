"""What an export looks like. docs/spec/export.md §3."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from .answers import Proof, Statement
from .governed_answers import ConsentListed


class RecordState(TypedDict):
    """How a memory is kept."""

    readable: Literal["yes", "erased_meanwhile", "integrity_error"]
    recallable: bool
    restricted: list[str]
    consent: Literal["valid", "invalid", "not_needed", "basis_not_recorded"]
    expires_at: int | None
    expired: bool
    preserved_for_legal_reasons: bool


class RecordOrigin(TypedDict):
    """Where an imported memory came from."""

    format: str
    created_at: int | None


class ExportRecord(TypedDict):
    """One memory about the person; its text is data, never instructions."""

    memory_id: str
    text: str | None
    metadata: Statement
    metadata_text: NotRequired[str]
    semantic_type: str | None
    created_at: int
    source_kind: str
    origin: RecordOrigin | None
    lawful_basis: str
    purposes: list[str]
    derived_from: list[str]
    about_others: bool
    redacted: str | None
    state: RecordState


class ExportArtifact(TypedDict):
    """Something made from the person's memories outside the store."""

    id: str
    recallable: bool
    kind: str
    location_code: str | None
    created_at: int
    erasure_requested_at: int | None
    acknowledged_at: int | None


class ExportDisclosure(TypedDict):
    """One access to memories about the person."""

    audit_seq: int
    at: int
    recipient: str
    recipient_name: str | None
    recipient_kind: str
    verb: str
    purpose_code: str | None
    memory_ids: list[str]
    memory_count: int
    ground_code: str | None
    disclosed_to_ref: str | None
    receipt_hash: str | None


class ExportRecipient(TypedDict):
    """Who has had access, or holds something made from the memories."""

    recipient: str
    recipient_kind: str
    recipient_name: str | None
    first_at: int
    last_at: int
    access_count: int
    verbs: list[str]
    purposes: list[str]


class ExportTombstone(TypedDict):
    """What is left of an erased memory."""

    tombstone_id: str
    memory_id: str
    erased_at: int
    cause: str
    receipt_hash: str


class ErasureRequest(TypedDict):
    """A request to be forgotten, and how far it has come."""

    request_id: str
    requested_at: int
    matched_count: int
    erased_count: int


class ExportRedaction(TypedDict):
    """A memory whose words are left out, and why."""

    memory_id: str
    code: str


class ExportDocument(TypedDict):
    """Everything about one person at one point of the receipt log."""

    artifacts: list[ExportArtifact]
    as_of_seq: int
    consents: list[ConsentListed]
    disclosures: list[ExportDisclosure]
    erasure_pending_count: int
    erasure_requests: list[ErasureRequest]
    export_id: str
    format: Literal["shomei-export/v1"]
    generated_at: int
    identity_check_code: str | None
    log_origin: str
    preserved_for_legal_reasons: bool
    processing: dict[str, str | None]
    recipients: list[ExportRecipient]
    records: list[ExportRecord]
    redactions: list[ExportRedaction]
    subject: str
    subject_pseudonym: str
    tenant: str
    tenant_id_hash: str
    tombstones: list[ExportTombstone]
    update_pending_count: int


class ExportManifest(TypedDict):
    """The files that the witness binds, as name and SHA-256, and the nonce that only the package holds."""

    files: list[list[str]]
    format: Literal["shomei-export-manifest/v1"]
    nonce: str


class ExportAnswer(Proof):
    """An export with its manifest and its witness."""

    export: ExportDocument
    manifest: ExportManifest
