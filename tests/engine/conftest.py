"""An installation for each test of the engine, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.engine.custody.postgres import Server, running
from tests.fakes import Home, House, new_home

_databases = count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Server]:
    """A PostgreSQL server of this session's own."""
    with running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """An installation that no one has opened yet."""
    if request.param == "sqlite":
        return new_home(tmp_path)
    cluster: Server = request.getfixturevalue("cluster")
    return new_home(tmp_path, database_url=cluster.database(f"engine_{next(_databases)}"))


@pytest.fixture
def house(home: Home) -> Iterator[House]:
    """An installation, open."""
    with home.opened() as house:
        yield house
