"""`shomei restore [FILE]`: put a backup back, erase again what was erased since, and say what was done."""

import argparse
from pathlib import Path
from typing import Any

from ..settings import read_settings
from .progress import bar


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree."""
    restore = commands.add_parser("restore", help="put a backup in the database's place, and catch up")
    restore.add_argument(
        "file", type=Path, nargs="?", help="what shomei backup made; none when Postgres was put back already"
    )
    restore.set_defaults(run=run_restore)


def run_restore(parsed: argparse.Namespace) -> dict[str, Any]:
    """Restore, and show what each tenant has now."""
    from ..backups import restore

    with bar("restore") as progress:
        restored = restore(read_settings(), parsed.file, progress)
    done = restored.done
    return {
        "restored": str(parsed.file) if parsed.file else "the database as it was found",
        "erased_again": done.erased_again,
        "journal_lines_replayed": done.lines_replayed,
        "receipt_logs_restarted": len(done.logs_restarted),
        "tenants": [
            {
                "tenant": tenant_id,
                "memories": restored.memories.get(tenant_id, 0),
                "log": "restarted" if tenant_id in done.logs_restarted else "goes on",
                "origin": origin,
            }
            for tenant_id, origin in restored.origins.items()
        ],
    }
