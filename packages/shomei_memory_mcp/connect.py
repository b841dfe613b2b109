"""`shomei-memory-mcp connect HOST`: put the relay into a host's configuration, or print what belongs there.

The key goes from the environment, or from a prompt, into a file only its owner can read, never to a screen.
"""

import argparse
import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from shomei_memory_mcp import configs, settings
from shomei_memory_mcp.hosts import HOSTS, KEY_VARIABLE, Host, Place
from shomei_memory_mcp.inputs import JsonObject
from shomei_memory_mcp.refusals import SettingsRefused

_VARIABLES = (
    "SHOMEI_MCP_BASE_URL",
    "SHOMEI_MCP_CA_FILE",
    "SHOMEI_MCP_PROXY",
    "SHOMEI_MCP_TIMEOUT_S",
    "SHOMEI_MCP_READ_ONLY",
)
DONE, FAILED, MISUSED = 0, 1, 2


def main(
    arguments: Sequence[str], *, place: Place | None = None, program: str = "shomei-memory-mcp connect"
) -> int:
    """Carry out the command and return its exit code: 0 written or printed, 1 not possible, 2 misused."""
    here = place or Place(environ=os.environ)
    parser = argparse.ArgumentParser(
        prog=program, description="Put the relay into an MCP host's configuration."
    )
    parser.add_argument("host", choices=HOSTS, help="the host to connect")
    parser.add_argument("--print", action="store_true", dest="shown", help="print the entry, write nothing")
    given = parser.parse_args(arguments)
    host: Host = HOSTS[given.host]
    try:
        key = None if given.shown else _key(host, here.environ)
        settings.read({**here.environ, KEY_VARIABLE: key or ""})
    except SettingsRefused as refused:
        return _fail(f"{refused}; nothing was changed", MISUSED)
    environment = _environment(here.environ)
    if given.shown:
        sys.stdout.write(_snippet(host, environment))
        return DONE
    return _write(host, host.file(here), environment, key)


def _write(host: Host, path: Path, environment: Mapping[str, str], key: str | None) -> int:
    given = {**environment, KEY_VARIABLE: key} if key else environment
    try:
        former = path.read_text("utf-8") if path.exists() else ""
        merged = _merged(host, former, host.entry(sys.executable, given))
        if merged == former:
            sys.stdout.write(f"{host.title} is connected already: {path}\n")
            return DONE
        backup = configs.replace(path, merged)
    except configs.NotMergeable as refused:
        sys.stdout.write(_snippet(host, environment))
        return _fail(f"{path} was left as it is: {refused}. Add the entry above by hand.", FAILED)
    except (OSError, UnicodeDecodeError):
        return _fail(f"{path} cannot be read or written; nothing was changed", FAILED)
    kept = f" (the former file: {backup})" if backup else ""
    sys.stdout.write(f"Wrote {path}{kept}. Restart {host.title}.\n")
    if KEY_VARIABLE not in merged:
        sys.stdout.write(
            f"No key was given: run this again with {KEY_VARIABLE} set, or add it to the entry's env.\n"
        )
    return DONE


def _merged(host: Host, text: str, entry: JsonObject) -> str:
    if host.section == "mcp_servers":
        return configs.merge_toml(text, host.section, entry)
    return configs.merge_json(text, host.section, entry, host.prompt())


def _snippet(host: Host, environment: Mapping[str, str]) -> str:
    # A proxy URL may carry a password.
    shown = {name: value for name, value in environment.items() if "@" not in value}
    return _merged(host, "", host.entry(sys.executable, shown))


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    given = {name: environ[name] for name in _VARIABLES if environ.get(name)}
    if "SHOMEI_MCP_CA_FILE" in given:
        # The host starts the relay somewhere else.
        given["SHOMEI_MCP_CA_FILE"] = str(Path(given["SHOMEI_MCP_CA_FILE"]).absolute())
    return given


def _key(host: Host, environ: Mapping[str, str]) -> str | None:
    key = environ.get(KEY_VARIABLE, "")
    if not key and not host.prompts and sys.stdin.isatty():
        key = getpass.getpass(f"{KEY_VARIABLE} (empty to leave it out): ")
    return key.strip() or None


def _fail(line: str, code: int) -> int:
    sys.stderr.write(f"shomei-memory-mcp: {line}\n")
    return code
