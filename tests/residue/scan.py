"""Find planted words in the bytes of every file below a folder, however they may have been written. I-14."""

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

_COMPRESSED: Final = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
_INFLATED: Final = 1 << 20
_ANY_HEADER: Final = 47  # zlib or gzip, by its first bytes
_STEM: Final = 12  # what stemming may leave of a marker, in characters


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a word was seen, and in which form."""

    file: str
    word: str
    form: str


def sightings(folders: Iterable[Path], words: Iterable[str]) -> list[Sighting]:
    """Return every place below the folders where one of the words is written in any form."""
    wanted = {word: forms(word[:_STEM]) for word in words}
    found: list[Sighting] = []
    for path in (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()):
        data = path.read_bytes()
        found += _seen(path.name, data, wanted, "")
        for inflated in _inflated(data):
            found += _seen(path.name, inflated, wanted, "compressed ")
    return found


def forms(word: str) -> dict[str, set[bytes]]:
    """Return how a word may lie on a disk."""
    plain = word.encode()
    return {
        "utf-8": {plain, word.upper().encode()},
        "utf-16": {word.encode("utf-16-le"), word.encode("utf-16-be")},
        "utf-32": {word.encode("utf-32-le"), word.encode("utf-32-be")},
        "hex": {plain.hex().encode(), plain.hex().upper().encode()},
        "base64": _base64(plain, base64.b64encode) | _base64(plain, base64.urlsafe_b64encode),
        "base64 of utf-16": _base64(word.encode("utf-16-le"), base64.b64encode),
        "json escapes": {json.dumps(word)[1:-1].encode()},
        "percent": {quote(word).encode(), quote(word).lower().encode()},
    }


def _base64(plain: bytes, encode: Callable[[bytes], bytes]) -> set[bytes]:
    """Return the part of the encoding that does not depend on the neighbours, for each of three offsets."""
    found: set[bytes] = set()
    for before in range(3):
        whole = encode(bytes(before) + plain)
        first = -(-before * 8 // 6)
        last = (before + len(plain)) * 8 // 6
        found.add(whole[first:last])
    return found


def _seen(name: str, data: bytes, wanted: Mapping[str, dict[str, set[bytes]]], how: str) -> list[Sighting]:
    return [
        Sighting(name, word, how + form)
        for word, spellings in wanted.items()
        for form, spelt in spellings.items()
        if any(one in data for one in spelt)
    ]


def _inflated(data: bytes) -> Iterable[bytes]:
    """Yield whatever inflates, from each place where a compressed stream may begin."""
    for start in _COMPRESSED.finditer(data):
        try:
            yield zlib.decompressobj(_ANY_HEADER).decompress(data[start.start() :], _INFLATED)
        except zlib.error:
            continue
