"""The commands of docs/restore.md, run as they stand there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from tests import oracle
from tests.crash.places import quick_folder
from tests.engine.custody.postgres import Server, running
from tests.fakes import Home, new_home
from tests.service import environment

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "restore.md").read_text()
BLOCKS = re.findall(r"^```sh ?([^\n]*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


def block(words: str, contains: str) -> str:
    """Return the one block of the page that is labelled so and says that."""
    (found,) = [text for label, text in BLOCKS if label == words and contains in text]
    return found


def run(home: Home, script: str, **variables: object) -> str:
    """Run a block as an operator's shell would; return what it printed."""
    settings = {f"SHOMEI_{name.upper()}": str(value) for name, value in home.settings.model_dump().items()}
    given = {
        name: settings[name]
        for name in ("SHOMEI_CUSTODY_MIRRORS", "SHOMEI_DATABASE_URL", "SHOMEI_CUSTODY_URL")
        if settings[name] not in ("", "None")
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    named = {name: str(value) for name, value in variables.items()}
    done = subprocess.run(
        ["bash", "-euc", script],
        env=environment(home, PATH=path, **given, **named),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_block_of_the_page_is_run() -> None:
    labels = [label for label, _ in BLOCKS]
    assert len(labels) == 12
    assert set(labels) == {"", "postgres", "postgres dump", "postgres dump-restore", "catch-up", "mirror"}


def test_sqlite(folder: Path) -> None:
    home = new_home(folder)
    with home.opened() as house:
        kept = house.remember("a stone", "bob")
        house.remember("a kettle", "alice")
        run(home, block("", "shomei backup"), BACKUPS=folder)
        forget(house.engine, house.admin, "alice")
    assert "erased_again: 1" in run(home, block("", "shomei restore"), BACKUPS=folder)
    with home.opened() as house:
        assert oracle.settled(house, home.settings).keys() == {kept}
    assert "no mirror" in run(home, block("", "custody status"))


def test_keys_that_follow_one_another(folder: Path) -> None:
    home = new_home(folder)
    assert "epoch: 1" in run(home, block("", "custody rotate"))
    assert str(home.pin) in run(home, block("", "signer rotate"))
    told = run(home, block("", "commitment-key rotate"))
    assert "changed: True" in told
    assert "disagreeing: 0" in told


def test_a_mirror(folder: Path) -> None:
    mirror = folder / "mirror"
    mirror.mkdir(mode=0o700)
    home = new_home(folder, custody_mirrors=str(mirror))
    with home.opened() as house:
        kept = house.remember("a stone")
        erase(house.engine, house.admin, house.remember("a kettle"))
    for path in home.settings.custody_store.glob("custody.db*"):
        path.write_bytes(b"lost")
    shown = run(home, block("mirror", "install"), MIRROR=mirror)
    assert re.search(r"mirror .* current", shown)
    with home.opened() as house:
        assert oracle.settled(house, home.settings).keys() == {kept}


# Postgres: one cluster for the database, another for custody


@pytest.fixture
def clusters() -> Iterator[tuple[Server, Server]]:
    with running() as main, running() as other:
        yield main, other


@pytest.mark.parametrize("way", ["base backup", "dump"])
def test_postgres(clusters: tuple[Server, Server], folder: Path, way: str) -> None:
    """Base backup or dump, then the catch-up: what was erased since stays gone, the rest opens."""
    main, other = clusters
    urls = {"database_url": main.database("shomei"), "custody_url": other.database("custody")}
    home = new_home(folder, **urls)
    with home.opened() as house:
        kept = house.remember("a stone", "bob")
        erased = house.remember("a kettle", "alice")
        if way == "base backup":
            main.shell(block("postgres", "pg_basebackup"))
        else:
            main.shell(block("postgres dump", "pg_dump"))
        erase(house.engine, house.admin, erased)
        later = house.remember("a stick, later")
    before = oracle.read(home.settings)
    if way == "base backup":
        main.shell(block("postgres", "pg_ctl"))
    else:
        main.shell(block("postgres dump-restore", "pg_restore"))
    assert oracle.read(home.settings).memories != before.memories
    said = run(home, block("catch-up", "shomei restore"))
    assert "erased_again: 1" in said
    assert "receipt_logs_restarted: 1" in said
    with home.opened() as house:
        texts = oracle.settled(house, home.settings)
        assert texts == {kept: "a stone"}
    records = oracle.read(home.settings)
    assert [(one["tombstone_id"], one["erased_at"]) for one in records.tombstones] == [
        (one["tombstone_id"], one["erased_at"]) for one in before.tombstones
    ]
    assert later not in texts
