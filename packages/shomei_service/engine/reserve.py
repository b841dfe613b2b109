"""Room kept for erasing on a full disk: given up when an erase has none. RELIABILITY T-07."""

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 4 << 20  # an erase of ten thousand rows writes about as much
_FULL: Final = {errno.ENOSPC, errno.EDQUOT}


class Reserve:
    """A file of zeroes beside a store; nothing where the store is a server."""

    def __init__(self, where: Path | None, size: int = RESERVE_BYTES) -> None:
        """Name the file; make nothing yet."""
        self._where: Final = where
        self._folder: Final = str(where.parent) if where else ""
        self._size: Final = size

    @property
    def is_spent(self) -> bool:
        """Say whether the room is gone and the disk has no other: then nothing but erasing goes on."""
        return self._where is not None and not self._where.exists() and self._is_tight()

    def make_room(self) -> None:
        """Give the room up if the disk has no other."""
        if self._where is not None and self._is_tight():
            self.release()

    def _is_tight(self) -> bool:
        assert self._where is not None, "a server's disk is not ours to look at"  # noqa: S101
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize < self._size

    def hold(self) -> None:
        """Take the room if it is not taken; do without while the disk is full."""
        if self._where is None or os.path.exists(self._where):
            return
        try:
            descriptor = os.open(self._where, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._size)
            finally:
                os.close(descriptor)
        except OSError:
            self.release()

    def release(self) -> bool:
        """Give the room up; return whether there was any."""
        if self._where is None:
            return False
        try:
            self._where.unlink()
        except OSError:
            return False
        return True


def is_full(failure: BaseException | None) -> bool:
    """Say whether a failure comes, however far down, from a disk without room."""
    while failure is not None:
        if isinstance(failure, OSError) and failure.errno in _FULL:
            return True
        if getattr(failure, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            return True
        failure = failure.__cause__
    return False
