"""The .mcpb bundle: what it holds, what its manifest promises, and that it starts from that alone."""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shomei_memory_mcp import settings
from shomei_memory_mcp.tools import TOOLS
from tests.mcp.host import KEY, Host

ROOT = Path(__file__).parents[2]
MANIFEST: dict[str, Any] = json.loads((ROOT / "bundle" / "manifest.json").read_text())


@pytest.fixture(scope="module")
def build() -> ModuleType:
    """The script that packs it."""
    spec = importlib.util.spec_from_file_location("build", ROOT / "bundle" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bundle(build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of this tree."""
    folder = tmp_path_factory.mktemp("bundle")
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder]
    subprocess.run([*wheel, ROOT], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    for name in ("one.mcpb", "two.mcpb"):
        build.write(build.contents(built), folder / name)
    assert (folder / "one.mcpb").read_bytes() == (folder / "two.mcpb").read_bytes()
    return folder / "one.mcpb"


def test_it_holds_the_relay_and_the_verifier_and_no_engine(bundle: Path) -> None:
    names = zipfile.ZipFile(bundle).namelist()
    tops = {name.split("/")[1] for name in names if name.startswith("src/")}
    assert tops == {"server.py", "shomei_memory_mcp", "shomei_memory_verify"} | {
        f"shomei_governed_memory-{MANIFEST['version']}.dist-info"
    }
    assert {name for name in names if "/" not in name} == {"manifest.json", "pyproject.toml"}
    assert MANIFEST["server"]["entry_point"] in names


def test_its_dependencies_are_the_locked_ones(bundle: Path) -> None:
    project = tomllib.loads(zipfile.ZipFile(bundle).read("pyproject.toml").decode())
    lines = (ROOT / "requirements" / "mcp.txt").read_text().splitlines()
    locked = [line.rstrip(" \\") for line in lines if line and not line.startswith((" ", "#"))]
    pins = project["project"]["dependencies"]
    assert pins == locked
    assert all("==" in pin for pin in pins)
    assert project["tool"]["uv"] == {"package": False}


def test_the_manifest_promises_what_is_there() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (MANIFEST["manifest_version"], MANIFEST["version"]) == ("0.4", version)
    assert MANIFEST["tools"] == [{"name": tool.name, "description": tool.title} for tool in TOOLS]
    asked = MANIFEST["user_config"]
    assert [name for name, one in asked.items() if one.get("sensitive")] == ["api_key"]
    config = MANIFEST["server"]["mcp_config"]
    assert config["command"] == MANIFEST["server"]["type"] == "uv"
    assert {value.strip("${}").split(".")[1] for value in config["env"].values()} == asked.keys()


@pytest.mark.parametrize(("read_only", "meant"), [("false", False), ("true", True)])
def test_what_its_user_fills_in_is_understood(read_only: str, meant: bool) -> None:
    defaults = {
        name: str(one["default"]) for name, one in MANIFEST["user_config"].items() if "default" in one
    }
    filled = {"api_key": KEY, **defaults, "read_only": read_only}
    given = {
        name: filled[value.strip("${}").split(".")[1]]
        for name, value in MANIFEST["server"]["mcp_config"]["env"].items()
    }
    assert settings.read(given) == settings.Settings(api_key=KEY, read_only=meant)


def test_it_starts_from_what_it_holds(bundle: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(bundle).extractall(tmp_path)
    script = (
        "import runpy, sys, atexit\n"
        f"sys.path.insert(0, {str(tmp_path / 'src')!r})\n"
        "import shomei_memory_mcp\n"
        f"assert shomei_memory_mcp.__file__.startswith({str(tmp_path)!r})\n"
        f"runpy.run_path({str(tmp_path / MANIFEST['server']['entry_point'])!r}, run_name='__main__')\n"
    )
    env = {"PATH": os.environ["PATH"], "SHOMEI_MCP_API_KEY": KEY}
    with Host(env, command=[sys.executable, "-c", script], cwd=tmp_path) as host:
        hello = host.initialize()["result"]
        listed = host.request("tools/list")["result"]["tools"]
        assert host.end() == 0
    assert hello["serverInfo"]["version"] == MANIFEST["version"]
    assert [tool["name"] for tool in listed] == [tool["name"] for tool in MANIFEST["tools"]]
    assert host.stderr == b""
