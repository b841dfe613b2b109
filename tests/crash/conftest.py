"""What the crash tests share: one warmed interpreter and two installations to copy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shomei_service.engine.model import NewMemory
from tests.crash.places import quick_folder
from tests.crash.runs import Server, Stored, stored

BULK = 1200  # rows of one subject: three completing transactions


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The interpreter that every run is forked from."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """Where the installations lie that are copied."""
    with quick_folder() as folder:
        yield folder


def below(place: Path, name: str) -> Path:
    folder = place / name
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def small(place: Path) -> Stored:
    """Five rows: one of alice, two of bob, two of nobody."""
    news = [NewMemory("a kettle of alice", "alice"), NewMemory("a lamp of bob", "bob")]
    news += [NewMemory("a ladder of bob", "bob"), NewMemory("a stone"), NewMemory("a stick")]
    return stored(below(place, "small"), news)


@pytest.fixture(scope="session")
def governed(place: Path) -> Stored:
    """Three rows of alice, one of bob."""
    texts = ["a kettle of alice", "a chair of alice", "a picture of alice"]
    news = [*(NewMemory(text, "alice") for text in texts), NewMemory("a lamp of bob", "bob")]
    return stored(below(place, "governed"), news)


@pytest.fixture(scope="session")
def large(place: Path) -> Stored:
    """One subject with more rows than two chunks take, and one row of somebody else."""
    news = [NewMemory(f"fact {number} of bulk", "bulk") for number in range(BULK)]
    return stored(below(place, "large"), [*news, NewMemory("a stone", "bob")])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for one test."""
    with quick_folder() as folder:
        yield folder
