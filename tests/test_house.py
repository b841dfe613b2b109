"""The house's own rules, read off the tree. docs/STYLE.md."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "packages"
SOURCES = sorted(path for path in PACKAGES.rglob("*.py") if "migrations" not in path.parts)
LONGEST_FUNCTION = 60
LONGEST_MODULE = 300
ASKED = {
    "shomei_service/engine/model.py"
}  # whether it is two: the engine's words and values are one dictionary
BANNED_WORDS = {
    "util",
    "utils",
    "helper",
    "helpers",
    "manager",
    "handler",
    "common",
    "misc",
    "info",
    "verified",
}


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def _name(path: Path) -> str:
    return str(path.relative_to(PACKAGES))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_is_short_named_well_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module says what it is for"
    assert len(text.splitlines()) <= LONGEST_MODULE or _name(path) in ASKED
    assert path.stem not in BANNED_WORDS
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        assert not set(node.name.lower().split("_")) & BANNED_WORDS, node.name
        if isinstance(node, ast.ClassDef):
            assert node.name.startswith("_") or ast.get_docstring(node), f"{node.name} has no docstring"
            continue
        length = (node.end_lineno or 0) - node.lineno + 1
        assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_public_functions_of_a_module_have_a_contract(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def test_the_median_function_is_ten_lines() -> None:
    lengths = sorted(
        (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert lengths[len(lengths) // 2] <= 10
    assert lengths[len(lengths) * 9 // 10] <= 35


def test_only_the_settings_read_the_environment() -> None:
    readers = {
        _name(path)
        for path in (PACKAGES / "shomei_service").rglob("*.py")
        if "os.environ" in path.read_text()
    }
    # A client of the service, and a default for numpy that must stand before it is imported.
    assert readers <= {
        "shomei_service/cli/demo.py",
        "shomei_service/cli/serve.py",
        "shomei_service/cli/reembed.py",
    }


def test_no_file_names_a_package_host_or_a_machine() -> None:
    hosts = re.compile(
        r"pypi\.org|pythonhosted\.org|registry\.npmjs|deb\.debian|/work/|/root/|/home/[a-z]", re.IGNORECASE
    )
    exempt = {ROOT / "tests" / "test_house.py"}
    found = [
        str(path.relative_to(ROOT))
        for path in _tracked()
        if path not in exempt and path.is_file() and hosts.search(path.read_text(errors="ignore"))
    ]
    assert found == []


def test_requirements_are_locked_with_hashes() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pins, path
        assert all("==" in line for line in pins), path
        assert text.count("--hash=sha256:") >= len(pins)


def test_every_script_runs_and_ci_has_one_door() -> None:
    for name in ("scripts/quickstart", "scripts/test", "scripts/bench", ".ci/run"):
        assert (ROOT / name).stat().st_mode & 0o111, name
    assert "scripts/test" in (ROOT / ".ci" / "run").read_text()
