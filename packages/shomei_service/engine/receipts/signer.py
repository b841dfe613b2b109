"""Ed25519 signing of canonical bodies, and where its seeds lie. RFC 8032; RECEIPTS.md §1.

While a signer is being rotated there are two seeds: the one in use, and the one to come. A tenant's log names
the one it is at, so every process signs with the right one. The signer's key is never custody's epoch key.
"""

import fcntl
import hashlib
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey

from ..errors import SigningFault, StartRefused

SEED_BYTES: Final = 32
_OTHERS: Final = 0o077


class ReceiptSigner(Protocol):
    """Whoever can sign; one of them at a time for each log."""

    @property
    def signer_id(self) -> str:
        """`shomei-receipt:` and 16 hex, derived from the public key."""
        ...

    @property
    def public_key_hex(self) -> str:
        """The pin: 64 lower-case hex."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature, or raise SigningFault."""
        ...


class SeedPlace(Protocol):
    """Where seeds are kept: a file of their own, or custody."""

    def seeds(self) -> list[bytes]:
        """Return the seeds, oldest first: none, one, or two while a rotation is under way."""
        ...

    def keep(self, seed: bytes, *, beside: int) -> None:
        """Keep one more seed, durable before this returns, if so many are there and no more.

        Two who rotate at one moment make one seed between them.
        """
        ...

    def drop(self, seed: bytes) -> None:
        """Destroy a seed; one that is not there is no error."""
        ...

    def state(self) -> object:
        """Return what is another value once seeds are others; cheap to ask."""
        ...


class SeedSigner:
    """A signer whose seed is in this process's memory while it is open."""

    def __init__(self, seed: bytes) -> None:
        self._key = SigningKey(seed)
        public = bytes(self._key.verify_key)
        self._public_key_hex = public.hex()
        self._signer_id = "shomei-receipt:" + hashlib.sha256(public).hexdigest()[:16]

    @property
    def signer_id(self) -> str:
        """`shomei-receipt:` and 16 hex of a hash of the public key."""
        return self._signer_id

    @property
    def public_key_hex(self) -> str:
        """The pin: 64 lower-case hex."""
        return self._public_key_hex

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature."""
        try:
            return self._key.sign(message).signature
        except CryptoError as exc:
            raise SigningFault("the signer could not sign") from exc


@dataclass(frozen=True, slots=True)
class Available:
    """Who can sign now, and who will when the rotation under way has ended."""

    current: ReceiptSigner
    coming: ReceiptSigner | None

    @property
    def newest(self) -> ReceiptSigner:
        """The one that new logs begin with."""
        return self.coming or self.current

    def find(self, signer_id: str) -> ReceiptSigner | None:
        """Return the one of this id; None if its seed is gone."""
        both = (self.current, self.coming)
        return next((one for one in both if one is not None and one.signer_id == signer_id), None)


class Signers:
    """The seeds of one installation: in the place that is configured, or still in the one before it."""

    def __init__(self, place: SeedPlace, before: Sequence[SeedPlace] = ()) -> None:
        """Read nothing yet."""
        self._place: Final = place
        self._before: Final = tuple(before)

    def create(self) -> None:
        """Make the first seed. Raise StartRefused if one is there: a signer is never replaced silently."""
        if self._seeds():
            raise StartRefused("a signer key is already there; init creates, it never replaces")
        self._place.keep(os.urandom(SEED_BYTES), beside=0)

    def read(self) -> Available:
        """Return who can sign; raise StartRefused if nobody can."""
        seeds = self._seeds()
        if not seeds:
            raise StartRefused(
                "the signer key is missing or cannot be read; restore it, a new one is never made"
            )
        current, *coming = map(SeedSigner, seeds)
        return Available(current, coming[-1] if coming else None)

    def prepare(self) -> None:
        """Make the seed to come, unless there is one already."""
        beside = len(self._place.seeds())
        if self.read().coming is None:
            self._place.keep(os.urandom(SEED_BYTES), beside=beside)

    def promote(self) -> None:
        """End the rotation: destroy every seed but the one to come."""
        *going, _ = self._seeds()
        for seed in going:
            for place in (*self._before, self._place):
                place.drop(seed)

    def state(self) -> object:
        """Return what is another value once seeds are others; cheap to ask."""
        return [place.state() for place in (*self._before, self._place)]

    def _seeds(self) -> list[bytes]:
        return [seed for place in (*self._before, self._place) for seed in place.seeds()]


class SeedFiles:
    """Seeds as 0600 files of 32 bytes: the one in use, and beside it the one to come."""

    def __init__(self, path: Path) -> None:
        """Name the file of the seed in use."""
        self._used: Final = path
        self._coming: Final = path.with_suffix(".next")

    def seeds(self) -> list[bytes]:
        """Return what is there; raise StartRefused for a file missing, cut short or open to others."""
        if self._coming.exists() and not self._used.exists():
            raise StartRefused(
                "the signer key is missing while signer.next is to follow it; restore it, or rename "
                "signer.next to signer.key if it is lost for good"
            )
        return [_read(path) for path in (self._used, self._coming) if path.exists()]

    def keep(self, seed: bytes, *, beside: int) -> None:
        """Write the seed to come, or the first one."""
        with self._alone():
            if len(self.seeds()) != beside:
                return
            path = self._coming if beside else self._used
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            _write(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600), seed)
            part.rename(path)
            _sync(path.parent)

    def drop(self, seed: bytes) -> None:
        """Let the seed to come take this one's place, and overwrite it."""
        with self._alone():
            if seed not in self.seeds()[:1]:
                return
            descriptor = os.open(self._used, os.O_WRONLY | os.O_NOFOLLOW)
            # The seed to come takes the name first: dying after this leaves one whole seed, whichever it is.
            if self._coming.exists():
                self._coming.rename(self._used)
            else:
                self._used.unlink()
            _sync(self._used.parent)
            _write(descriptor, os.urandom(SEED_BYTES))

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Keep other processes from changing the files: between looking and acting they may be others."""
        directory = os.open(self._used.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def state(self) -> object:
        """Return which files there are, and since when."""
        found = [path.stat() for path in (self._used, self._coming) if path.exists()]
        return [(one.st_ino, one.st_mtime_ns, one.st_ctime_ns) for one in found]


def _read(path: Path) -> bytes:
    try:
        seed, shared = path.read_bytes(), path.stat().st_mode & _OTHERS
    except OSError:
        raise StartRefused("the signer key cannot be read; look at its file's owner and mode") from None
    if len(seed) != SEED_BYTES:
        raise StartRefused("the signer key file is not 32 bytes long; restore it")
    if shared:
        raise StartRefused("the signer key file is open to other users; set its mode to 0600")
    return seed


def _write(descriptor: int, seed: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(seed)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
