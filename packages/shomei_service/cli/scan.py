"""`shomei scan`: look for what should not be on a disk, and never say what it was."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine.errors import Fault, Invalid
from ..settings import Settings, read_settings

if TYPE_CHECKING:
    from ..proof.residue import Scanned
    from ..proof.spellings import Needle


class ResidueFound(Fault):
    """Something that was looked for is there, or a file could not be read."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree."""
    scan = commands.add_parser(
        "scan",
        help="look for words, or for erased rows, in every byte of files",
        description="Reads every byte of every file: free pages, logs and heaps too. Words are given in a "
        "file or on stdin, one a line, and are never printed: a sighting names the line's number. Words of "
        "its own are planted first, and have to be seen. Exit code 0: nothing was found; 1: something was, "
        "or not all was read.",
    )
    scan.add_argument("places", type=Path, nargs="*", metavar="DIR", help="default: what the settings name")
    what = scan.add_mutually_exclusive_group(required=True)
    what.add_argument("--needle", metavar="FILE", help="a word a line; - for stdin")
    what.add_argument(
        "--erased-since", type=Path, metavar="BACKUP", help="the sealed bytes of rows erased since a backup"
    )
    scan.set_defaults(run=run_scan)


def run_scan(parsed: argparse.Namespace) -> dict[str, Any]:
    """Scan; raise ResidueFound, Blind if the planted word was not seen, or Invalid without a needle."""
    from ..proof.residue import require_sight, scan

    settings = read_settings()
    places: list[Path] = parsed.places or [settings.data, settings.custody_store, settings.keys]
    needles = _words(parsed.needle) if parsed.needle else _erased(settings, parsed.erased_since)
    controls = require_sight()
    done = scan(places, needles)
    if not done.files:
        raise Invalid("there is no file at any of these places")
    answer = _told(done, len(needles), controls)
    if done.seen or done.unread:
        if parsed.json:
            import json

            print(json.dumps(answer))
        else:
            for name, value in answer.items():
                _print(name, value)
        raise ResidueFound("what was looked for is there, or not everything could be read")
    return answer


def _told(done: "Scanned", needles: int, controls: int) -> dict[str, Any]:
    seen = [
        {"needle": one.needle, "spelling": one.spelling, "offset": one.offset, "file": str(one.file)}
        for one in done.seen
    ]
    return {
        "files": done.files,
        "bytes": done.octets,
        "needles": needles,
        "controls_seen": controls,
        "found": len(seen),
        "sightings": seen,
        "not_read": [{"file": str(one)} for one in done.unread],
    }


def _print(name: str, value: object) -> None:
    if not isinstance(value, list):
        print(f"{name}: {value}")
        return
    for row in value:  # pyright: ignore[reportUnknownVariableType]
        print("  " + "  ".join(f"{key} {one}" for key, one in row.items()))  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _words(source: str) -> list["Needle"]:
    from ..proof.spellings import Needle

    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise Invalid("the needles are not in a readable file of UTF-8 text") from None
    words = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    needles = [Needle.word(number, word) for number, word in words if word]
    if not needles:
        raise Invalid("there is no needle in the file")
    return needles


def _erased(settings: Settings, backup: Path) -> list["Needle"]:
    from ..proof.purge import erased_since

    return erased_since(settings.database, f"sqlite:///{backup.absolute()}")
