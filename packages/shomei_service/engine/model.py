"""The engine's values: ids, closed sets and frozen records. SEMANTICS.md §2-§3, §10."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, Protocol, cast

from .errors import Forbidden

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
    """The one-way life of a memory. An erased memory has no row, only a tombstone."""

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


class LawfulBasis(StrEnum):
    """GDPR Art. 6(1), and the honest `not_recorded`. SEMANTICS.md §13."""

    CONSENT = "consent"
    CONTRACT = "contract"
    LEGAL_OBLIGATION = "legal_obligation"
    VITAL_INTERESTS = "vital_interests"
    PUBLIC_TASK = "public_task"
    LEGITIMATE_INTERESTS = "legitimate_interests"
    NOT_RECORDED = "not_recorded"


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


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the tenant and scopes come from the API key alone."""

    tenant: TenantId
    actor: str
    scopes: frozenset[Scope]

    def require(self, scope: Scope) -> None:
        """Raise Forbidden unless the key has the scope; the words are the contract's."""
        if scope not in self.scopes:
            if scope is Scope.ADMIN:
                raise Forbidden("this action requires an admin-scoped key")
            raise Forbidden("this key may not do that")


SYSTEM_ACTOR = "system"


@dataclass(frozen=True, slots=True)
class Tenant:
    """One controller: its place in the key tree, its commitment key and its receipt log."""

    tenant_id: TenantId
    number: int
    label: str
    commit_key_id: str
    log_origin: str
    next_seq: int
    revision: int
    last_applied_at: int
    created_at: int


@dataclass(frozen=True, slots=True)
class NewMemory:
    """What a caller asks to remember. `user_id` is the subject's name on the wire."""

    text: str
    user_id: str | None = None
    semantic_type: str = "GENERIC"
    metadata: JsonObject = field(default_factory=dict[str, Json])
    lawful_basis: LawfulBasis = LawfulBasis.NOT_RECORDED


@dataclass(frozen=True, slots=True)
class Content:
    """What is sealed in a row's content column."""

    text: str
    user_id: str | None
    semantic_type: str
    metadata: JsonObject


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One live or erasing memory as it lies in the database: sealed, with content-free columns beside."""

    memory_id: MemoryId
    address: int
    version: int
    life: Life
    subject: Pseudonym | None
    created_at: int
    sealed_dek: bytes
    sealed_content: bytes
    sealed_recall: bytes
    embedded: bool
    intent_id: str | None


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
    text: str
    receipt: Attested


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
    matched_count: int
    erased: list[Erased]
    deferred_ids: list[MemoryId]
    already_erased_count: int
    closure: Attested | None


def new_id(prefix: str) -> str:
    """Return a fresh opaque id: the prefix and 128 random bits in hex. SEMANTICS.md §2."""
    return prefix + secrets.token_hex(16)
