"""What a disk may hold after a power cut, from the log of one run's calls. RELIABILITY T-03, after ALICE.

What was synced is there. Of the rest any part may be: each write kept, dropped or torn at a sector, whatever
was written before or after it; each new name and each removal as long as its directory was not synced.
"""

import random
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

CALLS = ("openat", "pwrite64", "write", "fdatasync", "fsync", "ftruncate", "unlink", "rename")
_SECTOR = 512  # the most a disk promises to write as one
_LINE = re.compile(r"\d+ +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"(\d+)<((?:\\x[0-9a-f]{2})*)>")


@dataclass(slots=True)
class _Write:
    at: int
    data: bytes


@dataclass(slots=True)
class _Cut:
    length: int


@dataclass(slots=True)
class _File:
    """What is on the disk of one file, and what is on its way there."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Write | _Cut] = field(default_factory=list["_Write | _Cut"])

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def after_a_cut(self, chance: random.Random, kept: float) -> bytes:
        content = bytearray(self.durable)
        for change in self.pending:
            if chance.random() < kept:
                _apply(content, _torn(change, chance) if 0 < kept < 1 else change)
        return bytes(content)


def _apply(content: bytearray, change: _Write | _Cut) -> None:
    if isinstance(change, _Cut):
        content[change.length :] = b"\0" * max(0, change.length - len(content))
        return
    content.extend(b"\0" * (change.at - len(content)))
    content[change.at : change.at + len(change.data)] = change.data


def _torn(change: _Write | _Cut, chance: random.Random) -> _Write | _Cut:
    if isinstance(change, _Cut) or chance.random() < 0.7:
        return change
    sectors = len(change.data) // _SECTOR
    return _Write(change.at, change.data[: chance.randint(0, sectors) * _SECTOR])


@dataclass(slots=True)
class _Renaming:
    """A change of names in one directory: a name that leads to a file now, or to none."""

    path: str
    file: _File | None


@dataclass(slots=True)
class Disk:
    """A disk below one directory, moment after moment of a run."""

    root: Path
    names: dict[str, _File] = field(default_factory=dict[str, _File])
    durable_names: dict[str, _File] = field(default_factory=dict[str, _File])
    renamings: list[_Renaming] = field(default_factory=list[_Renaming])
    open_files: dict[int, tuple[str, _File | None]] = field(
        default_factory=dict[int, "tuple[str, _File | None]"]
    )
    places: dict[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def of(cls, root: Path) -> "Disk":
        """Return the disk as it lies there, everything durable."""
        disk = cls(root)
        for path in root.rglob("*"):
            if path.is_file():
                disk.durable_names[str(path)] = disk.names[str(path)] = _File(bytearray(path.read_bytes()))
        return disk

    def run(self, log: Path) -> Iterator[str]:
        """Take over each logged call, and say which one it was."""
        for line in log.read_text().splitlines():
            match = _LINE.match(line)
            if match is None or int(match["result"]) < 0:
                assert "unfinished" not in line, "one thread writes"
                continue
            if self._take(match["name"], match["arguments"], match["result"], line):
                yield match["name"]

    def _take(self, name: str, arguments: str, result: str, line: str) -> bool:
        texts = [_bytes(one) for one in _TEXT.findall(arguments)]
        if name == "openat":
            return self._open(texts[0].decode(), arguments, int(result))
        if name in {"unlink", "rename"}:
            return self._rename([text.decode() for text in texts])
        descriptor = _DESCRIPTOR.match(arguments)
        if descriptor is None or int(descriptor[1]) not in self.open_files:
            return False
        number = int(descriptor[1])
        path, file = self.open_files[number]
        if path != _bytes(descriptor[2]).decode().removesuffix(" (deleted)"):
            return False  # the number was given to something outside meanwhile
        if name in {"fdatasync", "fsync"}:
            self._sync(path, file)
        elif file is not None and name == "ftruncate":
            file.pending.append(_Cut(int(arguments.rpartition(",")[2])))
        elif file is not None:
            at = int(arguments.rpartition(",")[2]) if name == "pwrite64" else self.places.get(number, 0)
            self.places[number] = at + int(result)
            file.pending.append(_Write(at, texts[0][: int(result)]))
        return True

    def _open(self, path: str, flags: str, number: int) -> bool:
        self.open_files.pop(number, None)
        if not path.startswith(str(self.root)):
            return False
        if "O_CREAT" in flags and path not in self.names:
            self._name(path, _File())
        self.open_files[number] = (path, self.names.get(path))
        self.places[number] = 0
        return True

    def _rename(self, paths: list[str]) -> bool:
        if not paths[0].startswith(str(self.root)) or paths[0] not in self.names:
            return False
        file = self.names[paths[0]]
        self._name(paths[0], None)
        for target in paths[1:]:
            self._name(target, file)
        return True

    def _name(self, path: str, file: _File | None) -> None:
        _rename_in(self.names, _Renaming(path, file))
        self.renamings.append(_Renaming(path, file))

    def _sync(self, path: str, file: _File | None) -> None:
        if file is not None:
            file.sync()
            return
        for one in [one for one in self.renamings if str(Path(one.path).parent) == path]:
            _rename_in(self.durable_names, one)
            self.renamings.remove(one)

    def image(self, chance: random.Random, kept: float) -> dict[str, bytes]:
        """Return files as a power cut now may leave them; `kept` is the part of what was not synced."""
        names = dict(self.durable_names)
        for one in self.renamings:
            if chance.random() < kept:
                _rename_in(names, one)
        return {
            path: file.after_a_cut(chance, kept)
            for path, file in names.items()
            if not path.endswith("-shm")  # no data, and made anew
        }

    def written(self, path: Path) -> bytes:
        """Return what a program that reads the file at this moment sees."""
        file = deepcopy(self.names.get(str(path), _File()))
        file.sync()
        return bytes(file.durable)


def _rename_in(names: dict[str, _File], change: _Renaming) -> None:
    if change.file is None:
        names.pop(change.path, None)
    else:
        names[change.path] = change.file


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))
