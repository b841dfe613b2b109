"""Epoch keys as files: development custody. Overwriting promises nothing on SSDs or under snapshots."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...errors import CustodyUnavailable, IntegrityFault
from ..faults import CustodyMismatch, KeyGone
from ..sealing import KEY_BYTES, open_sealed, seal
from .protocol import Description, Destroyed, DestroyMethod, Finality, Handle, KeyCustody, KeyState, named

_SUFFIX: Final = ".key"
_OTHERS: Final = 0o077
_NO_KEY: Final = bytes(KEY_BYTES)


class LocalFile:
    """One 0600 file for each epoch key, in a 0700 directory."""

    def __init__(self, directory: Path) -> None:
        """Use a directory that `initialise` made; raise CustodyMismatch if it is gone or open to others."""
        self._directory: Final = directory
        try:
            mode = directory.stat().st_mode
        except OSError as exc:
            raise CustodyMismatch(
                "the key directory is missing; put it back, a new one would not open any data"
            ) from exc
        if not stat.S_ISDIR(mode) or mode & _OTHERS:
            raise CustodyMismatch("the key directory must be a directory of mode 0700")

    @classmethod
    def initialise(cls, directory: Path) -> "LocalFile":
        """Make the directory; raise CustodyMismatch if anything is in it already."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise CustodyMismatch("the key directory is not empty; init creates, it never replaces")
        sync_directory(directory.parent)
        return cls(directory)

    def create(self, name: str) -> Handle:
        """Write a new random key; durable, with its directory entry, before this returns."""
        handle = Handle(name)
        try:
            descriptor = os.open(
                self._path(handle), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
            )
            try:
                _write_durably(descriptor, os.urandom(KEY_BYTES))
            finally:
                os.close(descriptor)
            sync_directory(self._directory)
        except OSError as exc:
            raise CustodyUnavailable("the epoch key could not be written") from exc
        return handle

    def wrap(self, handle: Handle, key: bytes, aad: bytes) -> bytes:
        """Return the key sealed under the epoch key."""
        return seal(self._read(handle), key, aad)

    def unwrap(self, handle: Handle, blob: bytes, aad: bytes) -> bytes:
        """Return the key that was wrapped; the file is read each time."""
        try:
            return open_sealed(self._read(handle), blob, aad)
        except IntegrityFault:
            self._read(handle)  # what was being overwritten just then is gone by now
            raise

    def destroy(self, handle: Handle) -> Destroyed:
        """Overwrite the file with zeros, sync, remove it, sync its directory.

        Zeros tell whoever reads it meanwhile that the key is gone; other bytes would look like damage.
        """
        ended = Destroyed(DestroyMethod.FILE_OVERWRITE_UNLINK, Finality.UNASSURED)
        where = self._path(handle)
        try:
            descriptor = os.open(where, os.O_WRONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            self._require_directory()
            return ended
        except OSError as exc:
            raise CustodyUnavailable("the epoch key could not be overwritten") from exc
        try:
            try:
                _write_durably(descriptor, _NO_KEY)
            finally:
                os.close(descriptor)
            with suppress(FileNotFoundError):  # another process may have been first
                os.unlink(where)
            sync_directory(self._directory)  # a power cut must bring back no key that nobody names
        except OSError as exc:
            raise CustodyUnavailable("the epoch key could not be destroyed") from exc
        return ended

    def state(self, handle: Handle) -> KeyState:
        """Return whether the file is there; raise CustodyUnavailable when that can not be told."""
        try:
            os.lstat(self._path(handle))
        except FileNotFoundError:
            self._require_directory()
            return KeyState.GONE
        except OSError as exc:
            raise CustodyUnavailable("the key directory can not be read") from exc
        return KeyState.ACTIVE

    def describe(self) -> Description:
        """Say that this is development custody."""
        return Description(KeyCustody.DEV_LOCAL_FILE, is_development=True)

    def _require_directory(self) -> None:
        """Trust "no such file" only of a directory that is there: a volume may have gone with its keys."""
        if not self._directory.is_dir():
            raise CustodyUnavailable("the key directory is not there; put its volume back")

    def _path(self, handle: Handle) -> str:
        return f"{self._directory}/{named(handle)}{_SUFFIX}"

    def _read(self, handle: Handle) -> bytes:
        try:
            descriptor = os.open(self._path(handle), os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            self._require_directory()
            raise KeyGone("the epoch key does not exist") from None
        except OSError as exc:
            raise CustodyUnavailable("the epoch key can not be read") from exc
        try:
            if os.fstat(descriptor).st_mode & _OTHERS:
                raise CustodyMismatch(
                    "an epoch key is open to others; make its mode 0600, and ask who may have read it"
                )
            key = os.read(descriptor, KEY_BYTES + 1)
        except OSError as exc:
            raise CustodyUnavailable("the epoch key can not be read") from exc
        finally:
            os.close(descriptor)
        if len(key) != KEY_BYTES:
            raise CustodyMismatch("an epoch key is not 32 bytes long; put the unaltered file back")
        if key == _NO_KEY:
            raise KeyGone("the epoch key was overwritten")
        return key


def sync_directory(directory: Path) -> None:
    """Make a directory's entries durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_durably(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise OSError("short write")
    os.fsync(descriptor)
