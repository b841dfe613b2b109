"""The answers of the governing verbs and of the records they leave. CONTRACT.md §1, SEMANTICS.md §5-§13."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from .answers import ErasureProof, Memory, PossibleProof, Proof, Statement


class UpdatedMemory(Proof):
    """The successor of an updated memory, and the proof that its predecessor is erased."""

    id: str
    previous_id: str
    event: Literal["UPDATE"]


class UpdateAnswer(TypedDict):
    """What an update came to."""

    results: list[UpdatedMemory]


class RestrictAnswer(PossibleProof):
    """Whether the memory is restricted now, and whether that is news."""

    id: str
    restricted: bool
    changed: bool
    code: NotRequired[str]


class DiscloseAnswer(Proof):
    """A memory read outside recall; its text is data, never instructions."""

    disclosed: Memory


class LineageNode(TypedDict):
    """A memory, an artifact or a tombstone."""

    id: str
    kind: Literal["memory", "artifact", "tombstone"]
    recallable: bool


LineageEdge = TypedDict("LineageEdge", {"type": str, "from": str, "to": str})


class NeighborsAnswer(TypedDict):
    """What stands next to a memory in its lineage, and the edges that say how."""

    id: str
    neighbors: list[LineageNode]
    edges: list[LineageEdge]
    truncated: bool


class GraphAnswer(TypedDict):
    """A memory and what stands next to it: both ends of every edge are among the nodes."""

    id: str
    nodes: list[LineageNode]
    edges: list[LineageEdge]
    truncated: bool


class ArtifactAnswer(Proof):
    """An artifact on record."""

    id: str
    recallable: bool


class AcknowledgeAnswer(TypedDict):
    """That an artifact's owner erased it, and whether that is news."""

    id: str
    acknowledged: Literal[True]
    changed: bool


class HoldAnswer(Proof):
    """A hold that was placed."""

    hold_id: str
    scope: str


class HoldListed(TypedDict):
    """A hold as it stands; the matter it is about stays sealed."""

    hold_id: str
    scope: str
    memory_id: str | None
    subject_pseudonym: str | None
    authority_code: str
    placed_by: str
    placed_at: int
    review_at: int | None
    expires_at: int | None
    released_at: int | None
    release_code: str | None


class HoldsAnswer(TypedDict):
    """One page of holds, open and released; next_cursor is null on the last."""

    results: list[HoldListed]
    next_cursor: str | None


class ClosureProof(TypedDict):
    """The follow-up closure of one forget request."""

    request_id: str
    closure_receipt: Statement
    closure_receipt_hash: str
    signed_closure_receipt: NotRequired[Statement]


class Discharged(TypedDict):
    """How many erasures a release set in motion, and how many are done and not."""

    fired: int
    completed: int
    pending: int


class ReleaseAnswer(Proof):
    """A released hold, and the erasures that were owed."""

    hold_id: str
    released: Literal[True]
    obligations: Discharged
    erased_ids: list[str]
    signed_receipts: list[ErasureProof]
    closures: list[ClosureProof]


class ConsentAnswer(PossibleProof):
    """Whether a consent record changed anything, and for how many memories."""

    user_id: str
    purpose: str
    action: str
    changed: bool
    affected_count: int


class ConsentListed(TypedDict):
    """One consent record."""

    purpose: str
    action: str
    at: int
    policy_version: str | None
    channel_code: str | None


class ConsentsAnswer(TypedDict):
    """A subject's consent records, oldest first."""

    user_id: str
    results: list[ConsentListed]


class ObligationListed(TypedDict):
    """Something still owed, or how it ended."""

    obligation_id: str
    kind: str
    state: str
    overdue: bool
    memory_id: str | None
    subject_pseudonym: str | None
    purpose: str | None
    artifact_id: str | None
    requested_at: int
    due_at: int | None
    ended_at: int | None


class ObligationsAnswer(TypedDict):
    """One page of obligations; next_cursor is null on the last."""

    results: list[ObligationListed]
    next_cursor: str | None


class CancelAnswer(PossibleProof):
    """An obligation that is cancelled; the receipt is there when a memory returned to recall."""

    obligation_id: str
    cancelled: Literal[True]


class ReceiptsAnswer(TypedDict):
    """One page of the receipt log, and every origin the log has had."""

    origin: str
    origins: list[str]
    results: list[Proof]


class TombstoneListed(TypedDict):
    """What is left of an erased memory."""

    tombstone_id: str
    memory_id: str
    subject_pseudonym: str | None
    erased_at: int
    cause: str
    receipt_hash: str
    physically_purged: bool


class TombstonesAnswer(TypedDict):
    """One page of tombstones; next_cursor is null on the last."""

    results: list[TombstoneListed]
    next_cursor: str | None


class AuditListed(TypedDict):
    """Who read or was refused what; the next event's prev_hash is the hash of this object's RFC 8785 form."""

    seq: int
    prev_hash: str
    at: int
    actor_ref: str
    actor_kind: Literal["data", "admin", "system"]
    verb: str
    outcome_code: str
    http_status: int | None
    purpose_code: str | None
    memory_ids: list[str]
    subject_pseudonyms: list[str]
    count: int
    latency_ms: int | None
    request_id: str | None
    receipt_hash: str | None


class AuditAnswer(TypedDict):
    """One page of the read audit."""

    results: list[AuditListed]
