"""T-39: what is shipped is what is locked, twice the same, and its parts and licences are listed."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each may be used beside Apache-2.0 with no condition on our code; LGPL: psycopg is imported, not changed.
LICENCES = {
    *("MIT", "MIT-0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "Apache-2.0", "PSF-2.0", "Zlib", "CC0-1.0"),
    *("MPL-2.0", "LGPL-3.0-only"),
}


def written_by_sbom() -> str:
    spec = spec_from_file_location("sbom", ROOT / "deploy" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.document()


def test_t_39_the_bill_of_materials_is_current() -> None:
    """Run `python deploy/sbom.py` and review the difference."""
    assert (ROOT / "deploy" / "sbom.json").read_text() == written_by_sbom()


def test_t_39_the_bill_lists_every_locked_package_once() -> None:
    bill = json.loads((ROOT / "deploy" / "sbom.json").read_text())
    listed = [(one["name"], one["version"]) for one in bill["components"]]
    locked = {
        (name, version)
        for extra in ("base", "mcp", "service")
        for name, version in re.findall(
            r"^(\S+?)==([^ ;\\]+)", (ROOT / "requirements" / f"{extra}.txt").read_text(), re.MULTILINE
        )
    }
    assert len(listed) == len(set(listed))
    assert set(listed) == locked


def test_t_39_every_licence_is_one_we_can_keep() -> None:
    bill = json.loads((ROOT / "deploy" / "sbom.json").read_text())
    told = {one["name"]: [each["expression"] for each in one["licenses"]] for one in bill["components"]}
    unknown = {
        part
        for expressions in told.values()
        for expression in expressions
        for part in re.split(r" (?:AND|OR) ", expression)
    } - LICENCES
    assert unknown == set()
    # Without one: packages that only other systems than this one install.
    only_elsewhere = {one["name"] for one in bill["components"] if not one["licenses"]}
    for one in bill["components"]:
        if one["name"] in only_elsewhere:
            assert any("sys_platform" in each["value"] for each in one["properties"])


def built(folder: Path, *, umask: int, when: int) -> str:
    """Build the wheel from a fresh copy of what git tracks; return its hash."""
    copy = folder / "copy"
    copy.mkdir(parents=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        source = ROOT / name
        if name and source.is_file() and not name.startswith(("tests/", "bench/", "docs/", "web/")):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(0o666 & ~umask)
            os.utime(target, (when, when))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", folder, copy], check=True, capture_output=True, umask=umask)
    (wheel,) = folder.glob("*.whl")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_t_39_a_wheel_built_twice_is_the_same(tmp_path: Path) -> None:
    """In other folders, at other times, under another umask."""
    one = built(tmp_path / "one", umask=0o022, when=1_000_000_000)
    two = built(tmp_path / "another" / "place", umask=0o077, when=1_700_000_000)
    assert one == two


def test_t_39_nothing_runs_when_it_is_installed() -> None:
    """A build by hatchling alone, no hook of ours, no setup.py, and wheels have no install scripts."""
    assert not (ROOT / "setup.py").exists()
    assert "hooks" not in (ROOT / "pyproject.toml").read_text()


def test_t_39_continuous_integration_runs_our_own_script_alone() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines == ["#!/usr/bin/env bash", 'exec "$(dirname "$0")/../scripts/test"']


@pytest.mark.parametrize("path", sorted((ROOT / "packages").rglob("*.py")), ids=lambda path: path.stem)
def test_t_39_nothing_is_fetched_or_run_from_elsewhere(path: Path) -> None:
    """No code of ours evaluates text or calls a shell."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            assert getattr(node.func, "id", "") not in {"eval", "exec"}
            assert not any(word.arg == "shell" for word in node.keywords)
