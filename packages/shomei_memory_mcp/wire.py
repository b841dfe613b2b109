"""The process's own edges: descriptors, signals, the host's death. Standard library only: it comes first.

Nothing is undone at the end: the relay keeps no state, so leaving means at once, calls in flight included.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
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
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.fstat(2)
    except OSError:
        os.dup2(null, 2)
    os.dup2(null, 0)
    os.dup2(2, 1)
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


def read_lines(wire: Wire, deliver: Callable[[bytes | None], None]) -> None:
    """Deliver each line up to end of input, split on 0x0A only; None stands for one past the cap."""
    line = bytearray()
    too_long = False
    while chunk := _read(wire.source):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line += part
            deliver(None if too_long or len(line) > MAX_LINE_BYTES else bytes(line))
            line.clear()
            too_long = False
        line += rest
        if len(line) > MAX_LINE_BYTES:
            line.clear()
            too_long = True
    if line and not too_long:
        deliver(bytes(line))


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


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK_BYTES)
    except OSError:
        return b""


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
