"""What the crash tests share: one warmed interpreter and two installations to copy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shomei_service.engine.model import LawfulBasis, NewMemory, Policies
from tests.crash.places import quick_folder
from tests.crash.runs import Server, Stored, stored
from tests.crash.scenario import PURPOSE
from tests.engine.custody.postgres import Server as PostgreSQL
from tests.engine.custody.postgres import running

BULK = 1700  # rows of one subject: three completing transactions
SMALL = [
    NewMemory("a kettle of alice", "alice"),
    NewMemory("a lamp of bob", "bob"),
    NewMemory("a ladder of bob", "bob"),
    NewMemory("a stone"),
    NewMemory("a stick"),
]
GOVERNED = [
    *(NewMemory(f"a {thing} of alice", "alice") for thing in ("kettle", "chair", "picture")),
    NewMemory("a lamp of bob", "bob"),
]
_AGREED = {"lawful_basis": LawfulBasis.CONSENT, "purposes": (PURPOSE,)}
RULED = [
    *GOVERNED,
    *(NewMemory(f"a {thing} of dora", "dora", **_AGREED) for thing in ("letter", "ring", "scarf")),
]
RULES = Policies(purposes=frozenset({PURPOSE}))


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
    return stored(below(place, "small"), SMALL)


@pytest.fixture(scope="session")
def governed(place: Path) -> Stored:
    """Three rows of alice, one of bob."""
    return stored(below(place, "governed"), GOVERNED)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSQL]:
    """A PostgreSQL server of our own."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def small_postgres(place: Path, postgres: PostgreSQL) -> Stored:
    """What `small` is, on a server."""
    return stored(below(place, "small_postgres"), SMALL, postgres)


@pytest.fixture(scope="session")
def small_beside(place: Path, postgres: PostgreSQL) -> Stored:
    """What `small` is, its database on a server and its custody store in a file."""
    return stored(below(place, "small_beside"), SMALL, postgres, is_custody_beside=True)


@pytest.fixture(scope="session")
def governed_postgres(place: Path, postgres: PostgreSQL) -> Stored:
    """What `governed` is, on a server."""
    return stored(below(place, "governed_postgres"), GOVERNED, postgres)


@pytest.fixture(scope="session")
def ruled(place: Path) -> Stored:
    """What `governed` is, and three rows of dora that rest on her consent."""
    return stored(below(place, "ruled"), RULED, policies=RULES)


@pytest.fixture(scope="session")
def ruled_postgres(place: Path, postgres: PostgreSQL) -> Stored:
    """What `ruled` is, on a server."""
    return stored(below(place, "ruled_postgres"), RULED, postgres, RULES)


@pytest.fixture(params=["sqlite", "postgres"])
def either_ruled(request: pytest.FixtureRequest) -> Stored:
    """What `ruled` is, on each database."""
    return request.getfixturevalue("ruled" if request.param == "sqlite" else "ruled_postgres")


@pytest.fixture(params=["sqlite", "postgres"])
def either_small(request: pytest.FixtureRequest) -> Stored:
    """What `small` is, on each database."""
    return request.getfixturevalue("small" if request.param == "sqlite" else "small_postgres")


@pytest.fixture(params=["sqlite", "postgres"])
def either_governed(request: pytest.FixtureRequest) -> Stored:
    """What `governed` is, on each database."""
    return request.getfixturevalue("governed" if request.param == "sqlite" else "governed_postgres")


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
