"""RFC 8785 bytes of a JSON value: what a receipt hashes and signs. docs/spec/receipt.md §2."""

from __future__ import annotations

from json.encoder import JSONEncoder
from typing import cast

# RFC 7493 §2.2: an integer beyond this has no exact double.
MAX_SAFE_INTEGER = 2**53 - 1

# ECMA-262 Number::toString writes plain digits up to 21 places before the point and 6 zeros after it.
_PLAIN_PLACES = 21
_LEADING_ZEROS = 6

# RFC 8785 §3.2.2.2: the C encoder's escapes are exactly the required ones once ensure_ascii is off.
_encode = JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


class NotCanonical(ValueError):
    """The value has no RFC 8785 form."""


def canonical_bytes(value: object) -> bytes:
    """Return the RFC 8785 form of a JSON value.

    Raises NotCanonical for a value outside I-JSON: another type or key type, NaN or an infinity, an integer
    beyond 2^53-1, a lone surrogate, a cycle, or nesting deeper than the interpreter can follow.
    """
    try:
        text = _encode(value)  # before the scan: it stops at cycles
        if not _is_plain(value):
            text = _write(value)
        return text.encode()
    except NotCanonical:
        raise
    except (TypeError, ValueError, RecursionError):
        raise NotCanonical("the value has no RFC 8785 form") from None


def plain_bytes(value: object) -> bytes:
    """Return the RFC 8785 form of a value already known to be plain: ASCII keys, safe integers, no floats."""
    return _encode(value).encode()


def _is_plain(value: object) -> bool:
    """Tell whether the C encoder's text is already canonical: ASCII keys, safe integers, no floats."""
    containers: list[object] = [[value]]
    for container in containers:  # grows while it is read
        if type(container) is dict:
            members = cast("dict[str, object]", container)
            if not "".join(members).isascii():
                return False
            children = members.values()
        else:
            children = cast("list[object]", container)
        for child in children:
            kind = type(child)
            if kind is dict or kind is list:
                containers.append(child)
            elif kind is int:
                if not -MAX_SAFE_INTEGER <= cast("int", child) <= MAX_SAFE_INTEGER:
                    return False
            elif not (kind is str or kind is bool or child is None):
                return False
    return True


def _write(value: object) -> str:
    """Write any I-JSON value, one rule of RFC 8785 §3.2 for each type."""
    if value is None or isinstance(value, bool | str):
        return _encode(value)
    if isinstance(value, int):
        return _write_integer(value)
    if isinstance(value, float):
        return _write_float(value)
    if isinstance(value, dict):
        return _write_object(cast("dict[object, object]", value))
    # Lists and tuples are left: the C encoder has refused every other type, and NaN and the infinities.
    return "[" + ",".join(map(_write, cast("list[object]", value))) + "]"


def _write_object(members: dict[object, object]) -> str:
    # RFC 8785 §3.2.3: names sort by UTF-16 code units, which differs from code points above U+FFFF.
    names: list[str] = []
    for name in members:
        if not isinstance(name, str):
            raise NotCanonical("a member name is not a string")
        names.append(name)
    names.sort(key=_utf16)
    return "{" + ",".join(f"{_encode(name)}:{_write(members[name])}" for name in names) + "}"


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _write_integer(value: int) -> str:
    if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        raise NotCanonical("an integer is beyond 2^53-1")
    return int.__repr__(value)


def _write_float(value: float) -> str:
    """Write a finite double as ECMAScript does (RFC 8785 §3.2.2.3)."""
    if value == 0:
        return "0"  # minus zero too
    sign = "-" if value < 0 else ""
    # repr gives the same shortest digits as ECMAScript; only their layout differs.
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    return sign + _lay_out(digits.rstrip("0"), point)


def _lay_out(digits: str, point: int) -> str:
    """Place the decimal point after `point` of the significant digits (ECMA-262 6.1.6.1.20)."""
    if len(digits) <= point <= _PLAIN_PLACES:
        return digits.ljust(point, "0")
    if 0 < point <= _PLAIN_PLACES:
        return f"{digits[:point]}.{digits[point:]}"
    if -_LEADING_ZEROS < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"
