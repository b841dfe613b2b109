"""What every body and query is: a closed set of fields, where null says nothing. CONTRACT.md §1."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, model_validator


def _say_that_null_is_absent(schema: dict[str, Any]) -> None:
    """Describe each field that may be left out as one that may be null."""
    needed = cast(list[str], schema.get("required", []))
    fields = cast(dict[str, dict[str, Any]], schema.get("properties", {}))
    for name, field in fields.items():
        if name not in needed and {"type": "null"} not in field.get("anyOf", []):
            told = {word: field.pop(word) for word in ("title", "description", "default") if word in field}
            fields[name] = {**told, "anyOf": [field, {"type": "null"}]}


class Shape(BaseModel):
    """A closed set of fields; null is the same as absent, and strings lose their outer white space."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        str_strip_whitespace=True,
        hide_input_in_errors=True,
        json_schema_extra=_say_that_null_is_absent,
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
