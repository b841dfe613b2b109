"""Bytes put aside while an answer is made: sealed on disk under a key that only this process knows.

What is exported is content, and no file may hold it in clear (SEMANTICS.md §23, I-14). The file has no name
and the key is never written, so nothing of it can be read once the process ends.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from typing import Final

from ..errors import StorageUnavailable
from .sealing import KEY_BYTES, OVERHEAD_BYTES, open_sealed, seal

_BLOCK: Final = 1 << 18
_IN_MEMORY: Final = 1 << 20  # sealed too; smaller spools never reach a disk


class Spool:
    """Write once, then read as often as needed, each time from the start."""

    def __init__(self) -> None:
        self._key = os.urandom(KEY_BYTES)
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # closed by close
        self._buffer = bytearray()
        self._blocks = 0
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Add bytes. Raise StorageUnavailable when the disk is full."""
        self._digest.update(data)
        self._buffer += data
        while len(self._buffer) >= _BLOCK:
            self._put(bytes(self._buffer[:_BLOCK]))
            del self._buffer[:_BLOCK]

    @property
    def digest(self) -> str:
        """The SHA-256 of everything written, in hex."""
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """Yield everything written, in order."""
        self._file.seek(0)
        for number in range(self._blocks):
            sealed = self._file.read(_BLOCK + OVERHEAD_BYTES)
            yield open_sealed(self._key, sealed, number.to_bytes(8))
        if self._buffer:
            yield bytes(self._buffer)

    def close(self) -> None:
        """Let go of the file and of the key."""
        self._file.close()
        self._key = b""
        self._buffer.clear()

    def _put(self, block: bytes) -> None:
        try:
            self._file.write(seal(self._key, block, self._blocks.to_bytes(8)))
        except OSError as exc:
            raise StorageUnavailable("there is no room to put an answer aside") from exc
        self._blocks += 1
