"""No sequence of calls, restarts, outages and waits makes the engine differ from the model. RELIABILITY T-21.

Three tenants share an installation; five subjects' names occur in each. Every step asks engine and model the
same and compares answer and receipts; after it, everything at rest and what recall shows.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shomei_service.engine import model
from shomei_service.engine.model import (
    Basis,
    ConsentAction,
    DisclosureGround,
    Ground,
    LawfulBasis,
    PostForget,
    Withdrawal,
)
from shomei_service.engine.upkeep import upkeep
from tests.engine.verbs.side_by_side import PURPOSES, SUBJECTS, Beside, Running, in_memory
from tests.model import DAY, Life, Outcome, Owed, Rules, World, in_order

UNKNOWN = "lm_" + "f" * 32
RESULT = Path(__file__).with_name("deep-result.json")
FAST, DEEP = (200, 15), (2_000, 30)  # examples, and steps in each
EXAMPLES_EACH = 40  # that share an installation

SETTABLE = [
    Ground.REQUEST,
    Ground.LEGAL_CLAIMS,
    Ground.UNLAWFUL_OPPOSES_ERASURE,
    Ground.SECURITY_QUARANTINE,
]
seeds = st.integers(min_value=0, max_value=1_000)
tenants = st.sampled_from([0, 0, 0, 0, 1, 2])  # mostly one, so that its history grows long
subjects = st.sampled_from(SUBJECTS)
seldom = st.sampled_from([False, False, False, True])
spans = st.sampled_from([60, 10 * DAY, 40 * DAY])


@dataclass(frozen=True, slots=True)
class Kept:
    """What a backup knows of a tenant: the ids of all that was made and asked."""

    made: frozenset[str]
    requests: frozenset[str]

    @classmethod
    def of(cls, world: World) -> "Kept":
        """Return what is there now."""
        return cls(frozenset(world.memories) | frozenset(world.artifacts), frozenset(world.requests))

    def has_grown(self, world: World) -> bool:
        """Say whether something was made since."""
        return not (world.memories.keys() | world.artifacts.keys()) <= self.made


class Shared:
    """One installation for many examples, each with tenants of its own: opening takes longest.

    After a failure it is not used again, so that no example hears of another one.
    """

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._left = 0
        self.running: Running

    def take(self) -> Running:
        """Return an open installation."""
        if not self._left:
            self.close()
            self.running = self._opened.enter_context(in_memory())
            self._left = EXAMPLES_EACH
        self._left -= 1
        return self.running

    def close(self) -> None:
        """Close it; the next one is new."""
        self._left = 0
        self._opened.close()


class Verbs(RuleBasedStateMachine):
    """Any verb on any tenant, in any order, with everything that happens by itself in between."""

    shared = Shared()

    def __init__(self) -> None:
        super().__init__()
        self.running = self.shared.take()
        self.is_sound = True
        self.tenants: list[Beside] = []
        self.backed_up: list[Kept] = []

    @initialize(
        rules=st.lists(
            st.builds(
                Rules,
                post_forget=st.sampled_from(PostForget),
                withdrawal=st.sampled_from(Withdrawal),
                withdrawal_days=st.sampled_from([0, 30]),
                consent_required=st.booleans(),
                notice_before_lift=st.booleans(),
                erase_when_expired=st.booleans(),
            ),
            min_size=3,
            max_size=3,
        )
    )
    def begin(self, rules: list[Rules]) -> None:
        """Something to act on, whatever comes next: most of it in the first tenant."""
        with self.soundly():
            self.tenants = [Beside(self.running, one) for one in rules]
            for tenant in self.tenants:
                tenant.add("alice", basis=LawfulBasis.CONTRACT)
            busy = self.tenants[0]
            busy.consent("bob", "support", ConsentAction.GRANTED)
            busy.add("bob", basis=LawfulBasis.CONSENT, purposes=("support",))
            (first, *_) = busy.world.memories
            busy.add("carol", sources=(first,))
            busy.place(memory_id=first, expires_at=self.running.clock.at + 10 * DAY)

    @contextmanager
    def soundly(self) -> Iterator[None]:
        """Remember that something failed: then nothing here is worth comparing any more."""
        self.is_sound = False
        yield
        self.is_sound = True

    # ---- Choosing

    def memory(self, tenant: int, seed: int) -> str:
        """Return a memory: mostly one of the tenant's, newer ones first; now and then another tenant's."""
        worlds = [self.tenants[(tenant + offset) % 3].world for offset in range(3)]
        known = [*reversed(worlds[0].memories)]
        strangers = [*worlds[1].memories, UNKNOWN]
        alive = [one for one in known if worlds[0].memories[one].life in {Life.LIVE, Life.ERASING}]
        pool = [*alive, *alive, *alive, *known, strangers[seed % len(strangers)]]
        return pool[seed % len(pool)]

    def check(self, tenant: int, memory_id: str | None = None) -> None:
        """Compare what is at rest and what recall shows, for the tenant; the others must not have moved."""
        with self.soundly():
            self.tenants[tenant].compare()
            self.tenants[tenant].compare_recall()
            if memory_id is not None:
                self.tenants[tenant].compare_one(memory_id)
            for other in self.tenants:
                assert other.new_receipts() == []

    def act(self, tenant: int, call: Callable[[Beside], Outcome], *, is_down: bool = False) -> None:
        """Do one thing, perhaps while no key can be destroyed, and compare."""
        chosen = self.tenants[tenant]
        with self.soundly(), chosen.custody_down() if is_down else nullcontext():
            call(chosen)
        self.check(tenant)

    # ---- Verbs

    @rule(tenant=tenants, subject=subjects)
    def export(self, tenant: int, subject: str) -> None:
        self.act(tenant, lambda one: one.export(subject))

    @rule(
        tenant=tenants,
        subject=st.none() | subjects,
        basis=st.sampled_from([LawfulBasis.CONSENT, LawfulBasis.CONTRACT, LawfulBasis.NOT_RECORDED]),
        purposes=st.sets(st.sampled_from(PURPOSES)),
        lasts=st.none() | spans,
    )
    def add(
        self,
        tenant: int,
        subject: str | None,
        basis: LawfulBasis,
        purposes: set[str],
        lasts: int | None,
    ) -> None:
        if basis is LawfulBasis.CONSENT and (subject is None or not purposes):
            basis = LawfulBasis.CONTRACT
        expires_at = None if lasts is None else self.running.clock.at + lasts
        self.act(
            tenant,
            lambda one: one.add(
                subject, basis=basis, purposes=tuple(sorted(purposes)), expires_at=expires_at
            ),
        )

    @rule(tenant=tenants, subject=st.none() | subjects, seeds=st.lists(seeds, min_size=1, max_size=3))
    def derive(self, tenant: int, subject: str | None, seeds: list[int]) -> None:
        sources = tuple(dict.fromkeys(self.memory(tenant, seed) for seed in seeds))
        self.act(tenant, lambda one: one.add(subject, sources=sources))

    @rule(tenant=tenants, seed=seeds, is_down=seldom)
    def update(self, tenant: int, seed: int, is_down: bool) -> None:
        self.act(tenant, lambda one: one.update(self.memory(tenant, seed)), is_down=is_down)

    @rule(
        tenant=tenants,
        seed=seeds,
        basis=st.sampled_from([Basis.UNSPECIFIED, Basis.SUBJECT_REQUEST]),
        cascade=st.booleans(),
        is_down=seldom,
    )
    def erase(self, tenant: int, seed: int, basis: Basis, cascade: bool, is_down: bool) -> None:
        memory_id = self.memory(tenant, seed)
        self.act(tenant, lambda one: one.erase(memory_id, basis, cascade=cascade), is_down=is_down)
        self.check(tenant, memory_id)

    @rule(tenant=tenants, subject=subjects, is_down=seldom)
    def forget(self, tenant: int, subject: str, is_down: bool) -> None:
        self.act(tenant, lambda one: one.forget(subject), is_down=is_down)

    @rule(tenant=tenants, seed=seeds, ground=st.sampled_from([*SETTABLE, Ground.DEFERRED_HOLD]))
    def restrict(self, tenant: int, seed: int, ground: Ground) -> None:
        memory_id = self.memory(tenant, seed)
        self.act(tenant, lambda one: one.restrict(memory_id, ground))
        self.check(tenant, memory_id)

    @rule(tenant=tenants, seed=seeds, notice=st.booleans(), is_down=seldom)
    def lift(self, tenant: int, seed: int, notice: bool, is_down: bool) -> None:
        memory_id = self.memory(tenant, seed)
        self.act(tenant, lambda one: one.lift(memory_id, notice=notice), is_down=is_down)

    @rule(tenant=tenants, seed=seeds, lasts=st.none() | spans)
    def hold_memory(self, tenant: int, seed: int, lasts: int | None) -> None:
        until = None if lasts is None else self.running.clock.at + lasts
        memory_id = self.memory(tenant, seed)
        self.act(tenant, lambda one: one.place(memory_id=memory_id, expires_at=until))

    @rule(tenant=tenants, subject=subjects, lasts=st.none() | spans)
    def hold_subject(self, tenant: int, subject: str, lasts: int | None) -> None:
        until = None if lasts is None else self.running.clock.at + lasts
        self.act(tenant, lambda one: one.place(subject=subject, expires_at=until))

    @rule(tenant=tenants, seed=seeds, confirm=st.booleans(), is_down=seldom)
    def release(self, tenant: int, seed: int, confirm: bool, is_down: bool) -> None:
        known = self.tenants[tenant].world.holds
        holds = [one for one in known if known[one].is_open] or [*known, "hold_" + "0" * 32]
        hold_id = holds[seed % len(holds)]
        self.act(tenant, lambda one: one.release(hold_id, confirm=confirm), is_down=is_down)

    @rule(
        tenant=tenants,
        subject=subjects,
        purpose=st.sampled_from(PURPOSES),
        action=st.sampled_from(ConsentAction),
        is_down=seldom,
    )
    def consent(self, tenant: int, subject: str, purpose: str, action: ConsentAction, is_down: bool) -> None:
        self.act(tenant, lambda one: one.consent(subject, purpose, action), is_down=is_down)

    @rule(tenant=tenants, seeds=st.lists(seeds, min_size=1, max_size=2), from_artifact=st.booleans())
    def register(self, tenant: int, seeds: list[int], from_artifact: bool) -> None:
        artifacts = [*self.tenants[tenant].world.artifacts][-1:] if from_artifact else []
        sources = dict.fromkeys([*artifacts, *(self.memory(tenant, seed) for seed in seeds)])
        self.act(tenant, lambda one: one.register(tuple(sources)))

    @precondition(lambda self: any(one.world.artifacts for one in self.tenants))
    @rule(tenant=tenants, seed=seeds)
    def acknowledge(self, tenant: int, seed: int) -> None:
        artifacts = [*self.tenants[tenant].world.artifacts] or ["artifact:" + "0" * 32]
        self.act(tenant, lambda one: one.acknowledge(artifacts[seed % len(artifacts)]))

    @rule(tenant=tenants, seed=seeds, ground=st.sampled_from(DisclosureGround))
    def disclose(self, tenant: int, seed: int, ground: DisclosureGround) -> None:
        memory_id = self.memory(tenant, seed)
        self.act(tenant, lambda one: one.disclose(memory_id, ground))

    @precondition(lambda self: any(one.world.owed for one in self.tenants))
    @rule(tenant=tenants, seed=seeds)
    def cancel(self, tenant: int, seed: int) -> None:
        world = self.tenants[tenant].world
        owed: list[Owed] = [*world.open(), *world.open(), *world.owed]
        if owed:
            self.act(tenant, lambda one: one.cancel(owed[seed % len(owed)]))

    @rule(tenant=tenants, subject=subjects)
    def search(self, tenant: int, subject: str) -> None:
        self.tenants[tenant].compare_recall(subject)

    # ---- What nobody asks for

    @rule(
        spans=st.lists(spans, max_size=2),
        then=st.sampled_from(["nothing", "upkeep", "upkeep", "restart", "put back", "put back", "put back"]),
    )
    def time_passes(self, spans: list[int], then: str) -> None:
        """The clock moves on; perhaps upkeep comes by, or the service ends and begins again."""
        for span in spans:
            self.tenants[0].wait(span)
        for tenant in self.tenants:
            tenant.wait(0)
        with self.soundly():
            match then:
                case "restart":
                    self.running.close()
                    self.running.open()
                    self.all_came_to(World.restart)
                case "upkeep":
                    upkeep(self.running.engine)
                    self.all_came_to(World.tick)
                case "put back" if self.is_all_in_the_backup():
                    self.put_back()
                case "put back":
                    self.running.back_up()
                    self.backed_up = [Kept.of(one.world) for one in self.tenants]
                case _:
                    pass
        self.check(0)

    def is_all_in_the_backup(self) -> bool:
        """Say whether there is a backup and nothing was made since: a restored database would not know it."""
        return bool(self.backed_up) and not any(
            before.has_grown(one.world) for before, one in zip(self.backed_up, self.tenants, strict=True)
        )

    def put_back(self) -> None:
        """Put the database back: custody's journal brings everything up to now."""
        upkeep(self.running.engine)
        self.all_came_to(World.tick)
        self.running.put_back()
        for tenant, before in zip(self.tenants, self.backed_up, strict=True):
            tenant.new_receipts()
            for request in tenant.world.requests.values():  # the log of before is not there to refer to
                request.is_closed = request.request_id in before.requests
        for index in range(3):
            self.check(index)

    def all_came_to(self, rule: Callable[[World], Outcome]) -> None:
        """Something happened to every tenant at once; each one's log says what."""
        for tenant in self.tenants:
            wanted = rule(tenant.world)
            assert in_order(tenant.new_receipts()) == wanted.receipts
        for index in range(3):
            self.check(index)

    def teardown(self) -> None:
        if not self.is_sound:
            self.shared.close()
            return
        COUNTED["examples"] += 1
        with self.soundly():
            for tenant in self.tenants:
                for memory_id in tenant.world.memories:
                    tenant.compare_one(memory_id)
            upkeep(self.running.engine)  # nothing is left under way for those who come next
            self.all_came_to(World.tick)


COUNTED = {"examples": 0}


@pytest.fixture
def ids_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due in one second is done in the order of ids; made in order, they say what came first."""
    numbers = count(1)
    ordered = SimpleNamespace(token_hex=lambda size: f"{next(numbers):0{2 * size}x}")
    monkeypatch.setattr(model, "secrets", ordered)


@pytest.mark.usefixtures("ids_in_order")
def test_verbs(request: pytest.FixtureRequest) -> None:
    """Fast by default; `pytest tests/laws --deep` goes ten times as far and writes down what it came to."""
    is_deep = bool(request.config.getoption("--deep", default=False))
    examples, steps = DEEP if is_deep else FAST
    began, COUNTED["examples"] = time.monotonic(), 0
    passed = False
    try:
        run_state_machine_as_test(Verbs, settings=_settings(examples, steps))
        passed = True
    finally:
        Verbs.shared.close()
        if is_deep:
            _write_down(examples, steps, time.monotonic() - began, passed=passed)


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def _write_down(examples: int, steps: int, seconds: float, *, passed: bool) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    result = {
        "test": "tests/laws/test_verbs_machine.py",
        "commit": head.stdout.strip(),
        "passed": passed,
        "examples": examples,
        "examples_run": COUNTED["examples"],
        "steps_each": steps,
        "seconds": round(seconds),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
