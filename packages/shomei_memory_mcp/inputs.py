"""What the ten tools accept: strict about meaning, tolerant about how hosts spell it.

Hosts send null for "not given", numbers as text and whole objects as JSON text; all three are read as meant.
Unknown fields, empty strings and out-of-range numbers are refused by field and rule; no value is repeated.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from shomei_memory_mcp.refusals import InputRefused

JsonObject: TypeAlias = dict[str, object]

MAX_ID_BYTES = 512  # far above any id the service issues; keeps a request line inside common proxies' 8 KiB
MAX_REASONS = 5  # unknown fields named at once: enough to repair a call in one go
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_UNDER_PARAMS = 'put the arguments in one object under "params", for example {"params": {%s}}'


def _whole(value: object) -> object:
    # bool is an int to Python; a limit of true is a mistake, not 1.
    if value is True or value is False:
        raise ValueError
    return value


def _truth(value: object) -> object:
    spelled = value.strip().lower() if isinstance(value, str) else value
    if spelled in ("true", "false"):
        return spelled == "true"
    if spelled is not True and spelled is not False:
        raise ValueError
    return spelled


def _segment(value: str) -> str:
    # RFC 3986 §5.2.4: clients fold dot segments, encoded or not, so these two would reach another verb.
    if value in (".", "..") or len(value.encode()) > MAX_ID_BYTES:
        raise ValueError
    return value


_NodeLimit = Annotated[
    int, Field(ge=0, le=100, description="Whole number 0 to 100, default 50."), BeforeValidator(_whole)
]


class Params(BaseModel):
    """One tool's `params`: unknown fields are refused, surrounding whitespace is stripped."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", str_strip_whitespace=True, frozen=True, hide_input_in_errors=True
    )

    @classmethod
    def read(cls, arguments: Mapping[str, object] | None) -> Self:
        """Read the tool-call arguments of a host; raise InputRefused when they break a rule."""
        given = _given(arguments, cls)
        try:
            return cls.model_validate({name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            raise InputRefused(_reasons(error, cls)) from None

    @classmethod
    def published(cls) -> JsonObject:
        """Return the input schema as hosts can digest it: inlined, plainly typed, no null, no titles."""
        schema = cast(JsonObject, cls.model_json_schema())
        fields = cast(dict[str, JsonObject], schema["properties"])
        params: JsonObject = {
            "type": "object",
            "properties": {name: _plain(field) for name, field in fields.items()},
            "required": schema["required"],
            "additionalProperties": False,
        }
        return {
            "type": "object",
            "properties": {"params": params},
            "required": ["params"],
            "additionalProperties": False,
        }

    def body(self) -> JsonObject:
        """Return the fields that travel in the HTTP body."""
        return self.model_dump(exclude={"memory_id"}, exclude_none=True)


class Named(Params):
    """The tools that name one memory."""

    memory_id: Annotated[str, AfterValidator(_segment)] = Field(
        min_length=1, description="Opaque memory id, at most 512 bytes."
    )


class AddMemory(Params):
    """`add_memory`."""

    messages: str = Field(min_length=1, description="Text to store, non-empty string.")
    user_id: str | None = Field(
        None, min_length=1, description="Subject the memory is about, non-empty string."
    )
    semantic_type: str = Field(
        "GENERIC",
        min_length=1,
        max_length=64,
        description="Data category, 1 to 64 characters, default GENERIC.",
    )


class SearchMemory(Params):
    """`search_memory`."""

    query: str = Field(min_length=1, description="What to look for, non-empty string.")
    user_id: str | None = Field(None, min_length=1, description="Search one subject only, non-empty string.")
    limit: Annotated[int, BeforeValidator(_whole)] = Field(
        10, ge=1, le=100, description="Whole number 1 to 100, default 10."
    )


class UpdateMemory(Named):
    """`update_memory`."""

    data: str = Field(min_length=1, description="New text, non-empty string.")


class DeleteMemory(Named):
    """`delete_memory`."""


class ForgetSubject(Params):
    """`forget_subject`."""

    user_id: str = Field(min_length=1, description="Subject to erase, non-empty string.")


class RestrictMemory(Named):
    """`restrict_memory`."""

    restricted: Annotated[bool, BeforeValidator(_truth)] = Field(
        True, description="true takes it out of recall, false puts it back; default true."
    )
    reason: str = Field(
        "art18_request",
        min_length=1,
        max_length=64,
        description="Reason code, 1 to 64 characters, default art18_request.",
    )


class GetReceipt(Named):
    """`get_receipt`."""


class Lineage(Named):
    """`lineage_neighbors` and `lineage_graph`."""

    direction: Literal["out", "in", "both"] = Field("out", description="One of out, in, both; default out.")
    limit: _NodeLimit = 50


class VerifyReceipt(Params):
    """`verify_receipt`; a receipt given as JSON text stays text, so that duplicate keys are still seen."""

    receipt: Annotated[JsonObject | str, WithJsonSchema({"type": "object"})] = Field(
        description="A signed_receipt object."
    )
    expected_public_key_hex: str | None = Field(
        None, description="The signer's public key, 64 hex characters, obtained out of band."
    )


def _given(arguments: Mapping[str, object] | None, model: type[Params]) -> Mapping[str, object]:
    params = (arguments or {}).get("params")
    if isinstance(params, str):
        params = _parsed(params)
    if not isinstance(params, dict):
        required = ", ".join(
            f'"{name}": ...' for name, field in model.model_fields.items() if field.is_required()
        )
        raise InputRefused(_UNDER_PARAMS % required)
    return cast(JsonObject, params)


def _parsed(text: str) -> object:
    try:
        return cast(object, json.loads(text))
    except (ValueError, RecursionError):
        return None


def _reasons(error: ValidationError, model: type[Params]) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    kinds = {cast(str, each["loc"][0]): each["type"] for each in found}
    reasons = [_reason(name, kind, model) for name, kind in kinds.items() if name in model.model_fields]
    strangers = [name for name in kinds if name not in model.model_fields]
    if strangers:
        named = [name for name in strangers if _FIELD_NAME.fullmatch(name)][:MAX_REASONS] or [
            "some given names"
        ]
        reasons.append(f"no field of this tool: {', '.join(named)} (it has {', '.join(model.model_fields)})")
    return "; ".join(reasons)


def _reason(field: str, kind: str, model: type[Params]) -> str:
    return (
        f"{field} is required" if kind == "missing" else f"{field}: {model.model_fields[field].description}"
    )


def _plain(field: JsonObject) -> JsonObject:
    options = cast(list[JsonObject], field.get("anyOf", []))
    merged = field | (options[0] if options else {})
    kept = {name: value for name, value in merged.items() if name not in ("anyOf", "title")}
    if kept.get("default", "") is None:
        del kept["default"]
    return kept
