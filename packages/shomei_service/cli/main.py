"""`shomei`: one argparse tree; each command imports what it needs when it runs. CONTRACT.md §5.

Exit codes: 0 done, 1 refused, 2 usage.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import cast

Command = Callable[[argparse.Namespace], dict[str, object]]


def _parser() -> argparse.ArgumentParser:
    from . import backup, demo, keys, restore, serve, subjects, tenants

    parser = argparse.ArgumentParser(
        prog="shomei", description="Governed memory: provable erasure for agents."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (tenants, keys, subjects, backup, restore, serve, demo):
        module.register(commands)
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
    parsed = _parser().parse_args(arguments)
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
