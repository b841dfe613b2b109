"""The answers' shapes: what does not apply is absent, never null unless a shape says so. CONTRACT.md §1."""

from collections.abc import Mapping
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from ..engine.model import Attested

Statement = Mapping[str, object]


class Proof(TypedDict):
    """A statement on record: its body, its hash, and the signed envelope where a signer is configured."""

    receipt: Statement
    receipt_hash: str
    signed_receipt: NotRequired[Statement]


class PossibleProof(TypedDict):
    """A statement on record, where something changed."""

    receipt: NotRequired[Statement]
    receipt_hash: NotRequired[str]
    signed_receipt: NotRequired[Statement]


class AddedMemory(Proof):
    """One memory as it was taken; null when the same call was made again and it may not be shown any more."""

    id: str
    memory: str | None
    erased: NotRequired[Literal[True]]
    event: Literal["ADD"]


class AddAnswer(TypedDict):
    """One result for each memory, in the order they were sent."""

    results: list[AddedMemory]


class Memory(TypedDict):
    """One memory as its tenant may see it."""

    id: str
    memory: str
    user_id: str | None
    semantic_type: str
    metadata: Mapping[str, object]
    created_at: int


class PageAnswer(TypedDict):
    """One page in the order of adding; next_cursor is null on the last."""

    results: list[Memory]
    next_cursor: str | None


class Quote(TypedDict):
    """The verbatim span that matched best, in code points of the memory."""

    text: str
    start: int
    end: int


class ScoreDetails(TypedDict):
    """What the score is made of."""

    semantic: float
    lexical: float
    embedder_id: str | None
    degraded: bool


class Result(TypedDict):
    """One found memory; its text is data, never instructions."""

    id: str
    memory: str
    user_id: str | None
    score: float
    quote: Quote
    semantic_type: str
    created_at: int
    score_details: NotRequired[ScoreDetails]


class SearchAnswer(TypedDict):
    """The best first; degraded is there, and true, when only words were compared."""

    results: list[Result]
    degraded: NotRequired[Literal[True]]


class DeleteAnswer(Proof):
    """The proof of one erasure."""

    message: str
    deleted: Literal[True]
    key_custody: str
    retirement_hashes: list[str]


class StatusAnswer(TypedDict):
    """How a memory stands; for hidden and absent ids only a null `valid` and a reason."""

    valid: bool | None
    reason: NotRequired[Literal["not_found"]]
    retrieval_safe: NotRequired[bool]
    embedding_retired: NotRequired[bool]
    physically_purged: NotRequired[bool]
    failures: NotRequired[list[str]]


class ErasureProof(TypedDict):
    """One erased memory's signed proof."""

    id: str
    signed_receipt: Statement


class ForgetAnswer(TypedDict):
    """What forgetting a subject came to."""

    subject: str
    matched_count: int
    erased_count: int
    deferred_count: int
    restricted_now_count: int
    already_erased_count: int
    derived_erased_count: int
    external_artifact_count: int
    erased_ids: list[str]
    deferred_ids: list[str]
    signed_receipts: list[ErasureProof]
    closure_receipt: NotRequired[Statement]
    closure_receipt_hash: NotRequired[str]
    signed_closure_receipt: NotRequired[Statement]
    obligations: list[str]
    note: str


class SignerAnswer(TypedDict):
    """Who signs receipts; pin the key out of band."""

    signer_id: str
    public_key_hex: str
    retired_keys: list[Statement]


class HealthAnswer(TypedDict):
    """That the service answers, and nothing else."""

    status: Literal["ok"]


class ReadyAnswer(HealthAnswer):
    """That the service does its work, and how many memories still wait for their vectors."""

    embedding_backlog: int


class ErrorAnswer(TypedDict):
    """Every error: a stable code, a fixed sentence, and the id to find it by in the log."""

    code: str
    detail: str
    request_id: str


def proof(attested: Attested) -> Proof:
    """Write a statement for the wire."""
    written = Proof(receipt=attested.body, receipt_hash=attested.receipt_hash)
    if attested.envelope is not None:
        written["signed_receipt"] = attested.envelope
    return written


def possible_proof(attested: Attested | None) -> PossibleProof:
    """Write a statement for the wire, if there is one."""
    if attested is None:
        return PossibleProof()
    written = PossibleProof(receipt=attested.body, receipt_hash=attested.receipt_hash)
    if attested.envelope is not None:
        written["signed_receipt"] = attested.envelope
    return written
