"""An installation for each test of the engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import Home, House, new_home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An installation that no one has opened yet."""
    return new_home(tmp_path)


@pytest.fixture
def house(home: Home) -> Iterator[House]:
    """An installation, open."""
    with home.opened() as house:
        yield house
