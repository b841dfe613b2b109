"""`shomei custody status|rotate|move`, as an operator runs them. CONTRACT.md §5."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path

import pytest

from shomei_service import provider
from shomei_service.engine import duties, rotation
from shomei_service.engine.custody.providers.protocol import Provider
from shomei_service.engine.errors import EngineError, StartRefused
from shomei_service.engine.failpoints import InjectedError
from shomei_service.engine.verbs.erase import erase
from shomei_service.settings import CustodyKind, Settings
from tests import oracle
from tests.cli.test_commands import _answer, _run
from tests.engine.custody.postgres import running
from tests.fakes import Home, new_home
from tests.providers import KINDS, Machines


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


def test_status_explains_what_there_is(tmp_path: Path) -> None:
    mirrors = [tmp_path / name for name in ("mirror_a", "mirror_b")]
    for mirror in mirrors:
        mirror.mkdir(mode=0o700)
    settings = {"SHOMEI_CUSTODY_MIRRORS": ":".join(map(str, mirrors))}
    home = new_home(tmp_path, custody_mirrors=settings["SHOMEI_CUSTODY_MIRRORS"])
    with home.opened() as house:
        for _ in range(2):
            erase(house.engine, house.admin, house.remember("a kettle"))
        rotation.rotate_custody(house.engine)
    shown = json.loads(_run(home, "--json", "custody", "status", **settings).stdout)
    assert (shown["custody"], shown["is_development"], shown["epoch"]) == ("dev_local_file", True, 3)
    assert [(one["number"], one["what"]) for one in shown["epochs"]] == [
        (3, "rotation"),
        (2, "1 keys erased"),
        (1, "1 keys erased"),
    ]
    assert {one["old_key"] for one in shown["epochs"]} == {"file_overwrite_unlink"}
    assert [one["state"] for one in shown["mirrors"]] == ["current", "current"]
    assert shown["finality"].startswith("unassured: ")
    risks = " ".join(one["what"] for one in shown["at_risk"])
    assert "erases everything" in risks
    assert "mirror" not in risks
    text = _run(home, "custody", "status", "--epochs", "1", **settings).stdout
    assert "rotation" in text
    assert "keys erased" not in text
    assert f"mirror  {mirrors[0]}" in text


def test_status_says_what_is_at_risk(home: Home) -> None:
    text = _run(home, "custody", "status").stdout
    assert "no epoch key was destroyed yet" in text
    assert "no mirror" in text
    assert "nothing was erased yet" in text


def test_rotate_says_how_the_old_key_ended(home: Home) -> None:
    (before,) = {path.stem for path in (home.settings.keys / "custody").glob("*.key")}
    shown = _answer(home, "custody", "rotate")
    assert shown == {
        "epoch": 1,
        "old_key": "file_overwrite_unlink",
        "finality": "unassured",
        "old_key_final": "-",
    }
    assert before not in {path.stem for path in (home.settings.keys / "custody").glob("*.key")}


def test_move_refuses_what_is_not_configured(home: Home) -> None:
    """One sentence that names the setting; custody is where it was, and the service goes on."""
    for kind, named in {
        "local-file": "held by that provider already",
        "pkcs11": "SHOMEI_PKCS11_MODULE",
        "vault": "SHOMEI_VAULT_URL",
    }.items():
        done = _run(home, "custody", "move", kind)
        assert done.returncode == 1
        assert named in done.stderr
        assert "Traceback" not in done.stderr
    with home.opened() as house:
        erase(house.engine, house.admin, house.remember("a kettle"))


def configured(home: Home, **settings: object) -> Home:
    """Return the installation under these settings too."""
    known = home.settings.model_dump(exclude_none=True)
    return replace(home, settings=Settings.model_validate(known | settings))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "local-file"])
def test_from_files_to_another_provider_and_back(
    home: Home, machines: Machines, kind: str, tmp_path: Path
) -> None:
    """No row is sealed anew; receipts after it carry the new custody code; the signer's seed goes along."""
    there = machines.custodian(kind)
    moved = configured(home, **there.settings, signer="custody")
    here = configured(moved, custody="local-file")
    with here.opened() as house:
        kept, gone = (house.remember(text) for text in ("a kettle", "a stone"))
        rotation.rotate_signer(house.engine)
        before = {row["memory_id"]: row["sealed_dek"] for row in oracle.read(here.settings).memories}
        rotation.move_custody(house.engine, _goal(here, kind))
        assert house.engine.key_custody == there.code
        proof = erase(house.engine, house.admin, gone).receipt.body
    assert (proof["key_custody"], proof["destroy_method"]) == (there.code, there.destroy_method)
    assert list((home.settings.keys / "custody").iterdir()) == []
    with pytest.raises(StartRefused, match="SHOMEI_CUSTODY"), here.opened():
        pass
    with moved.opened() as house:
        assert oracle.every_living_row_opens(house, oracle.read(here.settings)) == {kept: "a kettle"}
        after = {row["memory_id"]: row["sealed_dek"] for row in oracle.read(here.settings).memories}
        assert after == {kept: before[kept]}
        assert house.engine.signer is not None
        erase(house.engine, house.admin, house.remember("a stick"))
        rotation.move_custody(house.engine, _goal(moved, "local-file"))
        made = oracle.read(here.settings).receipts
    assert there.living(home.settings.home) == set()
    stated = [row["statement"] for row in made if row["schema"] == "shomei.key_rotation.v1"]
    moves = [(one["old_key_id"], one["new_key_id"]) for one in stated if one["key_role"] == "custody"]
    assert moves == [("dev_local_file:0", f"{there.code}:1"), (f"{there.code}:3", "dev_local_file:4")]
    with here.opened() as house:
        assert oracle.settled(house, here.settings) == {kept: "a kettle"}


def _goal(home: Home, kind: str) -> Provider:
    with redirect_stderr(io.StringIO()):
        return provider.goal(home.settings, CustodyKind(kind))


def test_a_move_that_dies_before_it_is_told_is_told_by_the_next_opening(
    home: Home, machines: Machines
) -> None:
    there = machines.custodian("vault")
    after = configured(home, **there.settings)
    here = configured(after, custody="local-file", failpoints="rot.mid:raise")
    with here.opened() as house:
        house.remember("a kettle")
        with pytest.raises((InjectedError, EngineError)):
            rotation.move_custody(house.engine, _goal(here, "vault"))
    with after.opened() as house:
        oracle.every_living_row_opens(house, oracle.read(home.settings))
    stated = [one for one in oracle.read(home.settings).receipts if "key_rotation" in one["schema"]]
    assert [one["statement"]["new_key_id"] for one in stated] == ["vault_transit:1"]


def test_custody_is_not_moved_under_a_running_server(folder_on_postgres: Home) -> None:
    """On PostgreSQL no lock on the home says that one runs: its lease does."""
    home = folder_on_postgres
    settings = {
        "SHOMEI_DATABASE_URL": str(home.settings.database_url),
        "SHOMEI_CUSTODY_URL": str(home.settings.custody_url),
        "SHOMEI_VAULT_URL": "http://127.0.0.1:9",
        "SHOMEI_VAULT_TOKEN": "nobody",
    }
    with home.opened() as house:
        assert house.engine.duties.has(duties.UPKEEP)
        done = _run(home, "custody", "move", "vault", **settings)
    assert done.returncode == 1
    assert "a server runs on this database" in done.stderr


@pytest.fixture
def folder_on_postgres(tmp_path: Path) -> Iterator[Home]:
    with running() as server:
        yield new_home(tmp_path, database_url=server.database("main"), custody_url=server.database("custody"))
