"""Request bodies: bounded while they arrive, and strict JSON. RELIABILITY.md §6, CONTRACT.md §2."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn, cast

import anyio
from starlette.types import Receive, Scope

from ..engine import limits
from ..engine.errors import TooLarge
from ..engine.model import Json, JsonObject
from .errors import TooDeep, TooSlow, malformed

_MEMORY_KEYS: Final = 64  # a memory with full metadata has about 40 keys
_MEMORY_TOKENS: Final = (
    400  # and, with a list or two among them, fewer brackets, commas and strings than this
)
_ARRIVED: Final = "the body is larger than this route takes"
_COLON: Final = ord(":")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},:]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Allowance:
    """How large a body a route takes and how long it waits for it; what its JSON may hold."""

    octets: int
    seconds: float
    keys: int
    tokens: int


SINGLE: Final = Allowance(
    limits.BODY_BYTES,
    seconds=30,  # RELIABILITY.md §6: request time
    keys=limits.JSON_KEYS,
    tokens=limits.BODY_BYTES,
)
BATCH: Final = Allowance(
    limits.BATCH_BODY_BYTES,
    seconds=120,  # 16 MiB at 1 Mbit/s
    keys=_MEMORY_KEYS * limits.BATCH_MEMORIES,
    tokens=_MEMORY_TOKENS * limits.BATCH_MEMORIES,
)


class ClientGone(Exception):  # nobody is left to be told of an error
    """The client hung up before its request was complete."""


async def take(scope: Scope, receive: Receive, allowance: Allowance) -> bytes:
    """Return the body, never holding more than the allowed bytes of it.

    Raises TooLarge by the declared length before anything is read, and while reading; TooSlow when it
    does not arrive in time; ClientGone when the connection ends first.
    """
    declared = header(scope, b"content-length")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > allowance.octets):
        raise TooLarge(_ARRIVED)
    try:
        with anyio.fail_after(allowance.seconds):
            return await _collect(receive, allowance.octets)
    except TimeoutError:
        raise TooSlow("the body did not arrive in time") from None


async def _collect(receive: Receive, allowed: int) -> bytes:
    taken = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        taken += message.get("body", b"")
        if len(taken) > allowed:
            raise TooLarge(_ARRIVED)
        if not message.get("more_body", False):
            return bytes(taken)


def header(scope: Scope, name: bytes) -> bytes:
    """Return a header's value, several joined as HTTP joins them, or nothing."""
    return b", ".join(value for key, value in scope["headers"] if key == name)


def require_json(scope: Scope) -> None:
    """Raise Invalid unless the body claims to be plain, uncompressed JSON."""
    if header(scope, b"content-encoding").strip().lower() not in {b"", b"identity"}:
        raise malformed("body", "must not be compressed")
    media_type, _, parameters = header(scope, b"content-type").partition(b";")
    if media_type.strip().lower() != b"application/json":
        raise malformed("body", "must be sent as application/json")
    if parameters.strip().lower().replace(b'"', b"") not in {b"", b"charset=utf-8"}:
        raise malformed("body", "must be UTF-8")


def parse(raw: bytes, allowance: Allowance) -> JsonObject:
    """Read one strict JSON object (RFC 8259 with I-JSON's rules, RFC 7493).

    Raises TooDeep for nesting or keys beyond the limits, before anything is built; Malformed for
    anything else two parsers could read differently: duplicate keys, NaN, lone surrogates, a BOM.
    """
    _require_modest(raw, allowance)
    try:
        value = cast(
            Json,
            json.loads(
                raw.decode(), object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant
            ),
        )
    except (ValueError, RecursionError):
        raise malformed("body", "must be valid JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise malformed("body", "must be a JSON object")
    if rb"\u" in raw and any(_is_lone(text) for text in _texts(value)):
        raise malformed("body", "must not hold a lone surrogate")
    return value


def _require_modest(raw: bytes, allowance: Allowance) -> None:
    """Count brackets, colons and commas outside strings; the counting itself is bounded."""
    depth = keys = 0
    for tokens, token in enumerate(_TOKEN.finditer(raw)):
        mark = raw[token.start()]
        depth += (mark in b"[{") - (mark in b"]}")
        keys += mark == _COLON
        if depth > limits.JSON_DEPTH:
            raise TooDeep("the body is nested deeper than 32 levels")
        if keys > allowance.keys or tokens > allowance.tokens:
            raise TooDeep("the body holds more keys and items than this route takes")


def _unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise malformed("body", "must not repeat a key")
    return read


def _finite(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise malformed("body", "must hold finite numbers only")
    return number


def _no_constant(_name: str) -> NoReturn:
    raise malformed("body", "must hold finite numbers only")


def _texts(value: Json) -> Iterator[str]:
    """Yield every string in the value, keys included; the depth is already bounded."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)


def _is_lone(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
