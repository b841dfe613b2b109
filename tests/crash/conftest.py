"""What the crash tests share: one warmed interpreter and two installations to copy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shomei_service.engine.model import NewMemory
from tests.crash.runs import Server, Stored, stored

BULK = 1200  # rows of one subject: three completing transactions


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The interpreter that every run is forked from."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Five rows: one of alice, two of bob, two of nobody."""
    news = [NewMemory("a kettle of alice", "alice"), NewMemory("a lamp of bob", "bob")]
    news += [NewMemory("a ladder of bob", "bob"), NewMemory("a stone"), NewMemory("a stick")]
    return stored(tmp_path_factory.mktemp("small"), news)


@pytest.fixture(scope="session")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Three rows of alice, one of bob."""
    texts = ["a kettle of alice", "a chair of alice", "a picture of alice"]
    news = [*(NewMemory(text, "alice") for text in texts), NewMemory("a lamp of bob", "bob")]
    return stored(tmp_path_factory.mktemp("governed"), news)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """One subject with more rows than two chunks take, and one row of somebody else."""
    news = [NewMemory(f"fact {number} of bulk", "bulk") for number in range(BULK)]
    return stored(tmp_path_factory.mktemp("large"), [*news, NewMemory("a stone", "bob")])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for one copy."""
    return tmp_path
