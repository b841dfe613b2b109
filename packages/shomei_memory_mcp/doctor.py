"""`shomei-memory-mcp doctor`: one line per thing that has to be right before an MCP host can use the relay.

It changes nothing: it reads settings, asks the service three harmless questions and lists the tools once.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import anyio

from shomei_memory_mcp import network, settings
from shomei_memory_mcp.hosts import ARGUMENTS
from shomei_memory_mcp.inputs import JsonObject
from shomei_memory_mcp.refusals import SettingsRefused
from shomei_memory_mcp.settings import Settings

if TYPE_CHECKING:
    import httpx

SELF_TEST_TIMEOUT_S: Final = 30.0
TOOL_COUNT: Final = 10

_HELLO: JsonObject = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "shomei-doctor", "version": "1"},
}
_MESSAGES: tuple[JsonObject, ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found."""

    name: str
    good: bool
    text: str


def main(arguments: Sequence[str], *, environ: Mapping[str, str] | None = None) -> int:
    """Look at everything, print what was found and return 0 when all is well, 1 when not."""
    parser = argparse.ArgumentParser(prog="shomei-memory-mcp doctor", description="Check the relay's set-up.")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the findings as JSON")
    given = parser.parse_args(arguments)
    found = examine(os.environ if environ is None else environ)
    if given.as_json:
        shown = {each.name: {"ok": each.good, "text": each.text} for each in found}
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    else:
        for each in found:
            sys.stdout.write(f"{'ok  ' if each.good else 'FAIL'}  {each.name:<11} {each.text}\n")
    return 0 if all(each.good for each in found) else 1


def examine(environ: Mapping[str, str]) -> list[Finding]:
    """Return the findings, in the order in which one would repair them."""
    found = [_versions()]
    try:
        given = settings.read(environ)
    except SettingsRefused as refused:
        return [*found, Finding("settings", False, str(refused))]
    key = given.api_key
    found.append(Finding("key", key is not None, "set" if key else "SHOMEI_MCP_API_KEY is not set"))
    found.append(Finding("url", True, given.base_url))
    found += anyio.run(_service, given)
    return [*found, _self_test(environ)]


def _versions() -> Finding:
    names = ("shomei-governed-memory", "mcp", "httpx")
    return Finding(
        "versions",
        True,
        ", ".join([f"{name} {importlib.metadata.version(name)}" for name in names])
        + f", Python {platform.python_version()}",
    )


async def _service(given: Settings) -> list[Finding]:
    # Without a key only the public question is asked; the header then carries a word that is no key.
    client = network.open_client(given, given.api_key or "none")
    try:
        health = await _status(client, given, "/healthz")
        found = [_tls(given, health), _health(health)]
        if given.api_key is not None and health == "200":
            signer = await _status(client, given, "/v1/signer")
            holds = await _status(client, given, "/v1/holds")
            found.append(_scope(signer, holds))
        return found
    finally:
        await client.aclose()


async def _status(client: "httpx.AsyncClient", given: Settings, path: str) -> str:
    import httpx

    try:
        with anyio.fail_after(given.timeout_s):
            response = await network.send(client, client.build_request("GET", given.base_url + path))
            await response.aclose()
            return str(response.status_code)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        return network.connect_reason(error)
    except (httpx.HTTPError, TimeoutError):
        return "no answer"


def _tls(given: Settings, health: str) -> Finding:
    if given.base_url.startswith("http:"):
        return Finding("tls", True, "not needed on loopback")
    trust = "SHOMEI_MCP_CA_FILE or SSL_CERT_FILE" if given.ca_file else "the usual authorities"
    return Finding("tls", health.isdigit(), f"checked against {trust}" if health.isdigit() else health)


def _health(health: str) -> Finding:
    if not health.isdigit():
        return Finding("health", False, health)
    return Finding("health", health == "200", "the service answers" if health == "200" else f"HTTP {health}")


def _scope(signer: str, holds: str) -> Finding:
    if signer in ("401", "403"):
        return Finding("scope", False, "the service does not accept SHOMEI_MCP_API_KEY")
    texts = {
        "200": "admin: all ten tools",
        # The service looks at the scope before it says that it has no such action.
        "501": "admin: all ten tools",
        "403": "data: update, delete, forget and restrict will be refused (403)",
    }
    return Finding("scope", holds in texts, texts.get(holds, f"unclear: HTTP {holds}"))


def _self_test(environ: Mapping[str, str]) -> Finding:
    lines = "".join(json.dumps(message) + "\n" for message in _MESSAGES)
    started = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module
            [sys.executable, *ARGUMENTS],
            input=lines.encode(),
            capture_output=True,
            env=dict(environ),
            timeout=SELF_TEST_TIMEOUT_S,
            check=False,
        )
        answer = cast(dict[str, dict[str, list[object]]], json.loads(done.stdout.splitlines()[-1]))
        count = len(answer["result"]["tools"])
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError):
        return Finding("tools/list", False, "the relay did not list its tools")
    spent = (time.monotonic() - started) * 1000
    return Finding("tools/list", count == TOOL_COUNT, f"{count} tools in {spent:.0f} ms")
