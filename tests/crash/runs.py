"""Run scenarios in processes that may be killed, and hold what is left against what they had said."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shomei_service.engine.model import NewMemory, Policies
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.add import add_batch
from tests import oracle
from tests.crash.scenario import Order, Step
from tests.engine.custody.postgres import Server as PostgreSQL
from tests.fakes import Home, House, new_home

Texts = dict[str, str]

KILLED = -signal.SIGKILL
ROOT = Path(__file__).parents[2]
_NUMBERS = count(1)


class Server:
    """One warmed interpreter that forks a child for each run."""

    def __init__(self, *, logs: bool = False, **environment: str) -> None:
        self._logs = logs
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.scenario"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'packages'}", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, home: Home, steps: Iterable[Step], failpoints: str = "", trace: Sequence[str] = ()
    ) -> "Run":
        """Run the steps in a child, under strace if there are arguments for it; return how it ended."""
        folder = home.settings.home.parent
        order = Order(
            home=str(home.settings.home),
            token=home.admin_token,
            failpoints=failpoints,
            steps=list(steps),
            said=str(folder / "said"),
            errors=str(folder / "stderr"),
            logs=self._logs,
            database_url=home.settings.database_url,
            custody_url=home.settings.custody_url,
            trace=list(trace),
        )
        Path(order.said).write_bytes(b"")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        said = [json.loads(line) for line in Path(order.said).read_text().splitlines()]
        return Run(code, said, Path(order.errors).read_text())

    def stop(self) -> None:
        """End the server."""
        self._process.communicate()


@dataclass(frozen=True, slots=True)
class Run:
    """How a child ended and what it said before."""

    code: int
    said: list[dict[str, Any]]
    errors: str

    @property
    def hits(self) -> dict[str, int]:
        """Which failpoints were passed, of a run that came to its end."""
        return self.said[-1]["hits"]

    def answers(self) -> list[tuple[Step, dict[str, Any] | None]]:
        """Return each step with its answer; the last one's is None if it was never acknowledged."""
        steps: list[tuple[Step, dict[str, Any] | None]] = []
        for line in self.said:
            if "asked" in line:
                steps.append(([line["asked"], *line["words"]], None))
            elif "did" in line:
                steps[-1] = (steps[-1][0], line)
        return steps


@dataclass(frozen=True, slots=True)
class Stored:
    """An installation that nobody has open, the texts and subjects in it, and the server it is on, if any."""

    home: Home
    rows: dict[str, tuple[str, str | None]]
    server: PostgreSQL | None = None

    def copied(self, folder: Path) -> Home:
        """Return a copy of the whole installation in another folder."""
        return self.again(self.home, folder)

    def again(self, home: Home, folder: Path) -> Home:
        """Return a copy of an installation that was copied from this one, and what it holds now."""
        copy = copied(home, folder)
        if self.server is None:
            return copy
        new = {
            name: self.server.copied(getattr(home.settings, name), to)
            for name, to in _databases().items()
            if getattr(home.settings, name) is not None
        }
        return replace(copy, settings=copy.settings.model_copy(update=new))


def named(stored: Stored, text: str) -> str:
    """Return the id of the row with this text."""
    (memory_id,) = [one for one, row in stored.rows.items() if row[0] == text]
    return memory_id


def copied(home: Home, folder: Path) -> Home:
    """Copy the whole installation into another folder."""
    shutil.copytree(home.settings.home, folder / "home")
    return replace(home, settings=home.settings.model_copy(update={"home": folder / "home"}))


def snapshot(home: Home) -> dict[str, bytes]:
    """Return every file of an installation, but SQLite's shared memory, which is no data."""
    root = home.settings.home
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def recovering(request: pytest.FixtureRequest, stored: Stored, passed: Iterable[str]) -> list[str]:
    """Return at which points of an opening it is to die; on a server, by default, only at some of them."""
    points = sorted(passed)
    is_all = stored.server is None or request.config.getoption("--deep")
    return points if is_all else points[:: max(1, len(points) // 3)]


def lapse(home: Home) -> None:
    """Let the time pass after which another process takes over what a dead one had begun."""
    if home.settings.database_url is not None:
        with psycopg.connect(home.settings.database_url.replace("+psycopg", "")) as connection:
            connection.execute("UPDATE leases SET until = 0")


def _databases() -> dict[str, str]:
    """Return names that no database on a server has yet."""
    number = next(_NUMBERS)
    return {"database_url": f"main_{number}", "custody_url": f"custody_{number}"}


def stored(
    folder: Path,
    news: list[NewMemory],
    server: PostgreSQL | None = None,
    policies: Policies | None = None,
    *,
    is_custody_beside: bool = False,
) -> Stored:
    """Make an installation that holds these memories, on a server if one is given.

    Its custody store is there as well, unless it is to be a file beside it.
    """
    urls: dict[str, str] = {}
    if server is not None:
        urls = {name: server.database(to) for name, to in _databases().items()}
    if is_custody_beside:
        del urls["custody_url"]
    home = new_home(folder, **urls)
    rows: dict[str, tuple[str, str | None]] = {}
    with home.opened() as house:
        if policies is not None:
            access.set_policies(house.engine, home.tenant, policies)
        for start in range(0, len(news), 1000):
            chunk = news[start : start + 1000]
            for added, new in zip(add_batch(house.engine, house.data, chunk), chunk, strict=True):
                rows[added.memory_id] = (new.text, new.user_id)
    return Stored(home, rows, server)


@dataclass(slots=True)
class Expected:
    """What must be found: a small model of the verbs, which knows only what was said."""

    rows: dict[str, tuple[str, str | None]]
    texts: Texts
    held: set[str] = field(default_factory=set)
    owed: set[str] = field(default_factory=set)  # once nothing forbids it
    put_off: set[str] = field(default_factory=set)  # those of them that a forget took out of recall
    erased: set[str] = field(default_factory=set)
    restricted: set[str] = field(default_factory=set)
    consents: dict[str, str] = field(default_factory=dict[str, str])
    rule: str = "suppress"

    def step(self, step: Step, answer: dict[str, Any] | None) -> None:
        """Do one step that was acknowledged, or that had to be finished without being acknowledged."""
        verb, *words = step
        if verb not in {"search", "export"}:
            getattr(self, "_" + verb)(answer, *words)

    def _add(self, answer: dict[str, Any] | None, text: str, user: str) -> None:
        self._make(text, user, answer)

    def _update(self, answer: dict[str, Any] | None, memory_id: str, text: str) -> None:
        user = self.rows[memory_id][1]
        self._gone({memory_id})
        self._make(text, user, answer)

    def _erase(self, _: object, memory_id: str) -> None:
        self._gone({memory_id})

    def _hold(self, _: object, memory_id: str) -> None:
        self.held.add(memory_id)

    def _release(self, _: object, memory_id: str) -> None:
        self.held.remove(memory_id)
        self._gone({memory_id} & self.owed)

    def _restrict(self, _: object, memory_id: str) -> None:
        self.restricted.add(memory_id)

    def _lift(self, _: object, memory_id: str) -> None:
        self.restricted.remove(memory_id)
        self._gone(({memory_id} & self.owed) - self.held)

    def _forget(self, answer: dict[str, Any] | None, subject: str) -> None:
        theirs = {one for one, (_, user) in self.rows.items() if user == subject}
        self.owed |= theirs & self.held
        self.put_off |= theirs & self.held
        self._gone(theirs - self.held)
        assert answer is None or set(answer["ids"]) == theirs - self.held

    def _cancel(self, _: object, memory_id: str) -> None:
        self.owed.remove(memory_id)
        self.put_off.discard(memory_id)

    def _policy(self, _: object, rule: str) -> None:
        self.rule = rule

    def _consent(self, _: object, subject: str, action: str) -> None:
        """Everything of whoever is asked for consent rests on it, in these scenarios."""
        self.consents[subject] = action
        theirs = {one for one, (_, user) in self.rows.items() if user == subject}
        if action == "granted":
            self.owed -= theirs
        elif self.rule == "erase_now":
            self.owed |= theirs & (self.held | self.restricted)
            self._gone(theirs - self.held - self.restricted)

    @property
    def is_to_be_reviewed(self) -> bool:
        """Whether a withdrawal left something to be done in its time."""
        return self.rule != "erase_now" and "withdrawn" in self.consents.values()

    def _gone(self, ids: set[str]) -> None:
        self.rows = {one: row for one, row in self.rows.items() if one not in ids}
        self.erased |= ids
        self.owed -= ids
        self.put_off -= ids
        self.restricted -= ids

    def _make(self, text: str, user: str | None, answer: dict[str, Any] | None) -> None:
        """Know the new row by the id that was said, or else by its text."""
        unknown = [one for one in self.texts if one not in self.rows and self.texts[one] == text]
        ids = [answer["id"]] if answer else unknown
        assert len(ids) == 1
        self.rows[ids[0]] = (text, user)


def after(house: House, home: Home, stored: Stored, run: Run, *, carried_out: bool | None) -> bool:
    """Assert every invariant, and that what is left is what was acknowledged, and nothing by halves.

    `carried_out` says whether the one step that was not acknowledged must be found done, or not begun, or
    either; return which it is.
    """
    texts = oracle.settled(house, home.settings)
    records = oracle.read(home.settings)
    failure: AssertionError | None = None
    for done in [False, True] if carried_out is None else [carried_out]:
        try:
            _as_said(records, Expected(dict(stored.rows), texts), run, done=done)
        except AssertionError as difference:
            failure = difference
        else:
            return done
    assert failure is not None
    raise failure


def _as_said(records: oracle.Records, expected: Expected, run: Run, *, done: bool) -> None:
    said: set[str] = set()
    for step, answer in run.answers():
        if answer is not None or done:
            expected.step(step, answer)
        if answer is not None:
            said |= {answer[name] for name in ("receipt", "closure") if name in answer}
    assert expected.texts == {one: text for one, (text, _) in expected.rows.items()}
    assert expected.erased == {stone["memory_id"] for stone in records.tombstones}
    assert {hold["memory_id"] for hold in records.holds} == expected.held
    promised = [one["memory_id"] for one in records.promised if one["memory_id"] is not None]
    assert sorted(promised) == sorted(expected.owed), "each once"
    assert len(records.promised) - len(promised) == expected.is_to_be_reviewed
    assert records.restricted == expected.restricted | expected.put_off
    assert sorted(records.consents.values()) == sorted(expected.consents.values())
    assert said <= {row["receipt_hash"] for row in records.receipts}
