"""Signed values on their way to paper: typed access, and one inert spelling. docs/spec/receipt.md §8."""

from __future__ import annotations

import re
import time
from typing import cast

from shomei_memory_verify.canonical import canonical_bytes

# What may stand in a Markdown code span as it is; everything else is written as an escape.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.,:;=+/() -]")
_LONGEST_SHOWN = 120
_LONGEST_LIST = 8
_LAST_SECOND = 253_402_300_799  # the end of year 9999


class Unfit(Exception):
    """The signed body does not carry what its certificate would state; the message names only our fields."""


class Fields:
    """A signed body, read field by field; anything missing or of another type raises Unfit."""

    __slots__ = ("_body",)

    def __init__(self, body: dict[str, object]) -> None:
        self._body = body

    def text(self, name: str) -> str:
        """Return a string field, as a code span."""
        return shown(self._string(name))

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return a string field that must be one of the allowed words."""
        value = self._string(name)
        if value not in allowed:
            raise Unfit(f"{name} has no value this schema knows")
        return value

    def count(self, name: str) -> int:
        """Return a field that must be an integer and not negative."""
        value = self._body.get(name)
        if type(value) is not int or value < 0:
            raise Unfit(f"{name} is not a count")
        return value

    def flag(self, name: str) -> bool:
        """Return a field that must be true or false."""
        value = self._body.get(name)
        if type(value) is not bool:
            raise Unfit(f"{name} is neither true nor false")
        return value

    def moment(self, name: str) -> str:
        """Return an epoch second as a UTC time."""
        return utc(self.count(name))

    def has(self, name: str) -> bool:
        """Tell whether the field is there and not null."""
        return self._body.get(name) is not None

    def starts(self, name: str, prefix: str) -> bool:
        """Tell whether the field is a string with the prefix."""
        value = self._body.get(name)
        return isinstance(value, str) and value.startswith(prefix)

    def is_word(self, name: str, word: str) -> bool:
        """Tell whether the field is this very string."""
        return self._body.get(name) == word

    def listing(self) -> list[str]:
        """Return every signed field as a line, nested ones one level deep."""
        lines: list[str] = []
        for name in sorted(self._body):
            value = self._body[name]
            members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
            lines += [_listed(f"{name}.{part}", members[part]) for part in sorted(members)]
            if not members:
                lines.append(_listed(name, self._body[name]))
        return lines

    def _string(self, name: str) -> str:
        value = self._body.get(name)
        if not isinstance(value, str) or not value:
            raise Unfit(f"{name} is not a text")
        return value


def _listed(name: str, value: object) -> str:
    # Every field of ours that ends so is a time (docs/spec/receipt.md §7), and few people read epoch seconds.
    is_time = name.endswith("_at") and type(value) is int and 0 <= value <= _LAST_SECOND
    return f"- {shown(name)}: {shown(value)}" + (f" ({utc(cast('int', value))})" if is_time else "")


def shown(value: object) -> str:
    """Return any signed value as a Markdown code span that can neither end early nor mean anything."""
    if isinstance(value, str):
        return f"`{_inert(value)}`"
    if isinstance(value, list):
        items = cast("list[object]", value)
        if items and len(items) <= _LONGEST_LIST and not any(isinstance(item, dict | list) for item in items):
            return ", ".join(map(shown, items))
        return f"{len(items)} item(s)"
    if isinstance(value, dict):
        return f"{len(cast('dict[str, object]', value))} member(s)"
    return f"`{canonical_bytes(value).decode()}`"


def _inert(text: str) -> str:
    if not text:
        return "(empty)"
    cut = text[:_LONGEST_SHOWN]
    more = f" ...({len(text)} characters)" if len(text) > _LONGEST_SHOWN else ""
    return _NOT_PLAIN.sub(_escape, cut) + more


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def utc(second: int) -> str:
    """Return an epoch second as a UTC time."""
    if not 0 <= second <= _LAST_SECOND:
        return f"epoch second {second}"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(second))
