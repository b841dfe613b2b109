"""How a word may lie on a disk: every encoding that a log, a page, a dump or a cache may have given it."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from ..engine.errors import Invalid

LEAST_BYTES: Final = 8  # shorter ones lie on any disk by chance
_TORN_BYTES: Final = 2 * LEAST_BYTES  # from here on each half says enough by itself
_PGLZ_ITEMS: Final = 8  # literals between two control bytes of PostgreSQL's compression


@dataclass(frozen=True, slots=True, repr=False)
class Needle:
    """What is looked for, by its number alone; how it may be spelt, by the name of the spelling."""

    number: int
    spellings: Mapping[str, frozenset[bytes]]
    interleaved: "Interleaved | None" = None

    @classmethod
    def word(cls, number: int, word: str) -> "Needle":
        """Return a word to look for. Raise Invalid for one so short that noise would hold it."""
        plain = word.encode()
        if len(plain) < LEAST_BYTES:
            raise Invalid("a needle has at least 8 bytes, or noise would be found")
        spellings = {name: frozenset(_with_halves(spelt)) for name, spelt in _spelt(word).items()}
        return cls(number, spellings, Interleaved.of(plain))

    @classmethod
    def sealed(cls, number: int, sealed: bytes) -> "Needle":
        """Return sealed bytes to look for: as they are, or written out."""
        return cls(number, {name: frozenset(spelt) for name, spelt in _written(sealed).items()})

    @property
    def longest(self) -> int:
        """Return how many bytes have to be looked at in one piece."""
        return max(len(one) for spelt in self.spellings.values() for one in spelt)


def _spelt(word: str) -> dict[str, set[bytes]]:
    plain = word.encode()
    wide = {name: word.encode(name) for name in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")}
    return {
        "utf-8": {plain, word.upper().encode(), word.lower().encode()},
        **{name: {encoded} for name, encoded in wide.items()},
        **{name: spelt for name, spelt in _written(plain).items() if name != "bytes"},
        "base64 of utf-16": _base64(wide["utf-16-le"], base64.b64encode)
        | _base64(wide["utf-16-be"], base64.b64encode),
        "hex of utf-16": {wide["utf-16-le"].hex().encode(), wide["utf-16-be"].hex().encode()},
        "json escapes": {json.dumps(word)[1:-1].encode(), json.dumps(word)[1:-1].upper().encode()},
        "percent": {quote(word).encode(), quote(word, safe="").lower().encode()},
    }


def _written(plain: bytes) -> dict[str, set[bytes]]:
    return {
        "bytes": {plain},
        "hex": {plain.hex().encode(), plain.hex().upper().encode()},
        "base64": _base64(plain, base64.b64encode) | _base64(plain, base64.urlsafe_b64encode),
    }


def _base64(plain: bytes, encode: Callable[[bytes], bytes]) -> set[bytes]:
    """Return the part of the encoding that does not depend on the neighbours, for each of three offsets."""
    found: set[bytes] = set()
    for before in range(3):
        whole = encode(bytes(before) + plain)
        first, last = -(-before * 8 // 6), (before + len(plain)) * 8 // 6
        found.add(whole[first:last])
    return found


def _with_halves(spelt: set[bytes]) -> Iterator[bytes]:
    """Yield each spelling, or its halves where they are long enough: a page's end may tear it in two."""
    for whole in spelt:
        if len(whole) < _TORN_BYTES:
            yield whole
        else:
            yield whole[: len(whole) // 2]
            yield whole[len(whole) // 2 :]


@dataclass(frozen=True, slots=True, repr=False)
class Interleaved:
    """A word that PostgreSQL compressed and could not shorten: a control byte before every 8 literals."""

    groups: Mapping[bytes, re.Pattern[bytes]]  # by eight of its bytes, which are quick to find
    length: int

    @classmethod
    def of(cls, plain: bytes) -> "Interleaved":
        """Return how a word may lie so; in no way if it is too short to hold a whole group."""
        groups: dict[bytes, re.Pattern[bytes]] = {}
        for first in range(1, _PGLZ_ITEMS + 1):
            starts = range(first, len(plain), _PGLZ_ITEMS)
            group = plain[first : first + _PGLZ_ITEMS]
            if len(group) == _PGLZ_ITEMS:
                parts = [plain[:first], *(plain[at : at + _PGLZ_ITEMS] for at in starts)]
                groups[group] = re.compile(b".".join(re.escape(part) for part in parts), re.DOTALL)
        return cls(groups, len(plain))

    def is_around(self, data: bytes, at: int, group: bytes) -> bool:
        """Say whether the whole word lies around one of its groups, which is at this place."""
        start = max(0, at - _PGLZ_ITEMS - 1)
        found = self.groups[group].search(data, start, at + 2 * self.length)
        return found is not None and found.start() <= at
