"""The operator's commands: what they print, what they refuse, and how they say so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import Home, new_home
from tests.service import environment, serving

_MAIN = [sys.executable, "-m", "shomei_service.cli.main"]


def _run(home: Home, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*_MAIN, *arguments], env=environment(home, **settings), capture_output=True, text=True
    )


def _answer(home: Home, *arguments: str) -> dict[str, object]:
    done = _run(home, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


def test_init_makes_an_installation_once(tmp_path: Path) -> None:
    place = {"SHOMEI_HOME": str(tmp_path / "new")}
    first = subprocess.run([*_MAIN, "--json", "init"], env=place, capture_output=True, text=True, check=True)
    made = json.loads(first.stdout)
    assert made["admin_key"].startswith("shm_")
    assert len(made["pin"]) == 64
    assert "for development only" in first.stderr
    before = {path: path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file()}
    again = subprocess.run([*_MAIN, "init"], env=place, capture_output=True, text=True)
    assert again.returncode == 1
    assert again.stderr.splitlines()[-1].startswith(
        "shomei: an installation, or part of one, is already there"
    )
    assert {path: path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file()} == before


def test_everything_is_private_from_creation(home: Home) -> None:
    for path in home.settings.home.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_keys_are_made_listed_and_revoked(home: Home) -> None:
    made = _answer(home, "keys", "create", "--scope", "data")
    assert str(made["token"]).startswith(f"shm_{made['key_id']}_")
    listed = _run(home, "keys", "list").stdout
    assert str(made["key_id"]) in listed
    assert str(made["token"]).split("_", 2)[2] not in listed
    assert _run(home, "keys", "revoke", str(made["key_id"])).returncode == 0
    assert _run(home, "keys", "revoke", str(made["key_id"])).returncode == 1


def test_a_tenant_must_be_named_once_there_are_two(home: Home) -> None:
    _answer(home, "tenants", "create", "acme")
    assert "--tenant" in _run(home, "keys", "create").stderr
    made = _answer(home, "keys", "create", "--tenant", "acme", "--scope", "admin")
    assert made["scope"] == "admin"
    assert _run(home, "tenants", "create", "Jane Doe").returncode == 1


def test_the_signer_shows_its_pin(home: Home) -> None:
    assert _answer(home, "signer", "show")["pin"] == home.pin


def test_config_shows_no_secret(home: Home) -> None:
    shown = _run(home, "config", SHOMEI_DATABASE_URL="postgresql+psycopg://u:hunter2@h/d").stdout
    assert "hunter2" not in shown
    assert "SHOMEI_HOME" in shown


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"SHOMEI_HOME": "nowhere"}, "run shomei init first"),
        ({"SHOMEI_ENV": "production"}, "production refuses development custody"),
        ({"SHOMEI_PORT": "http"}, "SHOMEI_PORT"),
        ({"SHOMEI_HOST": "0.0.0.0"}, "plain http on a non-loopback address"),
        ({"SHOMEI_CUSTODY": "aws"}, "SHOMEI_CUSTODY"),
    ],
)
def test_serve_refuses_what_it_cannot_run_with(home: Home, settings: dict[str, str], words: str) -> None:
    done = _run(home, "serve", **settings)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_serve_creates_nothing(tmp_path: Path) -> None:
    done = subprocess.run([*_MAIN, "serve"], env={"SHOMEI_HOME": str(tmp_path / "none")}, capture_output=True)
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_commands_work_beside_a_server_and_a_second_server_does_not(home: Home, tmp_path: Path) -> None:
    with serving(home, tmp_path):
        assert _answer(home, "keys", "create")["scope"] == "data"
        second = _run(home, "serve", SHOMEI_PORT="0")
        assert second.returncode == 1
        assert "another shomei serve already runs on this home" in second.stderr


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["keys"], ["keys", "create", "--scope", "root"]])
def test_usage_errors_exit_2(home: Home, arguments: list[str]) -> None:
    assert _run(home, *arguments).returncode == 2
