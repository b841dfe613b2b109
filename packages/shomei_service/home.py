"""The home directory: private from creation, and one server at a time on it. CONTRACT.md §4-§5."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .engine.errors import StartRefused
from .settings import Settings

_LOCK = "serve.lock"
_WAIT_S = 10.0  # a command beside us holds the home for moments only
_PAUSE_S = 0.05


def make_private(directory: Path) -> None:
    """Make the directory, open to its owner alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)


def require_vacant(settings: Settings) -> None:
    """Raise StartRefused if any of the three places is in use, before anything is made. CUSTODY.md §2."""
    for directory in (settings.data, settings.custody_store, settings.keys):
        if directory.is_dir() and any(directory.iterdir()):
            raise StartRefused(
                "an installation, or part of one, is already there; init creates, it never replaces"
            )


@contextmanager
def held(settings: Settings, *, alone: bool) -> Generator[bool]:
    """Hold the home and say whether nobody else has it; raise StartRefused if `alone` cannot be had.

    SQLite has one server process. Commands work beside it and leave recovery to it.
    """
    if not settings.database.startswith("sqlite") or not settings.data.is_dir():
        yield True
        return
    try:
        private = os.open(settings.data / _LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as failure:
        raise StartRefused("the home can not be written; see its owner, mode and disk") from failure
    with os.fdopen(private, "a") as lock:
        free = _take(lock.fileno(), patience=_WAIT_S if alone else 0)
        if alone and not free:
            raise StartRefused("another shomei serve already runs on this home")
        yield free


def _take(descriptor: int, *, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True
