"""Named places where a test may make the process die, fail or wait. RELIABILITY §2.

Nothing here reads the environment: whoever starts the service arms what it wants, and unarmed a
failpoint costs one comparison.
"""

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

DELAY_S: Final = 0.05

CUSTODY_POINTS: Final = frozenset(
    {
        "e2.pending",
        "e2.created",
        "e3.before_fsync",
        "e3.after",
        "p.readback",
        "e4.before",
        "e4.after",
        "e5.after",
    }
)
POINTS: Final = CUSTODY_POINTS | {
    "add.before_commit",
    "add.after_commit",
    "e1.before",
    "e1.after",
    "e6.before",
    "e6.mid_batch",
    "e6.after_sign",
    "e6.after_commit",
    "answer.before",
    "journal.after",
    "export.before_commit",
    "export.after_commit",
    "hold.release_commit",
    "obl.firing",
    "rot.mid",
    "boot.reerase",
    "boot.journal",
}


class InjectedError(RuntimeError):
    """The failure that an armed `raise` makes; no code of ours catches it by name."""


class Action(StrEnum):
    """What an armed failpoint does."""

    KILL = "kill"
    RAISE = "raise"
    DELAY = "delay"
    EIO = "eio"
    ENOSPC = "enospc"


@dataclass(slots=True)
class _Trap:
    action: Action
    nth: int
    passed: int = 0


@dataclass(slots=True)
class _Armed:
    traps: dict[str, _Trap]
    hook: Callable[[str], None] | None = None
    hits: dict[str, int] = field(default_factory=dict[str, int])
    lock: threading.Lock = field(default_factory=threading.Lock)


_armed: _Armed | None = None


def arm(spec: str, hook: Callable[[str], None] | None = None) -> None:
    """Arm `name:action[:nth]`, several with commas; an empty spec only counts. Raise ValueError on others.

    The hook is called at every failpoint with its name: a simulation decides there what happens next.
    """
    global _armed  # noqa: PLW0603 - one process, one set of failpoints
    traps: dict[str, _Trap] = {}
    for part in filter(None, spec.split(",")):
        name, _, rest = part.partition(":")
        action, _, nth = rest.partition(":")
        if name not in POINTS:
            raise ValueError("no failpoint has that name")
        traps[name] = _Trap(Action(action), int(nth or "1"))
    _armed = _Armed(traps, hook)


def disarm() -> None:
    """Make every failpoint inert again."""
    global _armed  # noqa: PLW0603
    _armed = None


def hits() -> dict[str, int]:
    """Return how often each failpoint was passed since `arm`."""
    return {} if _armed is None else dict(_armed.hits)


def failpoint(name: str) -> None:
    """Do what was armed for this name, once, at its nth passing; normally nothing."""
    armed = _armed
    if armed is None:
        return
    with armed.lock:
        armed.hits[name] = armed.hits.get(name, 0) + 1
        trap = armed.traps.get(name)
        if trap is not None:
            trap.passed += 1
            trap = trap if trap.passed == trap.nth else None
    if armed.hook is not None:
        armed.hook(name)
    if trap is not None:
        _spring(trap.action)


def _spring(action: Action) -> None:
    match action:
        case Action.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Action.RAISE:
            raise InjectedError("a failpoint was armed to fail here")
        case Action.DELAY:
            time.sleep(DELAY_S)
        case Action.EIO:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        case Action.ENOSPC:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
