"""`shomei-memory-mcp`: serve the ten tools on stdin and stdout. Also `python -m shomei_memory_mcp.server`.

Only the standard library is imported at the top: descriptors and signals are settled before others can print.
"""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from shomei_memory_mcp import settings, wire
from shomei_memory_mcp.refusals import SettingsRefused

USAGE: Final = """\
usage: shomei-memory-mcp [--require-key]
       shomei-memory-mcp connect HOST [--print]
       shomei-memory-mcp doctor [--json]
       shomei-memory-mcp --version | --help

Serves ten governed memory tools to an MCP host over stdin and stdout.
Settings: SHOMEI_MCP_API_KEY, SHOMEI_MCP_BASE_URL (default http://127.0.0.1:8088), SHOMEI_MCP_CA_FILE,
SHOMEI_MCP_PROXY, SHOMEI_MCP_TIMEOUT_S (default 30), SHOMEI_MCP_READ_ONLY.
"""
DISTRIBUTION: Final = "shomei-governed-memory"
PROGRAM: Final = "shomei-memory-mcp"
EXTRA_LINE: Final = "the relay needs the [mcp] extra: pip install 'shomei-governed-memory[mcp]'"
FAILED, MISUSED = 1, 2


def main() -> None:
    """Run the command the arguments name; without any, serve until the host leaves."""
    arguments = sys.argv[1:]
    if arguments in ([], ["--require-key"]):
        run_relay(require_key=bool(arguments))
    sys.exit(_other_command(arguments))


def run_relay(*, require_key: bool) -> NoReturn:
    """Serve, then end the process; a start that cannot succeed ends it with one line on stderr."""
    # Nothing made while importing is garbage; looking for it costs a tenth of the start.
    gc.disable()
    try:
        edges = wire.claim()
    except OSError:
        _stop("stdin and stdout must be open: this program is started by an MCP host", MISUSED)
    wire.leave_on_signals()
    wire.leave_with_host(edges)
    try:
        given = settings.read(os.environ)
    except SettingsRefused as refused:
        _stop(str(refused), MISUSED)
    if given.api_key is None and require_key:
        _stop("SHOMEI_MCP_API_KEY is not set, and --require-key was given", MISUSED)
    try:
        from shomei_memory_mcp import serving
    except ImportError:
        _stop(EXTRA_LINE, FAILED)
    if given.api_key is None:
        _say("SHOMEI_MCP_API_KEY is not set: only verify_receipt can work")
    if os.isatty(edges.source):
        _say("waiting for an MCP host on stdin; see --help")
    gc.freeze()
    gc.enable()
    try:
        serving.run(given, edges)
    except Exception:  # noqa: BLE001 - a traceback may carry what was being relayed
        _stop("the relay failed", FAILED)
    wire.leave()


def _other_command(arguments: Sequence[str]) -> int:
    try:
        if arguments[:1] == ["connect"]:
            from shomei_memory_mcp import connect

            return connect.main(arguments[1:])
        if arguments[:1] == ["doctor"]:
            from shomei_memory_mcp import doctor

            return doctor.main(arguments[1:])
    except ImportError:
        _say(EXTRA_LINE)
        return FAILED
    if arguments in (["--help"], ["-h"]):
        sys.stdout.write(USAGE)
        return 0
    if arguments == ["--version"]:
        from importlib.metadata import version

        sys.stdout.write(f"{PROGRAM} {version(DISTRIBUTION)}\n")
        return 0
    sys.stderr.write(USAGE)
    return MISUSED


def _say(line: str) -> None:
    # A host may start programs with stderr closed; there is then nobody to tell.
    if sys.stderr is not None:
        sys.stderr.write(f"{PROGRAM}: {line}\n")
        sys.stderr.flush()


def _stop(line: str, code: int) -> NoReturn:
    _say(line)
    wire.leave(code)


if __name__ == "__main__":
    main()
