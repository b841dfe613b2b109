"""Die wherever a verb of governance, a consent or an export can; what was begun is whole or is not. T-01."""

import re
from itertools import count
from pathlib import Path

import pytest

from shomei_service.engine.failpoints import POINTS
from shomei_service.engine.model import Withdrawal
from tests.crash.conftest import below
from tests.crash.deep import is_deep
from tests.crash.runs import KILLED, ROOT, Server, Stored, after, lapse, named
from tests.crash.scenario import Step

# In the order of a verb: before the line is known to the database, before an erasure begins, around a commit.
OWN = ("journal.after", "obl.firing", "export.before_commit", "export.after_commit")
EVERY_ON_A_SERVER = 5  # of so many deaths one, by default


def steps(stored: Stored) -> list[Step]:
    """Every verb that tells custody's journal what it does, and an export."""
    picture, lamp = named(stored, "a picture of alice"), named(stored, "a lamp of bob")
    kettle, chair = named(stored, "a kettle of alice"), named(stored, "a chair of alice")
    return [
        ["restrict", lamp],
        ["lift", lamp],
        ["hold", kettle],
        ["hold", chair],
        ["restrict", picture],
        ["forget", "alice"],
        ["cancel", kettle],
        ["export", "alice"],
        ["release", chair],
        ["release", kettle],
    ]


def consented(stored: Stored, rule: str) -> list[Step]:
    """Consent given and taken back twice, beside a hold and a restriction."""
    ring, scarf = named(stored, "a ring of dora"), named(stored, "a scarf of dora")
    granted, withdrawn = ["consent", "dora", "granted"], ["consent", "dora", "withdrawn"]
    until = [["hold", ring], ["restrict", scarf], granted, withdrawn, granted, withdrawn]
    return [["policy", rule], *until, ["lift", scarf], ["release", ring]]


def deaths(server: Server, stored: Stored, folder: Path, wanted: list[Step], point: str, step: int) -> int:
    """Die each time a point is passed, or each so many times; return how many deaths that were."""
    for number, nth in enumerate(count(1, step)):
        place = folder / f"{point}_{nth}"
        place.mkdir()
        home = stored.copied(place)
        run = server.run(home, wanted, f"{point}:kill:{nth}")
        assert run.code in {0, KILLED}, run.errors
        lapse(home)
        with home.opened() as house:
            after(house, home, stored, run, carried_out=None if run.code else True)
        if run.code == 0:
            return number
    raise AssertionError("the steps come to an end")


@pytest.fixture
def step(request: pytest.FixtureRequest, either_ruled: Stored) -> int:
    """Of how many deaths one is tried: all, on a server by default fewer."""
    return 1 if either_ruled.server is None or is_deep(request) else EVERY_ON_A_SERVER


@pytest.mark.parametrize("point", OWN)
def test_a_death_each_time_a_point_is_passed(
    server: Server, either_ruled: Stored, folder: Path, point: str, step: int
) -> None:
    least = 13 // step if point == "journal.after" else 1
    assert deaths(server, either_ruled, folder, steps(either_ruled), point, step) >= least


# By default each rule on one database, and what erases at once on both.
RULES = [
    ("sqlite", Withdrawal.ERASE_AFTER),
    ("sqlite", Withdrawal.ERASE_NOW),
    ("postgres", Withdrawal.ERASE_NOW),
    ("postgres", Withdrawal.SUPPRESS),
]


@pytest.mark.parametrize(("either_ruled", "rule"), RULES, indirect=["either_ruled"])
def test_a_death_in_the_middle_of_a_consent(
    server: Server, either_ruled: Stored, folder: Path, rule: Withdrawal, step: int
) -> None:
    """What a withdrawal leaves to be done, and what a grant takes back, is not lost with the answer."""
    wanted = consented(either_ruled, rule.value)
    assert deaths(server, either_ruled, folder, wanted, "journal.after", step) >= 8 // step


def test_every_failpoint_there_is_is_passed(
    server: Server, ruled: Stored, large: Stored, folder: Path
) -> None:
    """RELIABILITY §2: no name without a place in the code, no place that no run comes by."""
    source = " ".join(path.read_text() for path in (ROOT / "packages" / "shomei_service").rglob("*.py"))
    assert set(re.findall(r'failpoint\("([a-z0-9_.]+)"\)', source)) == POINTS
    every = [["add", "a stick", "erin"], *steps(ruled), ["rotate_signer"]]
    hits = [server.run(ruled.copied(below(folder, "every")), every).hits]
    hits.append(server.run(large.copied(below(folder, "large")), [["forget", "bulk"]]).hits)
    dead = ruled.copied(below(folder, "dead"))
    assert server.run(dead, steps(ruled), "journal.after:kill").code == KILLED
    hits.append(server.run(dead, []).hits)
    assert {point for passed in hits for point in passed} == POINTS
