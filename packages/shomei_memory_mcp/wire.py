"""The process's own edges: descriptors, signals, the host's death. Standard library only: it comes first.

Nothing is undone at the end: the relay keeps no state, so leaving means at once, calls in flight included.
"""

import os
import select
import signal
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

MAX_LINE_BYTES = 4 * 1024 * 1024  # a 64 KiB text or receipt, every character escaped, fits six times over
WATCH_INTERVAL_S = 0.25

_CHUNK_BYTES = 65_536
_FIRST_FREE_FD = 3


@dataclass(frozen=True, slots=True)
class Wire:
    """The two descriptors that carry the protocol, and the process at the other end."""

    source: int
    sink: int
    parent: int


def claim() -> Wire:
    """Move the protocol's descriptors out of reach: a stray print lands on stderr, a stray read sees EOF.

    Raises OSError when stdin or stdout is not open.
    """
    wire = Wire(_above_standard(0), _above_standard(1), os.getppid())
    # With stderr closed the null device takes its place, and stays there.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    if null >= _FIRST_FREE_FD:
        os.close(null)
    sys.stdout = sys.stderr
    return wire


def leave(code: int = 0) -> NoReturn:
    """End the process now, without waiting for threads or calls in flight."""
    os._exit(code)


def leave_on_signals() -> None:
    """Make the signals with which hosts and terminals end a server end it with code 0."""
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _leave_now)


def leave_with_host(wire: Wire) -> None:
    """Watch, in a thread of its own, for a dead parent and for a stdout that nobody reads any more."""
    threading.Thread(target=_watch, args=(wire,), name="watch", daemon=True).start()


def leave_after(seconds: float) -> None:
    """Make sure that the process is gone by then, whatever hangs."""
    last = threading.Timer(seconds, leave)
    last.daemon = True
    last.start()


class Lines:
    """Cuts chunks into lines, at 0x0A only; None stands for a line past the cap."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._too_long = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """Return the lines that this chunk completes."""
        *ended, rest = chunk.split(b"\n")
        lines = [self._end(part) for part in ended]
        self._line += rest
        if len(self._line) > MAX_LINE_BYTES:
            self._line.clear()
            self._too_long = True
        return lines

    def last(self) -> list[bytes | None]:
        """Return the line that end of input completes, if there is one."""
        return [self._end(b"")] if self._line or self._too_long else []

    def _end(self, part: bytes) -> bytes | None:
        line = bytes(self._line + part)
        too_long = self._too_long or len(line) > MAX_LINE_BYTES
        self._line.clear()
        self._too_long = False
        return None if too_long else line


def read(wire: Wire) -> bytes:
    """Return what has arrived, or nothing at end of input; a descriptor that fails has ended."""
    try:
        return os.read(wire.source, _CHUNK_BYTES)
    except OSError:
        return b""


def takes_at_once(wire: Wire, size: int) -> bool:
    """Tell whether a write of this size cannot block: POSIX lets a ready pipe take PIPE_BUF bytes."""
    if not hasattr(select, "poll") or size > select.PIPE_BUF:
        return False
    poller = select.poll()
    poller.register(wire.sink, select.POLLOUT)
    return poller.poll(0) == [(wire.sink, select.POLLOUT)]


def write(wire: Wire, data: bytes) -> None:
    """Write all of it; leave when nobody reads any more."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(wire.sink, left) :]
    except OSError:
        leave()


def _leave_now(_: int, __: FrameType | None) -> None:
    leave()


def _above_standard(fd: int) -> int:
    # Should stderr be closed, a plain dup would put the protocol where stray prints go.
    copies = [os.dup(fd)]
    while copies[-1] < _FIRST_FREE_FD:
        copies.append(os.dup(fd))
    for low in copies[:-1]:
        os.close(low)
    return copies[-1]


def _watch(wire: Wire) -> NoReturn:
    while os.getppid() == wire.parent and not _is_broken(wire.sink):
        pass
    leave()


def _is_broken(sink: int) -> bool:
    if not hasattr(select, "poll"):
        time.sleep(WATCH_INTERVAL_S)
        return False
    poller = select.poll()
    # Asking for nothing still reports errors and hang-ups.
    poller.register(sink, 0)
    return bool(poller.poll(int(WATCH_INTERVAL_S * 1000)))
