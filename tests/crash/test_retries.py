"""Die in a call that carries a key, and make it again: one effect, and the answer it would have had. T-17."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shomei_service.engine.model import Retry
from tests import oracle
from tests.crash.runs import KILLED, Server, Stored, lapse, named
from tests.crash.scenario import VERBS, Step

DEATHS = {
    "add": ["add.before_commit", "add.after_commit"],
    "erase": ["e1.before", "e1.after", "e3.after", "e6.after_commit"],
    "forget": ["e1.after", "e6.after_sign", "answer.before"],
    "restrict": ["journal.after"],
}
CASES = [(verb, point) for verb, points in DEATHS.items() for point in points]
ON_A_SERVER = {("erase", "e3.after"), ("forget", "answer.before")}
WHERE = [("sqlite", *case) for case in CASES] + [("postgres", *case) for case in CASES if case in ON_A_SERVER]


def steps(stored: Stored) -> dict[str, Step]:
    picture = named(stored, "a picture of alice")
    return {
        "add": ["add", "a new lamp", "carol"],
        "erase": ["erase", picture],
        "forget": ["forget", "alice"],
        "restrict": ["restrict", picture],
    }


@pytest.mark.parametrize(("either_governed", "verb", "point"), WHERE, indirect=["either_governed"])
def test_a_call_that_died_is_made_again(
    server: Server, either_governed: Stored, folder: Path, verb: str, point: str
) -> None:
    home = either_governed.copied(folder)
    step = steps(either_governed)[verb]
    run = server.run(home, [["keyed", *step]], f"{point}:kill")
    assert run.code == KILLED, run.errors
    lapse(home)
    answers: list[dict[str, Any]] = []
    for _ in range(2):  # the second time by another process
        with home.opened() as house:
            caller = replace(house.admin, retry=Retry(verb, "a key", repr(step).encode()))
            answers.append(VERBS[verb](house.engine, caller, *step[1:]))
            texts = oracle.settled(house, home.settings)
    assert answers[0] == answers[1]
    gone = {"add": 0, "erase": 1, "forget": 3, "restrict": 0}[verb]
    assert len(texts) == len(either_governed.rows) - gone + (verb == "add")
    assert list(texts.values()).count("a new lamp") == (verb == "add")
    records = oracle.read(home.settings)
    restrictions = [row for row in records.receipts if "restriction" in row["schema"]]
    assert len(restrictions) == (verb == "restrict")
