"""`shomei backup FILE`: one consistent copy of the database, taken while the service runs."""

import argparse
from pathlib import Path
from typing import Any

from ..settings import read_settings
from .progress import bar


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree."""
    backup = commands.add_parser("backup", help="copy the database, while it is in use; never custody")
    backup.add_argument("file", type=Path, help="where to; a file that is not there yet")
    backup.set_defaults(run=run_backup)


def run_backup(parsed: argparse.Namespace) -> dict[str, Any]:
    """Copy the database and say what the copy holds."""
    from ..backups import back_up

    with bar("backup") as progress:
        made = back_up(read_settings(), parsed.file, progress)
    return {
        "file": str(parsed.file),
        "bytes": made.size,
        "installation": made.installation_id,
        "custody_epoch": made.epoch,
        "note": "custody is not in it: keep the custody store's newest copy, and never an old one",
    }
