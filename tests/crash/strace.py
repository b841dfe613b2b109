"""A process watched by strace, which kills it or fails a system call at the one it is told to."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

WRITING = ("fdatasync", "fsync", "pwrite64", "ftruncate", "unlink")
_CALL = re.compile(r"^\d+ +(\w+)\(", re.MULTILINE)


@cache
def is_allowed() -> bool:
    """Say whether strace is here and may attach."""
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True)
    return tried.returncode == 0


needs_strace = pytest.mark.skipif(not is_allowed(), reason="must: this machine lets nothing be traced")


def logging(log: Path, *calls: str) -> list[str]:
    """Return the arguments that write every one of these calls down."""
    return ["-o", str(log), "-e", "trace=" + ",".join(calls or WRITING)]


def killing(call: str, nth: int) -> list[str]:
    """Return the arguments that kill the process as it enters the nth of these calls."""
    return ["-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={nth}"]


def failing(call: str, error: str, when: str) -> list[str]:
    """Return the arguments that make calls fail: the nth, or with a + all from the nth on."""
    return ["-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}"]


def counted(log: Path) -> Counter[str]:
    """Return how often each call was made."""
    return Counter(_CALL.findall(log.read_text(errors="replace")))


def spread(last: int, at_most: int | None) -> Iterable[int]:
    """Return 1..last, or so many numbers spread over them, both ends included."""
    if at_most is None or last <= at_most:
        return range(1, last + 1)
    return sorted({1 + round(at * (last - 1) / (at_most - 1)) for at in range(at_most)})
