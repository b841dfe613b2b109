"""docs/requests.md, run from top to bottom against a service: every command, and what it says they print."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shomei_memory_verify.witness import check
from tests.fakes import new_home
from tests.service import ROOT, environment, serving

PAGE = ROOT / "docs" / "requests.md"
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """Return each block of commands, with what is printed according to the page."""
    found: list[tuple[str, str]] = []
    for kind, text in _BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "sh":
            found.append((text, ""))
        else:
            commands, before = found.pop()
            found.append((commands, before + text))
    return found


def commands_folder(folder: Path) -> Path:
    """Return a folder with our commands in it, as an installation has them."""
    made = folder / "bin"
    made.mkdir()
    for name, module in (
        ("shomei", "shomei_service.cli.main"),
        ("shomei-memory-verify", "shomei_memory_verify"),
    ):
        (made / name).write_text(f'#!/bin/sh\nexec {sys.executable} -W error -m {module} "$@"\n')
        (made / name).chmod(0o755)
    return made


@pytest.mark.parametrize("tool", ["curl", "jq", "unzip"])
def test_the_tools_that_the_page_uses_are_here(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"must: {tool} is not on this machine")


def test_every_request_from_letter_to_file(tmp_path: Path) -> None:
    if any(shutil.which(tool) is None for tool in ("bash", "curl", "jq", "unzip")):
        pytest.skip("must: the page's tools are not on this machine")
    home, other = new_home(tmp_path), new_home(tmp_path / "other")
    shown = [text for text, _ in steps()]
    script = "set -euo pipefail\n" + "".join(
        f"printf '\\n=== {number}\\n'\n{text}" for number, text in enumerate(shown)
    )
    with serving(home, tmp_path) as service:
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=environment(home)
            | {
                "PATH": f"{commands_folder(tmp_path)}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT / "packages"),
                "SHOMEI_URL": service.url,
                "ADMIN_KEY": home.admin_token,
                "DATA_KEY": home.data_token,
                "DATA_KEY_ID": "key_" + home.data_token.split("_")[1],
                "OTHER_HOME": str(other.settings.home),
            },
        )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    printed = ran.stdout.split("\n=== ")[1:]
    assert len(printed) == len(shown)
    for (commands, promised), told in zip(steps(), printed, strict=True):
        lines = told.splitlines()
        for line in promised.splitlines():
            wanted = re.escape(line).replace("…", ".*")
            assert any(re.fullmatch(wanted, one.strip()) for one in lines), (commands, line, told)
    assert check(str(tmp_path / "case-017" / "ada.zip"), pin=home.pin)
    assert "Memory erased" in (tmp_path / "case-017" / "erased-on-objection.html").read_text()
    assert "Subject closure" in (tmp_path / "case-017" / "closure.html").read_text()
    page = (tmp_path / "case-017" / "ada" / "report.html").read_text("utf-8")
    assert all(
        words in page for words in ("Lakeside Care Ltd", "Care assistant", "Ada lives at 3 Mill Lane.")
    )
