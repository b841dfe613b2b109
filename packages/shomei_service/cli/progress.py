"""How far long work has come, on one line of a terminal; nothing where nobody looks."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from ..engine.store.copies import Progress

_WIDTH = 30


@contextmanager
def bar(label: str) -> Generator[Progress]:
    """Yield what draws the bar; the line is ended with the block."""
    shown = sys.stderr.isatty()

    def draw(done: int, whole: int) -> None:
        if shown:
            filled = _WIDTH * done // max(whole, 1)
            line = "#" * filled + "." * (_WIDTH - filled)
            print(f"\r{label} [{line}] {100 * done // max(whole, 1):3d}%", end="", file=sys.stderr)

    try:
        yield draw
    finally:
        if shown:
            print(file=sys.stderr)
