"""What hosts are told, in snippets, badges and the registry; and the last run with real ones."""

import ast
import base64
import json
import os
import re
import shlex
import sys
import tomllib
from copy import deepcopy
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from shomei_memory_mcp.hosts import ARGUMENTS, HOSTS, KEY_VARIABLE, SERVER_NAME
from tests.mcp.host import KEY, Host
from tests.mcp.hosts import catalogue, snippets
from tests.mcp.hosts.judge import TOOLS, faults_of_job

README = (catalogue.ROOT / "README.md").read_text()
RESULT: dict[str, Any] = json.loads(catalogue.RESULT.read_text())
SHOWN = snippets.snippets()
PLACEHOLDER = "/path/to/environment/bin/python"
FILES = ["claude-desktop", "vscode", "codex"]
NAMES = [host.name for host in catalogue.HOSTS]


def entry_of(name: str) -> dict[str, Any]:
    """Return the relay's entry in a configuration that docs/hosts.md shows."""
    language, text = SHOWN[name]
    whole = tomllib.loads(text) if language == "toml" else json.loads(text)
    return whole[HOSTS[name].section][SERVER_NAME]


@pytest.mark.parametrize("name", FILES)
def test_a_shown_configuration_is_the_one_that_connect_writes(name: str) -> None:
    shown = entry_of(name)
    given = {"SHOMEI_MCP_BASE_URL": "http://127.0.0.1:8088", KEY_VARIABLE: "shm_..."}
    assert shown == HOSTS[name].entry(PLACEHOLDER, given)
    if HOSTS[name].prompts:
        assert json.loads(SHOWN[name][1])["inputs"] == [HOSTS[name].prompt()]


@pytest.mark.parametrize("name", FILES)
def test_a_shown_configuration_starts_the_relay(name: str) -> None:
    shown = entry_of(name)
    settings = shown["env"] | {KEY_VARIABLE: KEY, "PATH": os.environ["PATH"]}
    with Host(settings, command=[sys.executable, *shown["args"]]) as host:
        host.initialize()
        listed = host.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in listed] == TOOLS


def test_the_readme_shows_the_same_entry_and_the_same_line() -> None:
    assert SHOWN["claude-desktop"][1] in README
    line = SHOWN["claude-code"][1].strip()
    assert line in README
    words = shlex.split(line)
    assert words[:4] == ["claude", "mcp", "add", SERVER_NAME]
    assert words[words.index("--") + 1 :] == ["shomei-memory-mcp"]


@pytest.mark.parametrize("host", ["mcp-2", "mcp-1", "fastmcp", "langchain", "pydantic-ai", "openai-agents"])
def test_a_shown_program_is_one(host: str) -> None:
    language, text = SHOWN[host]
    ast.parse(text)
    assert language == "python"
    assert "shomei-memory-mcp" in text
    assert "shm_" not in text


def test_every_host_that_does_the_job_has_a_snippet() -> None:
    does = {host.environment for host in catalogue.HOSTS if host.reach is catalogue.Reach.JOB}
    # The Inspector's is a line for the shell, which needs a newer Node than most machines have.
    assert does - SHOWN.keys() == {"inspector"}
    assert "inspector --cli shomei-memory-mcp" in snippets.DOCUMENT.read_text()


def badge(address: str) -> dict[str, list[str]]:
    """Return the parameters of a badge's link in the README."""
    found = re.search(rf"\]\((https://{re.escape(address)}\?[^)]+)\)", README)
    assert found is not None
    return parse_qs(urlsplit(found[1]).query, strict_parsing=True)


def test_the_badges_carry_an_entry_and_no_key() -> None:
    cursor = badge("cursor.com/en/install-mcp")
    vscode = badge("vscode.dev/redirect/mcp/install")
    assert cursor["name"] == vscode["name"] == [SERVER_NAME]
    assert json.loads(base64.b64decode(cursor["config"][0])) == {
        "command": "shomei-memory-mcp",
        "env": {KEY_VARIABLE: f"${{env:{KEY_VARIABLE}}}"},
    }
    expected = HOSTS["vscode"].entry("shomei-memory-mcp", {})
    assert json.loads(vscode["config"][0]) == {
        name: value for name, value in expected.items() if name != "args"
    }
    assert json.loads(vscode["inputs"][0]) == [HOSTS["vscode"].prompt()]


def test_the_registry_entry_keeps_the_registry_s_rules() -> None:
    entry = json.loads((catalogue.ROOT / "server.json").read_text())
    project = tomllib.loads((catalogue.ROOT / "pyproject.toml").read_text())["project"]
    (package,) = entry["packages"]
    assert re.fullmatch(r"[a-zA-Z0-9.-]{3,}/[a-zA-Z0-9._-]+", entry["name"])
    assert f"<!-- mcp-name: {entry['name']} -->" in README  # how the registry knows who owns the package
    assert 0 < len(entry["description"]) <= 100
    assert entry["version"] == package["version"] == project["version"]
    assert (package["registryType"], package["identifier"]) == ("pypi", project["name"])
    # uvx runs the command that is named like the distribution.
    assert project["scripts"][package["identifier"]] == project["scripts"]["shomei-memory-mcp"]
    assert package["runtimeArguments"][0]["value"] == f"{project['name']}[mcp]=={project['version']}"
    variables = {one["name"]: one for one in package["environmentVariables"]}
    assert variables.keys() <= set(re.findall(r"`(SHOMEI_MCP_\w+)`", snippets.DOCUMENT.read_text()))
    assert [name for name, one in variables.items() if one.get("isSecret")] == [KEY_VARIABLE]
    assert ARGUMENTS == ["-m", "shomei_memory_mcp.server"]


def test_the_last_real_run_is_on_record() -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", RESULT["commit"])
    assert list(RESULT["hosts"]) == NAMES
    for host in catalogue.HOSTS:
        entry = RESULT["hosts"][host.name]
        assert entry["reach"] == host.reach
        # One that cannot be installed where it ran says why.
        assert entry["passed"] is True or entry["reason"].startswith("installing: ")
    assert sum(entry["passed"] for entry in RESULT["hosts"].values()) >= 10


def test_locks_hold_hashes_and_no_addresses() -> None:
    for host in catalogue.HOSTS:
        if host.is_python:
            text = host.lock.read_text()
            pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
            assert all("==" in line for line in pins)
            assert text.count("--hash=sha256:") >= len(pins) > 0
        else:
            lock = json.loads((host.lock / "package-lock.json").read_text())
            installed = [one for name, one in lock["packages"].items() if name]
            assert all("integrity" in one and "resolved" not in one for one in installed)


SEEN: dict[str, Any] = {
    "tools": TOOLS,
    "added": {
        "results": [
            {"id": "a", "memory": "the w lamp", "event": "ADD", "signed_receipt": {"schema": "s"}},
        ]
    },
    "found": {"results": [{"id": "a", "memory": "the w lamp", "user_id": "alice", "score": 0.9}]},
    "verdict": {
        "valid": True,
        "authenticated": True,
        "reason": "ok",
        "public_key_hex": "p",
        "schema": "s",
    },
    "deleted": {"deleted": True, "signed_receipt": {"body": {"memory_id": "a"}}},
    "found_after": {"results": []},
}


def test_the_judge_passes_what_is_right() -> None:
    assert faults_of_job(SEEN, "w", "p") == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("tools",), TOOLS[:9], "ten tools, in order"),
        (("tools",), TOOLS[::-1], "ten tools, in order"),
        (("added", "results", 0, "memory"), "the W lamp", "the memory is added"),
        (("found", "results"), [], "it is found"),
        (("found", "results", 0, "user_id"), "bob", "it is found"),
        (("verdict", "authenticated"), False, "its receipt is authentic"),
        (("verdict", "public_key_hex"), "q", "its receipt is authentic"),
        (("deleted", "deleted"), False, "it is deleted"),
        (("deleted", "signed_receipt", "body", "memory_id"), "b", "it is deleted"),
        (("found_after", "results"), [{"id": "a"}], "it is found no more"),
    ],
)
def test_the_judge_sees_each_fault(path: tuple[Any, ...], value: Any, fault: str) -> None:
    seen = deepcopy(SEEN)
    *way, last = path
    place: Any = seen
    for step in way:
        place = place[step]
    place[last] = value
    assert faults_of_job(seen, "w", "p") == [fault]
