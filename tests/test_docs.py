"""The documents keep their word: commands run, links lead somewhere, claims are ones we can show."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import claims

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
] + sorted((ROOT / "docs").rglob("*.md"))
# T-45: claims that nobody can keep, whatever is meant by them.
FORBIDDEN = re.compile(
    r"irrecoverabl|unrecoverabl(?!e under the stated\s+custody)|(?:can ?not|can't|never) be recovered"
    r"|GDPR[- ]compliant|compliant with (?:the )?GDPR"
    r"|(?:military|bank)[- ]grade|unhackable|unbreakable|tamper[- ]proof|100 ?% secure|zero[- ]knowledge"
    r"|guarantees? (?:erasure|deletion|compliance)|impossible to (?:recover|restore|forge)|fully anonym",
    re.IGNORECASE,
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_claims_what_nobody_can_show(document: Path) -> None:
    if document.name != "STYLE.md":
        assert FORBIDDEN.findall(document.read_text()) == []


def test_t_45_every_sentence_of_the_readme_rests_on_something() -> None:
    """docs/claims.md holds each of them, word for word, and nothing else."""
    assert list(claims.grounds()) == claims.sentences((ROOT / "README.md").read_text())


@pytest.mark.parametrize("sentence", claims.grounds())
def test_t_45_what_a_sentence_rests_on_is_there(sentence: str) -> None:
    missing = [named for named in claims.grounds()[sentence] if not claims.is_ground(named)]
    assert missing == []


def test_t_45_a_claim_that_nobody_shows_is_noticed() -> None:
    told = claims.sentences(
        "# x\n\nIt is fast. It is `safe`.\n\n- **One**\n  thing.\n\n| a | b | c |\n|---|---|---|\n"
    )
    assert told == ["It is fast.", "It is `safe`.", "**One** thing.", "a: c"]
    assert not claims.is_ground("tests/test_docs.py::test_that_is_not_there")
    assert not claims.is_ground("tests/nowhere.py::test_x")
    assert not claims.is_ground("everybody knows")


def test_the_quickstart_of_the_readme_ends_in_a_verified_erasure(tmp_path: Path) -> None:
    """As a newcomer runs it: a home of its own, whatever else listens on the usual port."""
    assert "./scripts/quickstart" in (ROOT / "README.md").read_text()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOMEI_")}
    done = subprocess.run(
        [ROOT / "scripts" / "quickstart"],
        env=kept | {"SHOMEI_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "added 419 memories; 0 were there from an earlier run" in done.stdout
    assert "munching sandwiches" in done.stdout
    assert done.stdout.count("authenticated=True") == 2
    assert "signature_or_hash_invalid" in done.stdout
    assert "is not found (state: erased)" in done.stdout
    assert "shomei serve" in done.stdout


def test_a_wrong_python_is_one_clear_line(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    tools = [tmp_path / name for name in ("dirname", "cat", "rm", "mkdir")]
    for tool in tools:
        tool.symlink_to(
            f"/bin/{tool.name}" if Path(f"/bin/{tool.name}").exists() else f"/usr/bin/{tool.name}"
        )
    done = subprocess.run(
        ["/bin/bash", ROOT / "scripts" / "quickstart"],
        env={"PATH": str(tmp_path), "SHOMEI_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        "quickstart: Python 3.11 or newer is needed; set PYTHON to one"
    ]
    assert not (tmp_path / "home").exists()
