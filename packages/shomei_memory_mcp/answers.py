"""Answers: what a tool hands back, screened, free of the key and kept to a size that hosts can show."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

from shomei_memory_mcp import screen
from shomei_memory_mcp.inputs import JsonObject
from shomei_memory_mcp.refusals import TooLarge, Withheld

MAX_TEXT_BYTES = 65_536  # published bound of relayed text; hosts cut or refuse tool results beyond it
MARKER_BYTES = 8_192  # room for what says that something is missing
MAX_MARKERS = 16
MARKER_NAME_CHARACTERS = 64

_SURROGATE = re.compile(r"[\ud800-\udfff]")

Fit: TypeAlias = Callable[[JsonObject], JsonObject]


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's result: text for every host and the identical object for those that read structure."""

    text: str
    structured: JsonObject | None = None
    is_error: bool = False


def relayed(answer: JsonObject, *, fit: Fit, secret: str, is_error: bool = False) -> Answer:
    """Cut, screen and render the service's answer.

    Raises Withheld when it must not be shown, TooLarge when a read cannot be cut.
    """
    fitted = fit(answer) if size(answer) > MAX_TEXT_BYTES else answer
    screen.admit(fitted)
    text = rendered(fitted)
    plain = screen.without(secret, _SURROGATE.sub("\ufffd", text))
    return Answer(plain, fitted if plain == text else cast(JsonObject, json.loads(plain)), is_error)


def local(answer: JsonObject) -> Answer:
    """Render an answer made here."""
    return Answer(rendered(answer), answer)


def rendered(value: object) -> str:
    """Return compact JSON; raise Withheld for numbers JSON has no spelling for."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        raise Withheld("it is not plain JSON") from None


def size(value: object) -> int:
    """Return how many bytes the rendered value takes."""
    return len(rendered(value).encode("utf-8", "surrogatepass"))


def fit_search(answer: JsonObject) -> JsonObject:
    """Keep, in rank order, the whole results that fit, and count the rest in `omitted`."""
    results = cast(list[object], answer["results"]) if isinstance(answer.get("results"), list) else []
    kept: list[object] = []
    left = MAX_TEXT_BYTES - size({**answer, "results": kept, "omitted": len(results)})
    for result in results:
        cost = size(result) + 1
        if cost <= left:
            kept.append(result)
            left -= cost
    if left < 0 or not results:
        raise TooLarge
    return answer | {"results": kept, "omitted": len(results) - len(kept)}


def fit_read(answer: JsonObject) -> JsonObject:
    """Refuse: there is no honest way to show part of this answer."""
    raise TooLarge


def fit_add(answer: JsonObject) -> JsonObject:
    """Drop the echo of the stored text, which the caller has."""
    results = answer.get("results")
    if isinstance(results, list):
        answer = answer | {"results": [_without_echo(each) for each in cast(list[object], results)]}
    return fit_write(answer)


def fit_forget(answer: JsonObject) -> JsonObject:
    """Drop the per-memory proofs and ids, say how many there are and where to read them."""
    receipts = answer.get("signed_receipts")
    count = len(cast(list[object], receipts)) if isinstance(receipts, list) else 0
    kept = {name: value for name, value in answer.items() if name not in ("signed_receipts", "erased_ids")}
    return fit_write(kept | {"signed_receipts_omitted": count, "signed_receipts_at": "GET /v1/receipts"})


def fit_write(answer: JsonObject) -> JsonObject:
    """Keep the smaller fields, count what the larger ones held: an applied write is no error for its size."""
    if size(answer) <= MAX_TEXT_BYTES:
        return answer
    left = MAX_TEXT_BYTES - MARKER_BYTES
    kept: set[str] = set()
    # Smaller before larger, by whole KiB; among equals the service's own order.
    costs = sorted(((size({name: answer[name]}), name) for name in answer), key=lambda each: each[0] // 1024)
    for cost, name in costs:
        left -= cost
        if left >= 0:
            kept.add(name)
    dropped = [name for name in answer if name not in kept]
    named = [name for name in dropped if len(name) <= MARKER_NAME_CHARACTERS][:MAX_MARKERS]
    shown = {name: answer[name] for name in answer if name in kept}
    return (
        shown | {f"{name}_omitted": _count(answer[name]) for name in named} | {"fields_omitted": len(dropped)}
    )


def _count(value: object) -> int | bool:
    return len(cast(list[object], value)) if isinstance(value, list) else True


def _without_echo(result: object) -> object:
    if not isinstance(result, dict) or "memory" not in result:
        return cast(object, result)
    members = cast(JsonObject, result)
    return {name: value for name, value in members.items() if name != "memory"} | {"memory_omitted": True}
