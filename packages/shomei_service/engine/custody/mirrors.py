"""Copies of the custody store in other places, as new as the store itself. CUSTODY.md §2, §4.

A mirror is one SQLite file, written whole beside the old one and then put in its place: whoever looks finds
the one or the other. What nobody may lose is committed, then mirrored, and only then relied on.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ..errors import CustodyUnavailable
from .faults import CustodyMismatch
from .providers.local_file import sync_directory

_TURN: Final = "mirrors.lock"
_PART: Final = ".part"


class MirrorBehind(CustodyUnavailable):
    """What was committed is in the store and not in every mirror; nothing stands on it yet."""


class Mirrors:
    """The copies of one store. Every method may be called from any thread."""

    def __init__(self, store: Path, directories: Sequence[Path]) -> None:
        """Name the places; each gets a file called as the store's is. Make nothing yet."""
        self._store: Final = store
        self.paths: Final = [directory / store.name for directory in directories]
        self._asked: Final = count(1)
        self._newest: int = 0
        self._reached: int = 0
        self._turn: Final = threading.Lock()

    def require_there(self) -> None:
        """Raise CustodyMismatch unless every directory is there: an unmounted disk is no mirror."""
        for path in self.paths:
            if not path.parent.is_dir() or path.parent.samefile(self._store.parent):
                raise CustodyMismatch(
                    "a directory of SHOMEI_CUSTODY_MIRRORS is missing, or is the store's own; mount it, "
                    "make it, or take it out of the setting"
                )

    def bring_up(self) -> None:
        """Make every mirror as new as the store is now; raise MirrorBehind if one can not be."""
        if not self.paths:
            return
        wanted = self._newest = next(self._asked)
        with self._turn:
            if self._reached >= wanted:
                return  # a copy begun after this commit, for another thread, has it too
            reached = self._newest
            try:
                with self._alone():
                    for path in self.paths:
                        _copy(self._store, path)
            except (OSError, sqlite3.Error) as exc:
                raise MirrorBehind("a mirror of the custody store can not be written") from exc
            self._reached = reached

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Keep other processes from putting an older copy in the place of a newer one."""
        where = self._store.with_name(_TURN)
        descriptor = os.open(where, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _copy(store: Path, mirror: Path) -> None:
    part = mirror.with_name(mirror.name + _PART)
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        source = sqlite3.connect(f"file:{quote(str(store))}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(part)) as target:
            target.execute("PRAGMA synchronous=OFF")  # synced once, below
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")  # a file of its own, with no log beside it
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    part.rename(mirror)
    sync_directory(mirror.parent)
