"""From raw bodies and queries to typed requests, or to a refusal that never repeats them. STYLE.md §6."""

from collections.abc import Mapping
from typing import Final, TypeVar, cast
from urllib.parse import parse_qsl

from pydantic import ValidationError

from . import bodies
from .bodies import Allowance
from .errors import Malformed, Problem, malformed
from .shapes import Shape

S = TypeVar("S", bound=Shape)

_PARAMETERS: Final = 32

_RULES: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "holds a field this route does not know",
    "model_type": "must be an object",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_too_long": "must be at most {max_length} characters",
    "string_pattern_mismatch": "must be 1 to 64 of a-z, 0-9 and _",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "too_long": "must hold at most {max_length} items",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "enum": "must be one of the documented values",
    "literal_error": "must be one of the documented values",
    "whole_number": "must be a whole number",
    "number": "must be a number",
    "nul": "must not hold a NUL character",
    "object": "must be an object",
    "target": "must name memory_id or user_id, as its scope says",
    "repeated": "must not repeat an item",
}
_ANY_RULE: Final = "does not have the documented form"


def read_body(model: type[S], raw: bytes, allowance: Allowance) -> S:
    """Parse and check a body. Raises Malformed or TooDeep."""
    return _checked(model, bodies.parse(raw, allowance), whole="body")


def read_query(model: type[S], raw: bytes) -> S:
    """Check the query parameters the route knows; others mean nothing here, so they are not looked at.

    Raises Malformed, also for a parameter given twice or text that is not UTF-8.
    """
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS
        )
    except ValueError:
        raise malformed("query", "must be percent-encoded UTF-8 with at most 32 parameters") from None
    known = [(name, value) for name, value in pairs if name in model.model_fields]
    if len(dict(known)) != len(known):
        raise malformed("query", "must not repeat a parameter")
    return _checked(model, dict(known), whole="query")


def _checked(model: type[S], value: Mapping[str, object], *, whole: str) -> S:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        # `from None`: the error holds what was sent, and nothing downstream may come to print it.
        raise Malformed([_problem(each, whole) for each in _errors(error)]) from None


def _errors(error: ValidationError) -> list[Mapping[str, object]]:
    found = error.errors(include_url=False, include_input=False)
    return cast(list[Mapping[str, object]], cast(object, found))


def _problem(error: Mapping[str, object], whole: str) -> Problem:
    kind = cast(str, error["type"])
    place = list(cast(tuple[int | str, ...], error["loc"]))
    if kind == "extra_forbidden":
        place.pop()  # the caller made this name up: it may be anything, so it is not repeated
    bounds = cast(Mapping[str, object], error.get("ctx", {}))
    return Problem(_place(place) or whole, _RULES.get(kind, _ANY_RULE).format_map(bounds))


def _place(place: list[int | str]) -> str:
    """Write `memories[3].limit`; every name in it is one of our models' own."""
    written = ""
    for step in place:
        written += f"[{step}]" if isinstance(step, int) else f".{step}" if written else step
    return written
