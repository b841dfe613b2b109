"""`shomei connect`: the relay's own command, for those who have the service's at hand."""

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree; its options are the relay's."""
    # Nothing begins with this prefix, so that nothing is an option here: all of it goes on, --help too.
    connect = commands.add_parser(
        "connect", help="put the relay into an MCP host's configuration", add_help=False, prefix_chars="\0"
    )
    connect.add_argument("options", nargs="*")
    connect.set_defaults(run=run_connect)


def run_connect(parsed: argparse.Namespace) -> NoReturn:
    """End as the relay's command ends; without the [mcp] extra no host could start the relay, so say that."""
    options: Sequence[str] = parsed.options
    if find_spec("mcp") is None:
        sys.stderr.write("shomei: connect needs the [mcp] extra: pip install 'shomei-governed-memory[mcp]'\n")
        sys.exit(1)
    from shomei_memory_mcp import connect

    sys.exit(connect.main(options, program="shomei connect"))
