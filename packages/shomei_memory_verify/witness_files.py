"""The files of an export, hashed: from a ZIP, an unpacked folder or a JSON answer. docs/spec/export.md §6."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
import zlib
from dataclasses import dataclass, field
from json.decoder import JSONDecoder
from typing import IO, TYPE_CHECKING, cast

from shomei_memory_verify.canonical import NotCanonical, canonical_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPORT = "export.json"
MANIFEST = "manifest.json"
WITNESS = "witness.json"

_CHUNK = 1 << 20
_SMALL = 1 << 24  # manifest and witness; a longer one is not ours
_ZIP_START = b"PK"
UNREADABLE = ""  # the digest of what is there and can not be read


class NotAPackage(ValueError):
    """What was given can not be looked into as a package; the message is a fixed sentence."""


@dataclass(slots=True)
class Files:
    """What lies in a package: the hash of each file, and those that are looked into."""

    digests: dict[str, str] = field(default_factory=dict[str, str])
    repeated: set[str] = field(default_factory=set[str])
    manifest: bytes | None = None
    witness: bytes | None = None
    export: bytes | None = None

    def put(self, name: str, file: IO[bytes] | None) -> None:
        """Take one file; None stands for something that is no file."""
        if name in self.digests:
            self.repeated.add(name)
        kept = name in {EXPORT, MANIFEST, WITNESS}
        digest, content = _read(file, keep=kept, most=None if name == EXPORT else _SMALL)
        self.digests[name] = digest
        if kept and content is not None:
            setattr(self, name.removesuffix(".json"), content)


def opened(path: str) -> Files:
    """Return the files of a package. Raise NotAPackage if it is none, OSError if it can not be read."""
    if os.path.isdir(path):
        return _of_folder(path)
    with open(path, "rb") as file:
        start = file.read(len(_ZIP_START))
        file.seek(0)
        return _of_zip(file) if start == _ZIP_START else _of_answer(file.read())


def parsed(data: bytes) -> object:
    """Return the value of a JSON text. Raise ValueError for what two parsers may read differently."""
    try:
        return cast("object", _decoder.decode(data.decode("utf-8")))
    except RecursionError:
        raise ValueError("nested too deep") from None


def _of_folder(path: str) -> Files:
    files = Files()
    for name in sorted(_below(path)):
        where = os.path.join(path, *name.split("/"))
        if not stat.S_ISREG(os.lstat(where).st_mode):  # a link may lead anywhere
            files.put(name, None)
            continue
        with open(where, "rb") as file:
            files.put(name, file)
    return files


def _below(path: str) -> Iterator[str]:
    for folder, inner, names in os.walk(path):
        links = [name for name in inner if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            yield os.path.relpath(os.path.join(folder, name), path).replace(os.sep, "/")


def _of_zip(file: IO[bytes]) -> Files:
    files = Files()
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    _put_entry(files, archive, entry)
    except (zipfile.BadZipFile, ValueError):  # ValueError: names that no file system takes
        raise NotAPackage("the file is not a ZIP archive that can be read") from None
    return files


def _put_entry(files: Files, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    try:
        opened_entry = archive.open(entry)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):  # damaged, odd or encrypted
        files.put(entry.filename, None)
        return
    with opened_entry:
        files.put(entry.filename, opened_entry)


def _of_answer(data: bytes) -> Files:
    """Read the JSON answer of an export: it holds export, manifest and witness as its members."""
    try:
        answer = parsed(data)
        if not isinstance(answer, dict):
            raise NotAPackage("the file is neither a ZIP archive nor the JSON answer of an export")
        members = cast("dict[str, object]", answer)
        parts = {
            name: canonical_bytes(members[member])
            for name, member in ((EXPORT, "export"), (MANIFEST, "manifest"), (WITNESS, "signed_receipt"))
            if member in members
        }
    except NotCanonical:
        raise NotAPackage("the JSON answer holds a value that no export holds") from None
    except ValueError as exc:
        if isinstance(exc, NotAPackage):
            raise
        raise NotAPackage("the file is neither a ZIP archive nor the JSON answer of an export") from None
    if EXPORT not in parts and MANIFEST not in parts:
        raise NotAPackage("the file is neither a ZIP archive nor the JSON answer of an export")
    return Files(
        {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()},
        manifest=parts.get(MANIFEST),
        witness=parts.get(WITNESS),
        export=parts.get(EXPORT),
    )


def _read(file: IO[bytes] | None, *, keep: bool, most: int | None) -> tuple[str, bytes | None]:
    """Return a file's hash, and its content if that is kept and not beyond its bound."""
    if file is None:
        return UNREADABLE, None
    digest, kept = hashlib.sha256(), bytearray()
    try:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            if keep and (most is None or len(kept) <= most):
                kept += piece
    except (zipfile.BadZipFile, zlib.error, EOFError):  # damaged inside the archive
        return UNREADABLE, None
    whole = keep and (most is None or len(kept) <= most)
    return digest.hexdigest(), bytes(kept) if whole else None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a duplicate name")
    return members


def _no_constant(_name: str) -> object:
    raise ValueError("not JSON")


_decoder = JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
