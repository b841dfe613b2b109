"""`shomei prove-erasure`: proven where it is true, and not where anything was broken."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import create_engine, text

from shomei_service.cli.main import main
from shomei_service.engine.custody.blob import Draft
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.providers.protocol import (
    Destroyed,
    DestroyMethod,
    Finality,
    Handle,
    KeyState,
)
from shomei_service.proof.ordinary import Ordinary
from shomei_service.proof.thief import Thief
from tests.crash.runs import snapshot
from tests.engine.custody.postgres import Server
from tests.fakes import new_home
from tests.providers import Custodian

ROWS = 3
Said = tuple[int, str, str]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, which is to be as empty after a proof as before."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No setting but those of the test; the home is one that does not exist."""
    for name in [name for name in os.environ if name.startswith("SHOMEI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SHOMEI_HOME", str(tmp_path / "none"))
    yield
    assert not (tmp_path / "none").exists()


def prove(capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    code = main(["prove-erasure", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def configure(monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str]) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


def lines(said: str, what: str, how: str) -> int:
    return sum(line.split()[1:2] == [what] and line.endswith(how) for line in said.splitlines())


def test_it_is_proven_on_every_provider_that_holds_keys(
    custodian: Custodian,
    temporary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(monkeypatch, custodian.environ)
    code, said, _ = prove(capsys)
    assert code == 0, said
    assert f"key custody {custodian.code}" in said
    assert (lines(said, "kept", "  opened"), lines(said, "erased", "did not open")) == (ROWS, ROWS)
    assert f"the attack opens {ROWS} of {ROWS} to be kept, {ROWS} of {ROWS} to be erased" in said
    assert f"common design, deleted alike, the same backup opens {ROWS} of {ROWS}" in said
    assert f"finality {custodian.finality}" in said
    assert ("window: open until" in said) == (custodian.finality == "scheduled")
    assert "FAILED" not in said
    assert list(temporary.iterdir()) == []
    assert custodian.living(tmp_path) == set()


@pytest.mark.parametrize("custodian", ["aws-kms"], indirect=True)
def test_the_window_is_shown_open_and_then_closed(
    custodian: Custodian, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(monkeypatch, custodian.environ)
    file = tmp_path / "attack.json"
    code, said, _ = prove(capsys, "--keep", str(file))
    assert code == 0, said
    assert f"who cancels the deletion opens {ROWS} of {ROWS}" in said
    assert "with the deletion scheduled again 0 of 3 open" in said
    assert file.stat().st_mode & 0o077 == 0
    # The day before its date it can still be had back; and that is said, not hidden.
    custodian.let_days_pass(6)
    code, said, _ = prove(capsys, "--again", str(file))
    assert (code, f"who cancels the deletion opens {ROWS} of {ROWS}" in said) == (0, True)
    custodian.let_days_pass(8)
    code, said, _ = prove(capsys, "--again", str(file))
    assert code == 0, said
    assert "nothing is left that could be cancelled" in said
    assert (lines(said, "kept", "  opened"), lines(said, "erased", "did not open")) == (ROWS, ROWS)
    assert custodian.living(tmp_path) == set()  # and with the last one gone there is nothing to compare with:
    code, said, _ = prove(capsys, "--again", str(file))
    assert (code, lines(said, "kept", "DID NOT OPEN")) == (1, ROWS)


@pytest.mark.parametrize("custodian", ["vault"], indirect=True)
def test_where_nothing_is_scheduled_nothing_is_kept_and_no_key_is_left(
    custodian: Custodian, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(monkeypatch, custodian.environ)
    file = tmp_path / "attack.json"
    code, said, _ = prove(capsys, "--keep", str(file))
    assert (code, "nothing to keep" in said, file.exists()) == (0, True, False)
    assert custodian.living(tmp_path) == set()
    file.write_text("{}")
    code, _, said = prove(capsys, "--keep", str(file))
    assert (code, said) == (1, "shomei: the file to keep the attack in is there already\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_proof_that_is_told_to_end_leaves_nothing(tmp_path: Path, temporary: Path, name: str) -> None:
    command = [sys.executable, "-m", "shomei_service.cli.main", "prove-erasure"]
    environ = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline()
        assert list(temporary.iterdir()) != []
        begun.send_signal(getattr(signal, name))
        _, said = begun.communicate(timeout=60)
    assert (begun.returncode, b"Traceback" in said) == (130, False)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("custody", ["custody in a file", "custody on the server too"])
def test_it_is_proven_on_postgres(
    cluster: Server, custody: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.say("ALTER ROLE service CREATEDB")
    name = f"configured_{len(custody)}"
    url = cluster.database(name)
    monkeypatch.setenv("SHOMEI_DATABASE_URL", url)
    if "server" in custody:
        monkeypatch.setenv("SHOMEI_CUSTODY_URL", url)
    code, said, _ = prove(capsys)
    assert code == 0, said
    assert "database PostgreSQL" in said
    assert (lines(said, "kept", "  opened"), lines(said, "erased", "did not open")) == (ROWS, ROWS)
    engine = create_engine(cluster.superuser_url(name))
    with engine.connect() as connection:
        left = connection.execute(text("SELECT datname FROM pg_database WHERE datname LIKE 'shomei_proof%'"))
        assert list(left) == []
        assert (
            connection.execute(text("SELECT count(*) FROM pg_class WHERE relname = 'memories'")).scalar() == 0
        )
    engine.dispose()


def test_a_role_that_may_make_no_database_is_told_so(
    cluster: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.say("ALTER ROLE service NOCREATEDB")
    monkeypatch.setenv("SHOMEI_DATABASE_URL", cluster.database("without_right"))
    code, _, said = prove(capsys)
    assert code == 1
    assert said == (
        "shomei: the PostgreSQL role may not make databases of its own: "
        "grant it CREATEDB, or name another role\n"
    )


def test_json_is_one_object_and_an_installation_that_is_there_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = new_home(tmp_path)
    monkeypatch.setenv("SHOMEI_HOME", str(home.settings.home))
    before = snapshot(home)
    assert main(["--json", "prove-erasure"]) == 0
    assert snapshot(home) == before
    told = json.loads(capsys.readouterr().out)
    assert told["proven"] is True
    assert sum(line.get("holds", False) for line in told["lines"]) == 2 * ROWS + 4


@pytest.mark.parametrize("kept", ["missing", "text", "another format"])
def test_a_file_that_is_no_kept_attack_is_refused(
    tmp_path: Path, kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "attack.json"
    if kept != "missing":
        file.write_text("words" if kept == "text" else '{"format": "shomei.proof.v0"}')
    code, _, said = prove(capsys, "--again", str(file))
    assert (code, said) == (1, "shomei: the file is none that prove-erasure --keep wrote\n")


# What a sceptic would suspect: each is broken on purpose, and the proof has to say so.


class Lying(LocalFile):
    """A provider that says a key is gone, and keeps it."""

    ended: ClassVar[set[str]] = set()

    def destroy(self, handle: Handle) -> Destroyed:
        self.ended.add(handle)
        return Destroyed(DestroyMethod.FILE_OVERWRITE_UNLINK, Finality.FINAL)

    def state(self, handle: Handle) -> KeyState:
        return KeyState.GONE if handle in self.ended else super().state(handle)


def test_a_provider_that_keeps_what_it_says_it_destroyed_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shomei_service.provider.LocalFile", Lying)
    code, said, error = prove(capsys)
    assert (code, error.splitlines()[-1]) == (1, "shomei: not proven")
    assert lines(said, "erased", "  OPENED") == ROWS
    assert lines(said, "kept", "  opened") == ROWS


def test_a_puncture_that_leaves_the_seed_where_it_was_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays in the blob beside those of the siblings, where the engine itself does not see it."""
    carve = Draft.carve

    def careless(draft: Draft, byte: int) -> bytes | None:
        before = dict(draft.seeds)
        seed = carve(draft, byte)
        for node, was in before.items():
            if node not in draft.seeds:
                hidden = 256 | (byte ^ 128)  # in the place of a leaf that was never given to anybody
                draft.seeds.setdefault(hidden, was)
        return seed

    monkeypatch.setattr(Draft, "carve", careless)
    code, said, error = prove(capsys)
    assert (code, error.splitlines()[-1]) == (1, "shomei: not proven")
    assert lines(said, "erased", "  OPENED") >= 1


def test_an_attack_that_can_not_attack_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Thief, "opened", lambda *_: {})
    code, said, _ = prove(capsys)
    assert code == 1
    assert f"FAILED  control: before the erasure the attack opens 0 of {ROWS}" in said


def test_a_control_that_does_not_fall_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Ordinary, "opened", lambda *_: {})
    assert main(["--json", "prove-erasure"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["proven"] is False
    assert [line["promise"] for line in told["lines"] if line.get("holds") is False] == [
        f"control: of the common design, deleted alike, the same backup opens 0 of {ROWS}"
    ]
