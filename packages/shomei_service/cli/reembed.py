"""`shomei reembed`: give every memory vectors of the model that SHOMEI_EMBEDDER names now. RECALL.md §2."""

import argparse
import os
from typing import Any, Final

_ROWS_AT_ONCE: Final = 16


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree."""
    commands.add_parser(
        "reembed", help="give every memory vectors of the model in SHOMEI_EMBEDDER"
    ).set_defaults(run=run_reembed)


def run_reembed(_: argparse.Namespace) -> dict[str, Any]:
    """Begin again under the model, or go on where a run was interrupted; the server must not be running.

    Until a memory's turn comes it is found by its words. Raises StartRefused when there is no embedder, or
    when it stops answering: what is done is kept.
    """
    # Before numpy is imported: more threads for small products cost half as much again.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from rich.console import Console
    from rich.progress import Progress

    from ..bootstrap import opened
    from ..engine import reembedding
    from ..engine.errors import StartRefused
    from ..settings import read_settings

    with opened(read_settings(), alone=True, may_reembed=True) as engine:
        left = waiting = reembedding.begin(engine)
        with Progress(console=Console(stderr=True)) as progress:
            bar = progress.add_task("embedding", total=waiting)
            for left in reembedding.carry_on(engine, _ROWS_AT_ONCE):
                progress.update(bar, completed=waiting - left)
        if left:
            raise StartRefused(
                "the embedder stopped answering; run shomei reembed again, what is done is kept"
            )
        return {"embedder": engine.embedder_id, "embedded": waiting}
