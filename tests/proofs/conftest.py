"""An installation for each proof, on SQLite and on PostgreSQL. CUSTODY.md §7."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.crash.places import quick_folder
from tests.engine.custody.postgres import Server, running
from tests.fakes import Home, new_home

_numbers = count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Server]:
    """A PostgreSQL server of this session's own."""
    with running() as server:
        yield server


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for one test."""
    with quick_folder() as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, folder: Path) -> Home:
    """An installation that no one has opened yet."""
    if request.param == "sqlite":
        return new_home(folder)
    cluster: Server = request.getfixturevalue("cluster")
    return new_home(folder, database_url=cluster.database(f"proof_{next(_numbers)}"))
