"""`shomei commitment-key` beside a running service, and what an auditor is given after it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.cli.test_commands import _answer
from tests.fakes import Home, new_home
from tests.service import Service, environment, serving


def _client(home: Home, service: Service) -> httpx.Client:
    headers = {"authorization": f"Bearer {home.admin_token}"}
    return httpx.Client(base_url=service.url, headers=headers, trust_env=False, timeout=60)


def _forget(client: httpx.Client, subject: str) -> dict[str, Any]:
    made = client.post("/v1/memories", json={"messages": "a kettle", "user_id": subject})
    assert made.status_code == 200, made.text
    answer = client.post("/v1/forget", json={"user_id": subject})
    assert answer.status_code == 200, answer.text
    return answer.json()["closure_receipt"]


def _refused(home: Home, *arguments: str) -> str:
    command = [sys.executable, "-m", "shomei_service.cli.main", *arguments]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    said = [line for line in done.stderr.splitlines() if "for development only" not in line]
    return "\n".join(said)


def test_a_rotation_beside_a_running_service(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    with serving(home, tmp_path) as service, _client(home, service) as client:
        before = _forget(client, "alice")
        first = _answer(home, "audit", "commitment-key")
        rotated = _answer(home, "commitment-key", "rotate", "--after", str(first["commit_key_id"]))
        again = _answer(home, "commitment-key", "rotate", "--after", str(first["commit_key_id"]))
        after = _forget(client, "bob")
    assert first["commit_key_id"] == before["commit_key_id"] == rotated["old_commit_key_id"]
    assert rotated["commit_key_id"] == again["commit_key_id"] == after["commit_key_id"]
    assert (rotated["changed"], again["changed"]) == (True, False)
    now = _answer(home, "audit", "commitment-key")
    assert now["commit_key_id"] == rotated["commit_key_id"]
    assert now["commitment_key"] != first["commitment_key"]
    assert ("opens no pseudonym" in str(now["note"]), "whose it is" in str(first["note"])) == (True, True)
    named = _answer(home, "audit", "commitment-key", "--id", str(first["commit_key_id"]))
    assert named == first
    shown = _answer(home, "commitment-key", "show")
    assert (shown["commit_key_id"], shown["naming_key_id"]) == (now["commit_key_id"], first["commit_key_id"])
    assert [one["commit_key_id"] for one in shown["named"]] == [  # type: ignore[union-attr, index]
        first["commit_key_id"],
        now["commit_key_id"],
    ]
    assert _answer(home, "audit", "recompute")["disagreeing"] == 0


def test_what_is_refused_is_one_line(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    unknown = "ck_" + 32 * "0"
    for arguments in (
        ("commitment-key", "rotate", "--after", unknown),
        ("audit", "commitment-key", "--id", unknown),
    ):
        assert re.fullmatch("shomei: [^\n]*commitment key[^\n]*", _refused(home, *arguments))
    (home.settings.keys / "custody").rename(tmp_path / "away")
    assert re.fullmatch("shomei: [^\n]*", _refused(home, "commitment-key", "rotate"))
    (tmp_path / "away").rename(home.settings.keys / "custody")
    assert len(_answer(home, "commitment-key", "show")["keys"]) == 1  # type: ignore[arg-type]
