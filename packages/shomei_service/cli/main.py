"""`shomei`: one argparse tree; each command imports what it needs when it runs. CONTRACT.md §5.

Exit codes: 0 done, 1 refused, 2 usage.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, cast

Command = Callable[[argparse.Namespace], dict[str, object]]


# Each command's module, and what help says of it: so help loads none of them, nor the engine.
COMMANDS: Final = {
    "init": ("tenants", "make an installation: database, custody, signer, tenant, two keys"),
    "serve": ("serve", "run the service in the foreground"),
    "config": ("serve", "print the effective settings, without secrets"),
    "migrate": ("serve", "bring the database to this version's schema"),
    "reembed": ("reembed", "give every memory vectors of the model in SHOMEI_EMBEDDER"),
    "tenants": ("tenants", "create and list tenants"),
    "keys": ("keys", "create, list and revoke API keys"),
    "signer": ("signer", "show and rotate who signs receipts"),
    "custody": ("custody", "show, rotate and move what holds the keys"),
    "commitment-key": ("commitment_key", "show and rotate the key that a tenant's commitments are made with"),
    "forget": ("subjects", "erase everything about a subject; shows the plan first"),
    "audit": ("subjects", "check the records against each other"),
    "export": ("exports", "write everything about a person into a ZIP package"),
    "import": (
        "imports",
        "take in JSON Lines, an export package, a mem0 export or an MCP server-memory file",
    ),
    "backup": ("backup", "copy the database, while it is in use; never custody"),
    "restore": ("restore", "put a backup in the database's place, and catch up"),
    "prove-erasure": ("prove_erasure", "show that a restored backup does not bring back what was erased"),
    "scan": ("scan", "look for words, or for erased rows, in every byte of files"),
    "connect": ("connect", "put the relay into an MCP host's configuration"),
    "demo": ("demo", "run the main job against a running service, through the relay"),
}


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shomei", description="Governed memory: provable erasure for agents."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = next((one for one in arguments if not one.startswith("-")), "")
    if named in COMMANDS:
        import_module(f"shomei_service.cli.{COMMANDS[named][0]}").register(commands)
    else:
        for name, (_, purpose) in COMMANDS.items():
            commands.add_parser(name, help=purpose)
    return parser


def _print(answer: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
        return
    for name, value in answer.items():
        if isinstance(value, list):
            for row in cast("list[dict[str, object]]", value):
                print("  ".join(map(str, row.values())))
        else:
            print(f"{name}: {value}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parsed = _parser(arguments).parse_args(arguments)
    from shomei_service.engine.errors import EngineError

    try:
        answer = parsed.run(parsed)
    except EngineError as exc:
        print(f"shomei: {exc.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    _print(answer, as_json=parsed.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
