"""An installation for each law, and one to copy for the laws that need many."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import Home, House, new_home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An installation that nobody has open."""
    return new_home(tmp_path)


@pytest.fixture
def house(home: Home) -> Iterator[House]:
    """An installation, open."""
    with home.opened() as house:
        yield house
