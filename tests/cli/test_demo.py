"""The main job through the real relay, and that it notices when an erasure is only pretended."""

import json
import subprocess
import sys
from pathlib import Path

from tests.fakes import Home, new_home
from tests.service import ROOT, environment, serving

KEEP_KEYS = """
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.providers.protocol import Destroyed, DestroyMethod, Finality
LocalFile.destroy = lambda self, handle: Destroyed(DestroyMethod.FILE_OVERWRITE_UNLINK, Finality.UNASSURED)
"""
KEEP_LEAVES = """
from shomei_service.engine.custody.keytree import KeyTree
cut = KeyTree.cut
KeyTree.cut = lambda self, targets, *, epoch: cut(self, [], epoch=epoch)
"""


def _data(folder: Path) -> Path:
    turns = (ROOT / "examples" / "apollo11.jsonl").read_text().splitlines()
    kept = [
        line for line in turns if json.loads(line)["user_id"] == "lunar-module-pilot" or "munching" in line
    ]
    file = folder / "turns.jsonl"
    file.write_text("\n".join([*kept, *turns[:5]]))
    return file


def _demo(home: Home, url: str, data: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "shomei_service.cli.main", "demo", "--data", data, "--url", url]
    verifier = Path(sys.executable).with_name("shomei-memory-verify")
    return subprocess.run(
        [*command, "--pin", home.pin or "", "--verifier", verifier],
        env=environment(home, SHOMEI_MCP_API_KEY=home.admin_token),
        capture_output=True,
        text=True,
    )


def test_the_main_job_runs_twice_and_adds_nothing_twice(tmp_path: Path) -> None:
    home, data = new_home(tmp_path), _data(tmp_path)
    turns = len(data.read_text().splitlines())
    with serving(home, tmp_path) as service:
        first, second = _demo(home, service.url, data), _demo(home, service.url, data)
    assert first.returncode == 0, first.stderr
    assert f"added {turns} memories; 0 were there" in first.stdout
    assert "7 erased, complete" in first.stdout
    assert "signature_or_hash_invalid" in first.stdout
    assert second.returncode == 0, second.stderr
    assert f"added 8 memories; {turns - 8} were there" in second.stdout


def test_an_erasure_that_keeps_the_key_is_noticed(tmp_path: Path) -> None:
    for name, broken in (("keys", KEEP_KEYS), ("leaves", KEEP_LEAVES)):
        folder = tmp_path / name
        folder.mkdir()
        home, data = new_home(folder), _data(folder)
        with serving(home, folder, before=broken) as service:
            done = _demo(home, service.url, data)
        assert done.returncode == 1, name
        assert "delete_memory" in done.stderr, name
        assert "asked again" not in done.stdout, name


def test_a_refused_key_ends_the_job(tmp_path: Path) -> None:
    home, data = new_home(tmp_path), _data(tmp_path)
    with serving(home, tmp_path) as service:
        command = [
            sys.executable,
            "-m",
            "shomei_service.cli.main",
            "demo",
            "--data",
            data,
            "--url",
            service.url,
        ]
        done = subprocess.run(
            [*command, "--pin", home.pin or ""],
            env=environment(home, SHOMEI_MCP_API_KEY=home.data_token),
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert "this action requires an admin-scoped key" in done.stderr
