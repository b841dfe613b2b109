"""`shomei export`, `import` and `audit`: what they write, what they print, what they refuse."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shomei_memory_verify.witness import check
from shomei_service.engine.verbs import access, read
from tests.fakes import Home, new_home
from tests.recompute_export import disagreements
from tests.service import environment

MARK = "ZQ7-9d27f3b8"


def run(home: Home, *arguments: str | Path, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "shomei_service.cli.main", *map(str, arguments)],
        env=environment(home),
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def answer(home: Home, *arguments: str | Path, cwd: Path | None = None) -> dict[str, Any]:
    done = run(home, "--json", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_file_comes_in_and_a_package_goes_out(home: Home, tmp_path: Path) -> None:
    path = write(
        tmp_path / "in.jsonl", {"text": f"{MARK} one"}, {"text": "two"}, {"nothing": MARK}, {"text": " "}
    )
    report = tmp_path / "report.jsonl"
    looked = answer(home, "import", path, "--user-id", "ada", "--dry-run")
    assert (looked["taken"], looked["skipped"]) == (2, 2)
    took = answer(home, "import", path, "--user-id", "ada", "--report", report)
    assert took == {
        "format": "jsonl",
        "taken": 2,
        "already_here": 0,
        "erased": 0,
        "refused": 0,
        "skipped": 2,
        "not_taken": [
            {"line": 3, "outcome": "skipped", "reason": "without a text"},
            {"line": 4, "outcome": "skipped", "reason": "without a text"},
        ],
    }
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert sorted((one["line"], one["outcome"]) for one in lines) == [
        (1, "taken"),
        (2, "taken"),
        (3, "skipped"),
        (4, "skipped"),
    ]
    assert report.stat().st_mode & 0o077 == 0
    assert MARK not in report.read_text()
    again = run(home, "import", path, "--user-id", "ada")
    assert "already_here: 2" in again.stdout
    assert "1  already_here  lm_" in again.stdout
    assert "\r" not in again.stderr  # no bar where nobody looks

    out = tmp_path / "ada.zip"
    made = answer(home, "export", "ada", "--output", out, "--identity-check", "seen")
    assert (made["record"], made["file"]) == (2, str(out))
    assert out.stat().st_mode & 0o077 == 0
    assert check(str(out), pin=home.pin)
    key = answer(home, "audit", "commitment-key")
    assert list(disagreements(out, bytes.fromhex(key["commitment_key"]))) == []
    assert run(home, "export", "ada", "--output", out).returncode == 1  # nothing is replaced
    named = answer(home, "export", "ada", "--json-answer", cwd=tmp_path)
    assert check(str(tmp_path / named["file"]), pin=home.pin)
    assert named["file"] == f"{named['export_id']}.json"

    other = new_home(tmp_path / "other")
    assert answer(other, "import", out)["taken"] == 2
    with other.opened() as house:
        moved = read.page(house.engine, house.data, user_id="ada").memories
        assert [one.content.text for one in moved] == [f"{MARK} one", "two"]


def test_words_are_left_out_with_a_reason(home: Home, tmp_path: Path) -> None:
    with home.opened() as house:
        memory_id = house.remember(MARK, "ada")
    out = tmp_path / "ada.json"
    answer(
        home, "export", "ada", "--json-answer", "--output", out, "--leave-out", f"{memory_id}=trade_secret"
    )
    assert MARK not in out.read_text()
    for wrong in (memory_id, f"{memory_id}=whim", "lm_" + 32 * "0" + "=trade_secret"):
        refused = run(home, "export", "ada", "--output", tmp_path / "x", "--leave-out", wrong)
        assert refused.returncode == 1
        assert not (tmp_path / "x").exists()


def test_who_has_read_about_a_person(home: Home) -> None:
    with home.opened() as house:
        memory_id = house.remember(MARK, "ada")
        for _ in range(60):
            read.get(house.engine, house.data, memory_id)
        read.get(house.engine, house.data, house.remember("bob's", "bob"))
    told = answer(home, "audit", "reads", "ada")
    assert (told["events"], len(told["shown"])) == (60, 50)
    assert {(one["verb"], one["actor_kind"], one["outcome_code"]) for one in told["shown"]} == {
        ("get", "data", "ok")
    }
    assert len(answer(home, "audit", "reads", "ada", "--all")["shown"]) == 60
    assert answer(home, "audit", "reads", "nobody")["events"] == 0


@pytest.mark.parametrize("name", ["absent", "folder", "odd.json"])
def test_what_is_no_file_of_memories_is_refused(home: Home, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "odd.json").write_text(f'"{MARK}"')
    done = run(home, "import", tmp_path / name)
    assert done.returncode == 1
    assert done.stderr.startswith("shomei: ")
    assert MARK not in done.stderr


def test_texts_for_exports_are_set_and_taken_back(home: Home) -> None:
    set_once = answer(home, "tenants", "set", "--text", "controller=Lakeside = Care", "--text", "contact=dpo")
    assert (set_once["text controller"], set_once["text contact"]) == ("Lakeside = Care", "dpo")
    assert "text contact" not in answer(home, "tenants", "set", "--text", "contact=")
    assert answer(home, "tenants", "show")["text controller"] == "Lakeside = Care"
    for wrong in ("motto=yes", "key_1=x", "contact=" + "a" * 4_001):
        assert run(home, "tenants", "set", "--text", wrong).returncode == 1


def test_the_commitment_key_is_the_tenants(home: Home) -> None:
    told = answer(home, "audit", "commitment-key")
    with home.opened() as house:
        key_id, key = access.commitment_key(house.engine, home.tenant)
    assert (told["commit_key_id"], told["commitment_key"]) == (key_id, key.hex())
