"""Look for what should not be there in every byte of every file, and prove that looking sees. T-12.

Files are read as they lie: what a database no longer shows, in free pages, logs and heaps, is read too.
"""

import gzip
import os
import re
import secrets
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from ..engine.errors import Fault
from .eye import Eye
from .spellings import Needle

_CHUNK: Final = 4 << 20
_STREAM: Final = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
_STREAM_BYTES: Final = 1 << 20  # compressed bytes read from where a stream may begin
_PIECE: Final = 4096
_INFLATED: Final = 4 << 20
_ANY_HEADER: Final = 47  # zlib or gzip, by its first bytes


class Blind(Fault):
    """The scan did not see what it had planted itself, so it can say nothing of anything else."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where something was seen, which of the needles it was, and how it was spelt there."""

    file: Path
    needle: int
    spelling: str
    offset: int


@dataclass(slots=True)
class Scanned:
    """What was looked at and what was seen there."""

    files: int = 0
    octets: int = 0
    seen: list[Sighting] = field(default_factory=list[Sighting])
    unread: list[Path] = field(default_factory=list[Path])


def scan(places: Iterable[Path], needles: Sequence[Needle]) -> Scanned:
    """Look through every file at or below the places; links are not followed.

    What can not be read is named: of it nothing is known.
    """
    done, eye = Scanned(), Eye(needles)
    for place in places:
        if not os.path.lexists(place):
            done.unread.append(place)
        for file in _files(place, done):
            try:
                with file.open("rb") as opened:
                    done.seen += _looked_through(file, opened, eye, done)
                done.files += 1
            except FileNotFoundError:
                continue  # whoever works there removed it meanwhile
            except OSError:
                done.unread.append(file)
    return done


def require_sight() -> int:
    """Plant a word of chance in every spelling, look for it, and return how many were seen.

    Raises Blind unless it was all of them.
    """
    word = f"control {secrets.token_hex(12)} Ωμέγα"
    needle = Needle.word(1, word)
    with tempfile.TemporaryDirectory(prefix="shomei-control-") as folder:
        planted = _plant(Path(folder), needle, word.encode())
        seen = {(one.file.name, one.spelling) for one in scan([Path(folder)], [needle]).seen}
    if planted - seen:
        raise Blind("the scan did not see what it had planted itself, so it says nothing")
    return len(planted)


def _plant(folder: Path, needle: Needle, plain: bytes) -> set[tuple[str, str]]:
    planted: set[tuple[str, str]] = set()
    noise = bytes(range(128, 192))
    for spelling, spelt in needle.spellings.items():
        for number, one in enumerate(sorted(spelt)):
            for how, written in (
                ("", one),
                ("compressed ", zlib.compress(one)),
                ("gzip ", gzip.compress(one)),
            ):
                name = f"{how}{spelling} {number}".replace(" ", "_")
                # Behind a chunk's worth of nothing, once: what lies across two readings is seen as well.
                before = bytes(_CHUNK - 7) if not planted else b""
                (folder / name).write_bytes(before + noise + written + noise)
                planted.add((name, ("compressed " if how else "") + spelling))
    torn = b"\x00".join(plain[at : at + 8] for at in range(0, len(plain), 8))
    (folder / "torn").write_bytes(noise + torn + noise)
    return planted | {("torn", "pglz")}


def _files(place: Path, done: Scanned) -> Iterator[Path]:
    """Yield regular files at or below a place, in order; what can not be listed counts as not read."""
    try:
        mode = place.lstat().st_mode
        below = sorted(place.iterdir()) if stat.S_ISDIR(mode) else []
    except FileNotFoundError:
        return
    except OSError:
        done.unread.append(place)
        return
    if stat.S_ISREG(mode):
        yield place
    for one in below:
        yield from _files(one, done)


def _looked_through(file: Path, opened: BinaryIO, eye: Eye, done: Scanned) -> list[Sighting]:
    """Return the first sighting of each needle in each spelling."""
    first: dict[tuple[int, str], Sighting] = {}
    offset, tail = 0, b""
    while chunk := opened.read(_CHUNK):
        done.octets += len(chunk)
        data, start = tail + chunk, offset - len(tail)
        for needle, spelling, at in eye.seen(data):
            first.setdefault((needle, spelling), Sighting(file, needle, spelling, start + at))
        for at, inflated in _inflated(opened, data, start):
            for needle, spelling, _ in eye.seen(inflated):
                how = "compressed " + spelling
                first.setdefault((needle, how), Sighting(file, needle, how, at))
        offset += len(chunk)
        tail = data[-eye.reach :]
        opened.seek(offset)
    return list(first.values())


def _inflated(opened: BinaryIO, data: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield whatever inflates, from each place where a compressed stream may begin, with that place."""
    for header in _STREAM.finditer(data):
        at, whole = start + header.start(), b""
        stream = zlib.decompressobj(_ANY_HEADER)
        for piece in _pieces(opened, data[header.start() :], at):
            try:
                whole += stream.decompress(piece, _INFLATED - len(whole))
            except zlib.error:
                break  # what came before the damage counts
            if stream.eof or len(whole) >= _INFLATED:
                break
        if whole:
            yield at, whole


def _pieces(opened: BinaryIO, known: bytes, at: int) -> Iterator[bytes]:
    """Yield the bytes from a place on, in small pieces: most streams turn out to be none at once."""
    for offset in range(0, _STREAM_BYTES, _PIECE):
        piece = known[offset : offset + _PIECE]
        if len(piece) < _PIECE:
            opened.seek(at + offset)
            piece = opened.read(_PIECE)
        if not piece:
            return
        yield piece
