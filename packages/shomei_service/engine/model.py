"""The engine's values: ids, closed sets and frozen records. SEMANTICS.md §2-§3, §10."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, Protocol, cast

from .errors import EngineError, Forbidden

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonObject = dict[str, Json]

TenantId = NewType("TenantId", str)
MemoryId = NewType("MemoryId", str)
Pseudonym = NewType("Pseudonym", str)
EpochSecond = NewType("EpochSecond", int)


class Scope(StrEnum):
    """What a key may do; admin includes data."""

    DATA = "data"
    ADMIN = "admin"


class Life(StrEnum):
    """The one-way life of a memory. An erased memory has no row, only a tombstone.

    A pending row is the successor of an update whose predecessor is not erased yet.
    """

    PENDING = "pending"
    LIVE = "live"
    ERASING = "erasing"


class Cause(StrEnum):
    """Why a memory was erased. SEMANTICS.md §10."""

    DELETE_REQUEST = "delete_request"
    SUBJECT_FORGET = "subject_forget"
    DEFERRED_HOLD_RELEASE = "deferred_hold_release"
    SUPERSEDED_UPDATE = "superseded_update"
    DERIVED_CASCADE = "derived_cascade"
    RETENTION_EXPIRED = "retention_expired"
    CONSENT_WITHDRAWN = "consent_withdrawn"
    RESURRECTION_REERASE = "resurrection_reerase"
    TENANT_OFFBOARDING = "tenant_offboarding"


class Basis(StrEnum):
    """On what legal basis an erasure was asked for. SEMANTICS.md §10."""

    UNSPECIFIED = "unspecified"
    SUBJECT_REQUEST = "subject_request"
    CONTROLLER_INITIATIVE = "controller_initiative"
    NO_LONGER_NECESSARY = "art17_1_a_no_longer_necessary"
    CONSENT_WITHDRAWN = "art17_1_b_consent_withdrawn"
    OBJECTION = "art17_1_c_objection"
    UNLAWFUL = "art17_1_d_unlawful"
    LEGAL_OBLIGATION = "art17_1_e_legal_obligation"
    CHILD_SERVICES = "art17_1_f_child_iss"
    RESTRICTION_CONSENT = "art18_2_consent"


class LawfulBasis(StrEnum):
    """GDPR Art. 6(1), and the honest `not_recorded`. SEMANTICS.md §13."""

    CONSENT = "consent"
    CONTRACT = "contract"
    LEGAL_OBLIGATION = "legal_obligation"
    VITAL_INTERESTS = "vital_interests"
    PUBLIC_TASK = "public_task"
    LEGITIMATE_INTERESTS = "legitimate_interests"
    NOT_RECORDED = "not_recorded"


class SourceKind(StrEnum):
    """Where a memory came from. SEMANTICS.md §12."""

    PROVIDED = "provided"
    OBSERVED = "observed"
    DERIVED = "derived"
    IMPORTED = "imported"


class Ground(StrEnum):
    """Why a memory is restricted. SEMANTICS.md §6; the last four are the engine's own."""

    REQUEST = "art18_request"
    ACCURACY_CONTESTED = "art18_1_a_accuracy_contested"
    UNLAWFUL_OPPOSES_ERASURE = "art18_1_b_unlawful_opposes_erasure"
    LEGAL_CLAIMS = "art18_1_c_legal_claims"
    OBJECTION_PENDING = "art18_1_d_objection_pending"
    CONTROLLER_INITIATIVE = "controller_initiative"
    SECURITY_QUARANTINE = "security_quarantine"
    RETENTION_REVIEW = "retention_review"
    POISONING_SUSPECTED = "poisoning_suspected"
    DEFERRED_HOLD = "art17_deferred_hold"
    SOURCE_ERASED = "source_erased"
    SOURCE_SUPERSEDED = "source_superseded"
    INTEGRITY_FAULT = "integrity_fault"


SYSTEM_GROUNDS = frozenset(
    {Ground.DEFERRED_HOLD, Ground.SOURCE_ERASED, Ground.SOURCE_SUPERSEDED, Ground.INTEGRITY_FAULT}
)
SOURCE_GROUNDS = frozenset({Ground.SOURCE_ERASED, Ground.SOURCE_SUPERSEDED})
PRESERVE_GROUNDS = frozenset({Ground.UNLAWFUL_OPPOSES_ERASURE, Ground.LEGAL_CLAIMS})


CARRIED = ("subject", "lawful_basis", "purposes", "semantic_type", "metadata", "retention", "lineage")


class Lift(StrEnum):
    """Why a restriction ended. SEMANTICS.md §6."""

    LIFTED = "art18_lifted"
    ERASED = "erased"
    HOLD_RELEASED = "hold_released"
    SOURCE_REBUILT = "source_rebuilt"


class HoldScope(StrEnum):
    """What a legal hold covers: one memory, or a subject with everything there will be."""

    MEMORY = "memory"
    SUBJECT = "subject"


class Authority(StrEnum):
    """On whose authority a hold is placed. SEMANTICS.md §7."""

    LITIGATION = "litigation"
    REGULATORY_INVESTIGATION = "regulatory_investigation"
    STATUTORY_RETENTION = "statutory_retention"
    INTERNAL_INVESTIGATION = "internal_investigation"
    AUDIT_PRESERVATION = "audit_preservation"


class Release(StrEnum):
    """Why a hold ended. SEMANTICS.md §7."""

    MATTER_CLOSED = "matter_closed"
    SCOPE_NARROWED = "scope_narrowed"
    PLACED_IN_ERROR = "placed_in_error"
    EXPIRED = "expired"
    COURT_ORDER = "court_order"


class ConsentAction(StrEnum):
    """What a consent record says. SEMANTICS.md §13."""

    GRANTED = "granted"
    WITHDRAWN = "withdrawn"


class EdgeKind(StrEnum):
    """How one thing came from another. SEMANTICS.md §11."""

    DERIVED_FROM = "derived_from"
    SUPERSEDES = "supersedes"


class Direction(StrEnum):
    """Which way lineage is followed: to my sources, to what was made from me, or both."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class DisclosureGround(StrEnum):
    """On what ground a memory out of recall may be read. SEMANTICS.md §6, Art. 18(2)."""

    CONSENT = "art18_2_consent"
    LEGAL_CLAIMS = "art18_2_legal_claims"
    RIGHTS_OF_OTHERS = "art18_2_rights_of_others"
    PUBLIC_INTEREST = "art18_2_public_interest"
    SUBJECT_ACCESS = "subject_access"


class ArtifactKind(StrEnum):
    """What was made from memories outside the store."""

    SUMMARY = "summary"
    REPORT = "report"
    INDEX = "index"
    EMBEDDING = "embedding"
    MODEL = "model"
    CACHE = "cache"
    EXPORT = "export"
    OTHER = "other"


class ObligationKind(StrEnum):
    """What is still owed. SEMANTICS.md §21."""

    ERASE_ON_HOLD_RELEASE = "erase_on_hold_release"
    ERASE_ON_RESTRICTION_LIFT = "erase_on_restriction_lift"
    REVIEW_AFTER_CONSENT_WITHDRAWAL = "review_after_consent_withdrawal"
    ERASE_AFTER_CONSENT_WITHDRAWAL = "erase_after_consent_withdrawal"
    EXTERNAL_ERASURE_ACK = "external_erasure_ack"


# An erasure that something forbids for now; a memory has one of these open at most.
ERASURES_OWED = (ObligationKind.ERASE_ON_HOLD_RELEASE, ObligationKind.ERASE_ON_RESTRICTION_LIFT)


class ObligationState(StrEnum):
    """Where an obligation stands; overdue is computed."""

    OPEN = "open"
    DONE = "done"
    CANCELLED = "cancelled"


class EventKind(StrEnum):
    """Content-free events that others may act on. SEMANTICS.md §8, §11, §16."""

    SUBJECT_FORGOTTEN = "subject.forgotten"
    ARTIFACT_SUSPEND = "artifact.suspend"
    ARTIFACT_ERASURE_REQUESTED = "artifact.erasure_requested"
    ARTIFACT_REBUILD_SUGGESTED = "artifact.rebuild_suggested"


class Redaction(StrEnum):
    """Why a person's own copy leaves a memory's words out. SEMANTICS.md §12."""

    RIGHTS_OF_OTHERS = "art15_4_rights_of_others"
    RESTRICTION = "art23_restriction"
    TRADE_SECRET = "trade_secret"  # noqa: S105  # a ground, not a secret


class ExportText(StrEnum):
    """What an operator says to a person who asks, beside the data: Art. 15(1)(a)-(h), 15(2)."""

    CONTROLLER = "controller"
    CONTACT = "contact"
    PURPOSES = "purposes"
    RETENTION = "retention"
    RIGHTS = "rights"
    COMPLAINT = "complaint"
    AUTOMATED_DECISIONS = "automated_decisions"
    PROCESSORS = "processors"
    TRANSFERS = "transfers"


class PostForget(StrEnum):
    """Whether a forgotten subject may be remembered again. SEMANTICS.md §8."""

    ALLOW = "allow"
    REQUIRE_CONSENT = "require_consent"
    BLOCK = "block"


class Withdrawal(StrEnum):
    """What follows a withdrawn consent. SEMANTICS.md §13."""

    SUPPRESS = "suppress"
    ERASE_NOW = "erase_now"
    ERASE_AFTER = "erase_after"


@dataclass(frozen=True, slots=True)
class Policies:
    """What a tenant's operator decided, and the codes registered for it."""

    purposes: frozenset[str] = frozenset()
    semantic_types: frozenset[str] = frozenset()
    location_codes: frozenset[str] = frozenset()
    channel_codes: frozenset[str] = frozenset()
    policy_versions: frozenset[str] = frozenset()
    post_forget: PostForget = PostForget.ALLOW
    withdrawal: Withdrawal = Withdrawal.SUPPRESS
    withdrawal_days: int = 30
    consent_required: bool = False
    notice_before_lift: bool = False
    erase_when_expired: bool = True
    texts: Mapping[str, str] = field(default_factory=dict[str, str])  # by ExportText, or by key: its name


class PurgeState(StrEnum):
    """How far the bytes are gone, never more than was true when it was signed. SEMANTICS.md §10."""

    KEY_DESTROYED = "key_destroyed"
    CIPHERTEXT_DELETED = "ciphertext_deleted"
    PURGED_VERIFIED = "purged_verified"


class Disposition(StrEnum):
    """What a forget came to. SEMANTICS.md §8."""

    NOOP_NO_MATCH = "noop_no_match"
    COMPLETE = "complete"
    DEFERRED = "deferred"
    PARTIAL = "partial"


class Clock(Protocol):
    """The engine's only source of time."""

    def now(self) -> int:
        """Return the time in whole seconds since the epoch."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Retry:
    """The Idempotency-Key of a call, the route it was made on, and everything else that was sent."""

    route: str
    key: str
    body: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Call:
    """The request a caller makes: its id, when it began, and what status it ends with, for the audit."""

    request_id: str
    began: float  # time.perf_counter
    status_of: Callable[[EngineError | None], int]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the tenant and scopes come from the API key alone. A retry makes writing calls repeatable."""

    tenant: TenantId
    actor: str
    scopes: frozenset[Scope]
    retry: Retry | None = None
    call: Call | None = None

    def require(self, scope: Scope) -> None:
        """Raise Forbidden unless the key has the scope; the words are the contract's."""
        if scope not in self.scopes:
            if scope is Scope.ADMIN:
                raise Forbidden("this action requires an admin-scoped key")
            raise Forbidden("this key may not do that")


SYSTEM_ACTOR = "system"


@dataclass(frozen=True, slots=True)
class Tenant:
    """One controller: its place in the key tree, the commitment key in use and its receipt log."""

    tenant_id: TenantId
    number: int
    label: str
    commit_key_id: str
    log_origin: str
    next_seq: int
    revision: int
    last_applied_at: int
    created_at: int
    policies: Policies = Policies()


@dataclass(frozen=True, slots=True)
class NewMemory:
    """What a caller asks to remember. `user_id` is the subject's name on the wire."""

    text: str
    user_id: str | None = None
    semantic_type: str = "GENERIC"
    metadata: JsonObject = field(default_factory=dict[str, Json])
    lawful_basis: LawfulBasis = LawfulBasis.NOT_RECORDED
    purposes: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    expires_at: int | None = None
    source_kind: SourceKind = SourceKind.PROVIDED  # of one that is not derived


@dataclass(frozen=True, slots=True)
class Content:
    """What is sealed in a row's content column."""

    text: str
    user_id: str | None
    semantic_type: str
    metadata: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """What erasing needs to know of a memory: nothing that is sealed."""

    memory_id: MemoryId
    address: int
    life: Life
    subject: Pseudonym | None
    intent_id: str | None
    grounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFacts(RowFacts):
    """The same, and the sealed DEK that tells which leaf a row's key hangs on."""

    version: int
    sealed_dek: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow(SealedFacts):
    """One live or erasing memory as it lies in the database: sealed, with content-free columns beside."""

    created_at: int
    sealed_content: bytes
    sealed_recall: bytes
    embedded: bool
    lawful_basis: LawfulBasis = LawfulBasis.NOT_RECORDED
    source_kind: SourceKind = SourceKind.PROVIDED
    expires_at: int | None = None
    consented: bool = True


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The content-free record left after disposal. SEMANTICS.md §17."""

    tombstone_id: str
    memory_id: MemoryId
    subject: Pseudonym | None
    erased_at: int
    cause: Cause
    receipt_hash: str
    physically_purged: bool


@dataclass(frozen=True, slots=True)
class Attested:
    """A statement that is now on record: its body, its hash and, where a signer exists, its envelope."""

    body: Mapping[str, Json]
    receipt_hash: str
    envelope: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class Added:
    """The answer to an add: the id, the text as it was taken, and the receipt."""

    memory_id: MemoryId
    text: str | None  # None when the call was made again and it may not be shown any more
    receipt: Attested
    is_erased: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    """One memory as its tenant may see it."""

    memory_id: MemoryId
    content: Content
    created_at: int


@dataclass(frozen=True, slots=True)
class SourceQuote:
    """The verbatim span that matched best: code-point offsets into the memory's text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Found:
    """One search result: a recalled memory, its score in 0..1 and why."""

    memory: Recalled
    score: float
    semantic: float
    lexical: float
    quote: SourceQuote


@dataclass(frozen=True, slots=True)
class Findings:
    """A search's answer; degraded when the embedder was not used although one is configured."""

    results: list[Found]
    embedder_id: str | None
    degraded: bool


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """One page of recallable memories and where the next one starts."""

    memories: list[Recalled]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """What the verify route says of a memory; `valid` is None when there is nothing to say."""

    valid: bool | None
    retrieval_safe: bool = False
    embedding_retired: bool = False
    physically_purged: bool = False
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """The proof of one erasure."""

    memory_id: MemoryId
    receipt: Attested

    @property
    def key_custody(self) -> str:
        """Who held the epoch key."""
        return cast(str, self.receipt.body["key_custody"])

    @property
    def retirement_hashes(self) -> list[str]:
        """The marks of the vectors that were retired."""
        return cast(list[str], self.receipt.body["retirement_hashes"])


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The outcome of forgetting a subject. SEMANTICS.md §8."""

    subject: str
    request_id: str
    matched_count: int
    erased: list[Erased]
    deferred_ids: list[MemoryId]
    restricted_now: list[Attested]
    obligation_ids: list[str]
    already_erased_count: int
    derived_erased_count: int
    external_artifact_count: int
    closure: Attested | None


@dataclass(frozen=True, slots=True)
class Updated:
    """The outcome of an update: the successor, and the proof that its predecessor is erased."""

    memory_id: MemoryId
    previous_id: MemoryId
    text: str
    receipt: Attested


@dataclass(frozen=True, slots=True)
class Restricted:
    """The outcome of restricting or lifting; `receipt` is None when nothing changed."""

    memory_id: MemoryId
    restricted: bool
    changed: bool
    receipt: Attested | None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold as it is listed; the matter reference stays sealed."""

    hold_id: str
    scope: HoldScope
    memory_id: MemoryId | None
    subject: Pseudonym | None
    authority: Authority
    placed_by: str
    placed_at: int
    review_at: int | None
    expires_at: int | None
    released_at: int | None
    release: Release | None


@dataclass(frozen=True, slots=True)
class Obligation:
    """Something still owed, or how it ended."""

    obligation_id: str
    kind: ObligationKind
    state: ObligationState
    memory_id: MemoryId | None
    subject: Pseudonym | None
    purpose: str | None
    artifact_id: str | None
    cause: Cause | None
    requested_at: int
    due_at: int | None
    ended_at: int | None


def new_id(prefix: str) -> str:
    """Return a fresh opaque id: the prefix and 128 random bits in hex. SEMANTICS.md §2."""
    return prefix + secrets.token_hex(16)
