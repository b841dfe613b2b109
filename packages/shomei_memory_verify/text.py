"""The strict door for JSON text: what cannot be a receipt is refused here. docs/spec/receipt.md §4."""

from __future__ import annotations

import math
import re
from json.decoder import JSONDecoder
from typing import cast

from shomei_memory_verify.canonical import MAX_SAFE_INTEGER, plain_bytes

MAX_BYTES = 65_536  # the published contract's 64 KiB
MAX_DEPTH = 64  # containers, the envelope being the first

# 2^53-1 has sixteen digits; one more for the sign. A longer integer is not even converted.
_LONGEST_INTEGER = 17

# From 1e21 on the canonical form of a double has an exponent (RFC 8785 §3.2.2.3).
_EXPONENT_FORM = 1e21

_ESCAPE = re.compile(r"\\.", re.DOTALL)
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


class Malformed(ValueError):
    """The input cannot be read as a receipt; the message is one of a few fixed sentences."""


class _FloatSeen(Exception):
    """The text holds a number with a fraction or an exponent."""


def parse(text: str) -> tuple[object, bool]:
    """Return the value of a JSON text, and whether it is plain enough for the canonical fast path.

    Raises Malformed, also for what other parsers let pass: duplicate names, NaN, lone surrogates.
    """
    ascii_only = _require_size(text)
    escaped = "\\" in text
    _require_depth(text, escaped=escaped)
    value, floats = _decode(text)
    if escaped:
        _require_characters(value)
    return value, ascii_only and not escaped and not floats


def too_large() -> Malformed:
    """Return the refusal of an input beyond the size cap."""
    return Malformed(f"larger than {MAX_BYTES} bytes")


def too_deep() -> Malformed:
    """Return the refusal of nesting beyond the depth cap."""
    return Malformed(f"nested deeper than {MAX_DEPTH} levels")


def exact(value: float) -> float:
    """Return the number as it is signed, `1.0` being the integer 1.

    Raises Malformed for one that is not finite or whose canonical form is an unsafe integer.
    """
    if not math.isfinite(value):
        raise Malformed("a number that is not finite")
    if MAX_SAFE_INTEGER < abs(value) < _EXPONENT_FORM:
        raise Malformed("an integer beyond 2^53-1")
    return int(value) if value.is_integer() and abs(value) < _EXPONENT_FORM else value


def require_safe(value: int) -> int:
    """Return the integer, refusing one that a double cannot hold exactly (RFC 7493 §2.2)."""
    if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        raise Malformed("an integer beyond 2^53-1")
    return value


def _require_size(text: str) -> bool:
    """Refuse a text beyond the cap in UTF-8; tell whether it is all ASCII."""
    if len(text) > MAX_BYTES:
        raise too_large()
    if text.isascii():
        return True
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Malformed("a lone surrogate") from None
    if size > MAX_BYTES:
        raise too_large()
    return False


def _require_depth(text: str, *, escaped: bool) -> None:
    """Refuse nesting beyond the cap before the parser sees it."""
    # Where one object follows another, one was closed: not every opening bracket can be open at a time.
    followers = text.count("},{") + text.count("}, {")
    if text.count("{") + text.count("[") - followers <= MAX_DEPTH:
        return
    # Once escapes are gone, every second piece between quotes lies outside the strings.
    outside = (_ESCAPE.sub("", text) if escaped else text).split('"')[::2]
    brackets = "".join(outside).encode().translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        fewer = brackets.replace(b"[]", b"")  # takes away the innermost level
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    if brackets:
        raise too_deep()


def _decode(text: str) -> tuple[object, bool]:
    """Parse strictly; tell also whether a number was written as a float, which no receipt of ours is."""
    try:
        try:
            return cast("object", _integers.decode(text)), False
        except _FloatSeen:
            return cast("object", _floats.decode(text)), True
    except Malformed:
        raise
    except ValueError:
        raise Malformed("not JSON") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("a duplicate name")  # RFC 7493 §2.3
    return members


def _integer(digits: str) -> int:
    return require_safe(int(digits) if len(digits) <= _LONGEST_INTEGER else MAX_SAFE_INTEGER + 1)


def _float(digits: str) -> float:
    return exact(float(digits))


def _no_float(_digits: str) -> float:
    raise _FloatSeen


def _constant(_name: str) -> object:
    raise Malformed("not JSON")  # RFC 8259 knows no NaN and no Infinity


def _require_characters(value: object) -> None:
    try:
        plain_bytes(value)
    except UnicodeEncodeError:
        raise Malformed("a lone surrogate") from None


_integers = JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_no_float, parse_constant=_constant
)
_floats = JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
