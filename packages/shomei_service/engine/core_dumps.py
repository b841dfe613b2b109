"""No image of this process's memory on any disk: it would hold keys and plaintext. RELIABILITY T-12, DEV-16.

A limit of zero keeps the kernel from writing a core file; where core dumps are piped to a program, as systemd
does, the kernel asks no limit, and only a process that is not dumpable is left alone.
"""

import ctypes
import resource
import sys
from typing import Final

from .errors import StartRefused

_SET_DUMPABLE: Final = 4  # prctl(2)
_GET_DUMPABLE: Final = 3
_OFF: Final = (0, 0)


def switch_off() -> None:
    """Switch core dumps off for this process, and read back that they are; raise StartRefused."""
    resource.setrlimit(resource.RLIMIT_CORE, _OFF)
    held = resource.getrlimit(resource.RLIMIT_CORE) == _OFF
    if sys.platform == "linux":
        kernel = ctypes.CDLL(None)
        kernel.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        held = held and kernel.prctl(_GET_DUMPABLE, 0, 0, 0, 0) == 0
    if not held:
        raise StartRefused("core dumps can not be switched off here; one would hold keys and plaintext")
