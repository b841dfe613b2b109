"""What requests look like: bodies and queries as typed, stripped, closed models. CONTRACT.md §1."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..engine import limits
from ..engine.model import Basis, LawfulBasis

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
Code = Annotated[str, StringConstraints(pattern=_CODE)]
Codes = Annotated[list[Code], Field(max_length=_PURPOSES), AfterValidator(_once)]
MemoryIds = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_BYTES)]],
    Field(max_length=_SOURCES),
    AfterValidator(_once),
]
# A plain validator: the words in metadata are the caller's, and are not stripped.
Metadata = Annotated[dict[str, object], PlainValidator(_object), WithJsonSchema({"type": "object"})]
EpochSecond = Annotated[int, Field(ge=1, le=_LAST_SECOND), BeforeValidator(_whole)]
Score = Annotated[float, Field(ge=0, le=1), BeforeValidator(_number)]
Count = Annotated[int, Field(ge=1, le=limits.SEARCH_RESULTS), BeforeValidator(_whole)]
Rows = Annotated[int, Field(ge=1, le=limits.PAGE_ROWS), BeforeValidator(_whole)]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=_CURSOR_CHARACTERS)]


class Shape(BaseModel):
    """A closed set of fields; null is the same as absent, and strings lose their outer white space."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, hide_input_in_errors=True
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        fields = cast(Mapping[str, object], value)
        return {
            name: item for name, item in fields.items() if item is not None or name not in cls.model_fields
        }


class Nothing(Shape):
    """What a route reads that takes no body, or no query parameters."""


class NewMemoryBody(Shape):
    """One memory to remember."""

    messages: Text
    user_id: Subject | None = None
    semantic_type: SemanticType = "GENERIC"
    metadata: Metadata = Field(default_factory=dict[str, object])
    derived_from: MemoryIds = Field(default_factory=list[str])
    lawful_basis: LawfulBasis = LawfulBasis.NOT_RECORDED
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


class PageQuery(Shape):
    """Which page of memories."""

    user_id: Subject | None = None
    cursor: Cursor | None = None
    limit: Rows = 50


class SearchQuery(Shape):
    """How much the answer explains itself."""

    explain: Literal["true", "false"] = "false"


class DeleteQuery(Shape):
    """On what legal basis, and whether what was derived goes too."""

    basis: Basis = Basis.UNSPECIFIED
    derived: Literal["cascade"] | None = None
