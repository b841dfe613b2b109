"""What requests look like: bodies and queries as typed, stripped, closed models. CONTRACT.md §1."""

from typing import Annotated, Final, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..engine import limits
from ..engine.model import (
    ArtifactKind,
    Authority,
    Basis,
    ConsentAction,
    Direction,
    DisclosureGround,
    Ground,
    HoldScope,
    LawfulBasis,
    Release,
)
from .shapes import Shape

_CODE: Final = r"^[a-z0-9_]{1,64}$"
_SOURCES: Final = 100
_PURPOSES: Final = 32
_CURSOR_CHARACTERS: Final = 256
_LAST_SECOND: Final = 253_402_300_799  # the end of year 9999


def _whole(value: object) -> object:
    """Take 5, "5", " 5 " and 5.0 for five; refuse 5.5, true and "abc"."""
    if isinstance(value, str):
        digits = value.strip()
        if digits.lstrip("-").isascii() and digits.lstrip("-").isdigit() and len(digits) <= 18:
            return int(digits)
    elif isinstance(value, float) and value.is_integer():
        return int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("whole_number", "must be a whole number")


def _number(value: object) -> object:
    """Take numbers and their decimal spelling; refuse booleans, which Python counts among the numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PydanticCustomError("number", "must be a number")
    return value


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise PydanticCustomError("nul", "must not hold a NUL character")
    return value


def _stripped(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise PydanticCustomError("object", "must be an object")
    return cast(dict[str, object], value)


def _once(values: list[str]) -> list[str]:
    if len(set(values)) != len(values):
        raise PydanticCustomError("repeated", "must not repeat an item")
    return values


Text = Annotated[str, StringConstraints(min_length=1)]
Subject = Annotated[
    str, StringConstraints(min_length=1, max_length=limits.SUBJECT_BYTES), AfterValidator(_without_nul)
]
SemanticType = Annotated[
    str,
    StringConstraints(min_length=1, max_length=limits.SEMANTIC_TYPE_CHARACTERS),
    AfterValidator(_without_nul),
]
Pseudonym = Annotated[str, StringConstraints(pattern=r"^hmac-sha256:[0-9a-f]{64}$")]
Code = Annotated[str, StringConstraints(pattern=_CODE)]
Codes = Annotated[list[Code], Field(max_length=_PURPOSES), AfterValidator(_once)]
MemoryIds = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_BYTES)]],
    Field(max_length=_SOURCES),
    AfterValidator(_once),
]
CODE_WORD: Final = BeforeValidator(_stripped)  # a closed code is stripped as every string is
# A plain validator: the words in metadata are the caller's, and are not stripped.
Metadata = Annotated[dict[str, object], PlainValidator(_object), WithJsonSchema({"type": "object"})]
EpochSecond = Annotated[int, Field(ge=1, le=_LAST_SECOND), BeforeValidator(_whole)]
Score = Annotated[float, Field(ge=0, le=1), BeforeValidator(_number)]
Count = Annotated[int, Field(ge=1, le=limits.SEARCH_RESULTS), BeforeValidator(_whole)]
Rows = Annotated[int, Field(ge=1, le=limits.PAGE_ROWS), BeforeValidator(_whole)]
Neighbours = Annotated[int, Field(ge=0, le=limits.LINEAGE_NODES), BeforeValidator(_whole)]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=_CURSOR_CHARACTERS)]


class NewMemoryBody(Shape):
    """One memory to remember."""

    messages: Text
    user_id: Subject | None = None
    semantic_type: SemanticType = "GENERIC"
    metadata: Metadata = Field(default_factory=dict[str, object])
    derived_from: MemoryIds = Field(default_factory=list[str])
    lawful_basis: Annotated[LawfulBasis, CODE_WORD] = LawfulBasis.NOT_RECORDED
    purposes: Codes = Field(default_factory=list[str])
    expires_at: EpochSecond | None = None


class BatchBody(Shape):
    """Up to a thousand memories, remembered together or not at all."""

    memories: Annotated[list[NewMemoryBody], Field(min_length=1, max_length=limits.BATCH_MEMORIES)]


class SearchBody(Shape):
    """What to look for, and how narrowly."""

    query: Text
    user_id: Subject | None = None
    limit: Count = 10
    min_score: Score | None = None
    semantic_type: SemanticType | None = None
    purpose: Code | None = None


class ForgetBody(Shape):
    """Whom to forget."""

    user_id: Subject


class UpdateBody(Shape):
    """What the memory should say."""

    data: Text


class RestrictBody(Shape):
    """Why the memory is restricted."""

    reason: Annotated[Ground, CODE_WORD] = Ground.REQUEST


class LiftQuery(Shape):
    """When the person was told that the restriction will be lifted (Art. 18(3))."""

    notice_sent_at: EpochSecond | None = None


class DiscloseBody(Shape):
    """On what ground a memory is read outside recall, and for whom."""

    ground_code: Annotated[DisclosureGround, CODE_WORD]
    recipient: Subject | None = None


class LineageQuery(Shape):
    """Which way lineage is followed, and to how many neighbours."""

    direction: Annotated[Direction, CODE_WORD] = Direction.OUT
    limit: Neighbours = 50


class ArtifactBody(Shape):
    """What was made from memories outside the store."""

    derived_from: Annotated[MemoryIds, Field(min_length=1)]
    kind: Annotated[ArtifactKind, CODE_WORD]
    location_code: Code | None = None


class HoldBody(Shape):
    """What must be preserved, on whose authority."""

    scope: Annotated[HoldScope, CODE_WORD]
    memory_id: Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_BYTES)] | None = None
    user_id: Subject | None = None
    authority_code: Annotated[Authority, CODE_WORD]
    matter_ref: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    review_at: EpochSecond | None = None
    expires_at: EpochSecond | None = None

    @model_validator(mode="after")
    def _names_its_target(self) -> "HoldBody":
        about_memory = self.scope is HoldScope.MEMORY
        if (self.memory_id is not None) != about_memory or (self.user_id is not None) == about_memory:
            raise PydanticCustomError("target", "must name memory_id or user_id, as its scope says")
        return self


class ReleaseQuery(Shape):
    """Why a hold ends, and that its caller knows what that sets in motion."""

    release_code: Annotated[Release, CODE_WORD]
    confirm: Annotated[Literal["true", "false"], CODE_WORD] = "false"


class ConsentBody(Shape):
    """What a subject agreed to, or no longer does."""

    user_id: Subject
    purpose: Code
    action: Annotated[ConsentAction, CODE_WORD]
    evidence_ref: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    policy_version: Code | None = None
    channel_code: Code | None = None


class SubjectQuery(Shape):
    """Whom it is about."""

    user_id: Subject


class HoldsQuery(Shape):
    """Which page of holds."""

    cursor: Annotated[str, StringConstraints(pattern=r"^hold_[0-9a-f]{32}$")] | None = None
    limit: Rows = 100


class ObligationsQuery(Shape):
    """Which page of obligations."""

    cursor: Annotated[str, StringConstraints(pattern=r"^obl_[0-9a-f]{32}$")] | None = None
    limit: Rows = 100


class LogQuery(Shape):
    """Which page of a log."""

    origin: Annotated[str, StringConstraints(pattern=r"^shomei/[0-9a-f]{32}$")] | None = None
    after_seq: Annotated[int, Field(ge=-1, le=2**53 - 1), BeforeValidator(_whole)] = -1
    limit: Rows = 100


class AuditQuery(Shape):
    """Which page of the read audit, and about whom."""

    user_id: Subject | None = None
    subject_pseudonym: Pseudonym | None = None
    after_seq: Annotated[int, Field(ge=-1, le=2**53 - 1), BeforeValidator(_whole)] = -1
    limit: Rows = 100


class TombstoneQuery(Shape):
    """Which page of tombstones, and about whom."""

    subject_pseudonym: Pseudonym | None = None
    cursor: Annotated[str, StringConstraints(pattern=r"^ts_[0-9a-f]{32}$")] | None = None
    limit: Rows = 100


class PageQuery(Shape):
    """Which page of memories."""

    user_id: Subject | None = None
    cursor: Cursor | None = None
    limit: Rows = 50


class SearchQuery(Shape):
    """How much the answer explains itself."""

    explain: Annotated[Literal["true", "false"], CODE_WORD] = "false"


class DeleteQuery(Shape):
    """On what legal basis, and whether what was derived goes too."""

    basis: Annotated[Basis, CODE_WORD] = Basis.UNSPECIFIED
    derived: Annotated[Literal["cascade"], CODE_WORD] | None = None
