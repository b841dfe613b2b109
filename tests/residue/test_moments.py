"""Nothing of a memory lies on a disk in clear, at any moment of its life or after it. DEV-16, I-14."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shomei_service.engine.errors import NotFound
from shomei_service.engine.model import NewMemory
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.read import get
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.status import status
from tests import oracle
from tests.crash.places import quick_folder
from tests.crash.runs import KILLED, Run, Server
from tests.fakes import Home, House, new_home
from tests.residue.markers import ADD, ASKED, KIND, METADATA, SEARCH, SUBJECT, TEXT, WORDS
from tests.residue.scan import sightings


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The temporary directory of the processes that are run here."""
    return tmp_path_factory.mktemp("tmpdir")


@pytest.fixture(scope="module")
def server(temporary: Path) -> Iterator[Server]:
    """A warmed interpreter whose children log everything they can, to the file their errors go to."""
    server = Server(logs=True, TMPDIR=str(temporary))
    yield server
    server.stop()


@pytest.fixture
def home() -> Iterator[Home]:
    """A fresh installation."""
    with quick_folder() as folder:
        yield new_home(folder)


def new() -> NewMemory:
    return NewMemory(TEXT, SUBJECT, KIND, json.loads(METADATA))


def recalled(house: House) -> list[str]:
    results = search(house.engine, house.data, ASKED, user_id=SUBJECT, semantic_type=KIND).results
    return [one.memory.memory_id for one in results]


def test_at_every_moment_of_a_running_service(home: Home) -> None:
    folders = [home.settings.home]
    with home.opened() as house:
        memory_id = add(house.engine, house.data, new()).memory_id
        assert sightings(folders, WORDS) == []
        assert recalled(house) == [memory_id]
        assert get(house.engine, house.data, memory_id).content.text == TEXT
        upkeep(house.engine)
        assert sightings(folders, WORDS) == []
        erase(house.engine, house.admin, memory_id)
        # The erase has been answered: from here on no verb knows of it.
        assert recalled(house) == []
        assert status(house.engine, house.data, memory_id).embedding_retired
        with pytest.raises(NotFound):
            get(house.engine, house.data, memory_id)
        with pytest.raises(NotFound):
            erase(house.engine, house.admin, memory_id)
        assert sightings(folders, WORDS) == []
        upkeep(house.engine)
        assert status(house.engine, house.data, memory_id).physically_purged
        assert sightings(folders, WORDS) == []
    assert sightings(folders, WORDS) == []


def run_and_scan(server: Server, home: Home, temporary: Path, steps: list[list[str]], point: str) -> Run:
    """Run the steps into the failpoint; scan the home, the temporary directory and all that was logged."""
    run = server.run(home, steps, f"{point}:kill")
    assert run.code == KILLED, run.errors
    assert "INFO:sqlalchemy.engine.Engine:BEGIN" in run.errors, "it did log"
    said = home.settings.home.parent / "said"
    spoken = said.read_bytes()
    said.unlink()  # the run's own record of what it was asked, which is not the service's
    folders = [home.settings.home.parent, temporary]
    assert sightings(folders, WORDS) == []
    said.write_bytes(spoken)
    assert sightings([home.settings.home.parent], WORDS), "the control: the scan does see the record"
    said.unlink()
    return run


@pytest.mark.parametrize("point", ["add.before_commit", "add.after_commit"])
def test_after_a_kill_during_an_add(server: Server, home: Home, temporary: Path, point: str) -> None:
    run_and_scan(server, home, temporary, [ADD], point)
    with home.opened() as house:
        assert len(recalled(house)) == (point == "add.after_commit")
        assert sightings([home.settings.home], WORDS) == []


@pytest.mark.parametrize("point", ["e1.before", "e1.after", "e4.after", "answer.before"])
def test_after_a_kill_during_an_erase(server: Server, home: Home, temporary: Path, point: str) -> None:
    assert server.run(home, [ADD, SEARCH]).code == 0
    with home.opened() as house:
        (memory_id,) = recalled(house)
    run_and_scan(server, home, temporary, [SEARCH, ["erase", memory_id]], point)
    with home.opened() as house:
        assert recalled(house) == ([memory_id] if point == "e1.before" else [])
        assert status(house.engine, house.data, memory_id).physically_purged is (point != "e1.before")
        oracle.settled(house, home.settings)
        assert sightings([home.settings.home], WORDS) == []


def test_a_copy_of_the_whole_home_says_nothing(server: Server, home: Home, tmp_path: Path) -> None:
    """Every file of every moment, put together, as a careless backup would have them."""
    everything = tmp_path / "everything"
    for number, steps in enumerate(
        ([ADD], [SEARCH], [ADD, SEARCH, ["forget", SUBJECT]], [ADD, ["forget", SUBJECT]])
    ):
        assert server.run(home, steps, "answer.before:kill:2").code == 0
        shutil.copytree(home.settings.home, everything / str(number))
    assert len([path for path in everything.rglob("*") if path.is_file()]) >= 20
    assert sightings([everything], WORDS) == []


def test_nothing_is_written_outside_the_home(server: Server, home: Home, temporary: Path) -> None:
    assert server.run(home, [ADD, SEARCH, ["forget", SUBJECT]]).code == 0
    assert os.listdir(temporary) == []
