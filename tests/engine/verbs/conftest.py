"""An installation in memory for each test."""

from collections.abc import Iterator

import pytest

from tests.engine.verbs.side_by_side import Running, in_memory, template
from tests.fakes import Home


@pytest.fixture(scope="session")
def made() -> Iterator[Home]:
    """An installation to copy; it is never opened."""
    with template() as home:
        yield home


@pytest.fixture
def running(made: Home) -> Iterator[Running]:
    """An installation of its own, open."""
    with in_memory(made) as running:
        yield running
