"""`shomei import`: take memories in from a file, and say of each line what became of it."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from .opened import chosen_tenant, opened, operator

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..engine.verbs.importing import Line, Outcome
    from .import_files import Skipped

_AT_ONCE: Final = 200
_SHOWN: Final = 20
_FORMATS: Final = ("jsonl", "mem0", "mcp_server_memory")
_SKIPPED: Final = "skipped"


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree."""
    command = commands.add_parser(
        "import", help="take in JSON Lines, an export package, a mem0 export or an MCP server-memory file"
    )
    command.add_argument("file", type=Path)
    command.add_argument(
        "--format", choices=_FORMATS, help="what the file is; told by its beginning if left out"
    )
    command.add_argument("--user-id", help="the subject of lines that name none")
    command.add_argument("--tenant", help="tenant id or label; needed when there is more than one")
    command.add_argument("--dry-run", action="store_true", help="take nothing in, say what would be")
    command.add_argument(
        "--report", type=Path, metavar="FILE", help="write what became of each line, as JSON Lines"
    )
    command.set_defaults(run=run_import)


def run_import(parsed: argparse.Namespace) -> dict[str, Any]:
    """Take a file in; lines that are known, erased or refused are skipped and said to be."""
    from ..engine.errors import Invalid
    from ..engine.verbs import importing
    from . import import_files

    if not parsed.file.is_file():
        raise Invalid("there is no such file")
    form = import_files.Format(parsed.format) if parsed.format else None
    source = import_files.opened(parsed.file, form, parsed.user_id)
    tally = _Tally()
    with ExitStack() as closing:
        report = closing.enter_context(_private(parsed.report)) if parsed.report else None
        engine = closing.enter_context(opened())
        caller = operator(chosen_tenant(engine, parsed.tenant))
        take = importing.look if parsed.dry_run else importing.take_in
        progress = closing.enter_context(_progress())
        bar = progress.add_task("importing", total=source.total)
        for lines, skipped in _chunks(source.lines):
            for one in skipped:
                tally.note({"line": one.number, "outcome": _SKIPPED, "reason": one.reason}, report)
            for outcome in take(engine, caller, source.format.value, lines):
                tally.note(_told(outcome), report)
            last = [one.number for one in (*lines, *skipped)]
            progress.update(bar, completed=max(last))
    return {"format": source.format.value, **tally.counts(), "not_taken": tally.shown()}


def _progress() -> "Progress":
    """Return a bar on standard error where that is a terminal; nothing otherwise."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), disable=not sys.stderr.isatty())


def _chunks(items: "Iterator[Line | Skipped]") -> "Iterator[tuple[list[Line], list[Skipped]]]":
    from ..engine.verbs.importing import Line

    while taken := list(islice(items, _AT_ONCE)):
        lines = [one for one in taken if isinstance(one, Line)]
        yield lines, [one for one in taken if not isinstance(one, Line)]


def _told(outcome: "Outcome") -> dict[str, Any]:
    told: dict[str, Any] = {"line": outcome.number, "outcome": outcome.fate.value}
    if outcome.memory_id is not None:
        told["memory_id"] = outcome.memory_id
    return told | ({"reason": outcome.reason} if outcome.reason else {})


def _private(path: Path) -> IO[str]:
    path.touch(mode=0o600)
    return path.open("w", encoding="utf-8")


class _Tally:
    """Counts what became of lines, and keeps the first that were not taken."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._shown: list[dict[str, Any]] = []

    def note(self, told: dict[str, Any], report: IO[str] | None) -> None:
        """Count one line."""
        self._counts[told["outcome"]] += 1
        if told["outcome"] != "taken" and len(self._shown) < _SHOWN:
            self._shown.append(told)
        if report is not None:
            report.write(json.dumps(told) + "\n")

    def counts(self) -> dict[str, int]:
        """Return how many lines came to what."""
        return {name: self._counts[name] for name in ("taken", "already_here", "erased", "refused", _SKIPPED)}

    def shown(self) -> list[dict[str, Any]]:
        """Return the first lines that were not taken."""
        return self._shown
