"""`shomei prove-erasure`: show a sceptic that a restored backup does not bring back what was erased."""

import argparse
import json
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..engine.errors import Fault, StartRefused
from ..settings import read_settings


class NotProven(Fault):
    """A promise did not hold, or a control did not fall; the lines before say which."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree."""
    prove = commands.add_parser(
        "prove-erasure",
        help="show that a restored backup does not bring back what was erased",
        description="Makes an installation of its own with the configured provider and kind of database, "
        "backs it up, erases, restores the backup, and attacks it with everything custody holds. Beside it "
        "the common design, which falls. Nothing of yours is opened. Exit code 0: proven; 1: not.",
    )
    window = prove.add_mutually_exclusive_group()
    window.add_argument(
        "--keep", type=Path, metavar="FILE", help="keep the attack, where the keys' deletion is scheduled"
    )
    window.add_argument(
        "--again", type=Path, metavar="FILE", help="make a kept attack again, when the keys are deleted"
    )
    prove.set_defaults(run=run_prove)


def run_prove(parsed: argparse.Namespace) -> dict[str, Any]:
    """Run the proof line by line; raise NotProven unless every promise held and every control fell."""
    from ..proof.course import Course, attack_again
    from ..proof.ground import throw_away

    settings, say = read_settings(), _silent if parsed.json else _say
    if parsed.keep is not None and parsed.keep.exists():
        raise StartRefused("the file to keep the attack in is there already")
    if parsed.again is not None:
        told = attack_again(settings, parsed.again, say)
    else:
        with _told_to_end(), throw_away(settings, parsed.keep) as ground:
            told = Course(ground, say, parsed.keep).run()
    if not told.holds:
        if parsed.json:
            print(json.dumps({"proven": False, "lines": told.lines}))
        raise NotProven("not proven")
    return {"proven": True} | ({"lines": told.lines} if parsed.json else {})


@contextmanager
def _told_to_end() -> Generator[None]:
    """Let SIGTERM end the command as Ctrl-C does: no key, database or folder of the proof stays behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(line: str) -> None:
    print(line, flush=True)


def _silent(_line: str) -> None:
    pass
