"""No sequence of calls, restarts, outages and waits makes the engine differ from the model. RELIABILITY T-21.

Three tenants share an installation; five subjects' names occur in each. Every step asks engine and model the
same and compares answer and receipts; after it, everything at rest and what recall shows.
"""

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

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
from tests.engine.verbs.side_by_side import PURPOSES, SUBJECTS, Beside, in_memory, template
from tests.fakes import Home
from tests.model import DAY, Life, Outcome, Owed, Rules, World, in_order

UNKNOWN = "lm_" + "f" * 32
RESULT = Path(__file__).with_name("deep-result.json")
FAST, DEEP = (200, 12), (2_000, 30)  # examples, and steps in each

seeds = st.integers(min_value=0, max_value=1_000)
tenants = st.sampled_from([0, 0, 0, 0, 1, 2])  # mostly one, so that its history grows long
subjects = st.sampled_from(SUBJECTS)
spans = st.sampled_from([60, 10 * DAY, 40 * DAY])


class Verbs(RuleBasedStateMachine):
    """Any verb on any tenant, in any order, with everything that happens by itself in between."""

    template: Home

    def __init__(self) -> None:
        super().__init__()
        self.opened = ExitStack()
        self.running = self.opened.enter_context(in_memory(Verbs.template))
        self.tenants: list[Beside] = []

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
        self.tenants = [Beside(self.running, one) for one in rules]
        for tenant in self.tenants:  # something to act on, whatever comes next
            for subject in SUBJECTS[:2]:
                tenant.add(subject, basis=LawfulBasis.CONTRACT)

    # ---- Choosing

    def memory(self, tenant: int, seed: int) -> str:
        """Return a memory: mostly one of the tenant's, newer ones first; now and then another tenant's."""
        worlds = [self.tenants[(tenant + offset) % 3].world for offset in range(3)]
        known = [*reversed(worlds[0].memories)]
        strangers = [*worlds[1].memories, UNKNOWN]
        alive = [one for one in known if worlds[0].memories[one].life in {Life.LIVE, Life.ERASING}]
        pool = [*alive, *alive, *known, strangers[seed % len(strangers)]]
        return pool[seed % len(pool)]

    def check(self, tenant: int, memory_id: str | None = None) -> None:
        """Compare what is at rest and what recall shows, for the tenant; the others must not have moved."""
        self.tenants[tenant].compare()
        self.tenants[tenant].compare_recall()
        if memory_id is not None:
            self.tenants[tenant].compare_one(memory_id)
        for other in self.tenants:
            assert other.new_receipts() == []

    def act(self, tenant: int, call: Callable[[Beside], Outcome], *, is_down: bool = False) -> None:
        """Do one thing, perhaps while no key can be destroyed, and compare."""
        chosen = self.tenants[tenant]
        with chosen.custody_down() if is_down else nullcontext():
            call(chosen)
        self.check(tenant)

    # ---- Verbs

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

    @rule(tenant=tenants, seed=seeds, is_down=st.booleans())
    def update(self, tenant: int, seed: int, is_down: bool) -> None:
        self.act(tenant, lambda one: one.update(self.memory(tenant, seed)), is_down=is_down)

    @rule(
        tenant=tenants,
        seed=seeds,
        basis=st.sampled_from([Basis.UNSPECIFIED, Basis.SUBJECT_REQUEST]),
        cascade=st.booleans(),
        is_down=st.booleans(),
    )
    def erase(self, tenant: int, seed: int, basis: Basis, cascade: bool, is_down: bool) -> None:
        memory_id = self.memory(tenant, seed)
        self.act(tenant, lambda one: one.erase(memory_id, basis, cascade=cascade), is_down=is_down)
        self.check(tenant, memory_id)

    @rule(tenant=tenants, subject=subjects, is_down=st.booleans())
    def forget(self, tenant: int, subject: str, is_down: bool) -> None:
        self.act(tenant, lambda one: one.forget(subject), is_down=is_down)

    @rule(tenant=tenants, seed=seeds, ground=st.sampled_from(Ground))
    def restrict(self, tenant: int, seed: int, ground: Ground) -> None:
        memory_id = self.memory(tenant, seed)
        self.act(tenant, lambda one: one.restrict(memory_id, ground))
        self.check(tenant, memory_id)

    @rule(tenant=tenants, seed=seeds, notice=st.booleans(), is_down=st.booleans())
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

    @rule(tenant=tenants, seed=seeds, confirm=st.booleans(), is_down=st.booleans())
    def release(self, tenant: int, seed: int, confirm: bool, is_down: bool) -> None:
        holds = [*reversed(self.tenants[tenant].world.holds), "hold_" + "0" * 32]
        hold_id = holds[seed % len(holds)]
        self.act(tenant, lambda one: one.release(hold_id, confirm=confirm), is_down=is_down)

    @rule(
        tenant=tenants,
        subject=subjects,
        purpose=st.sampled_from(PURPOSES),
        action=st.sampled_from(ConsentAction),
        is_down=st.booleans(),
    )
    def consent(self, tenant: int, subject: str, purpose: str, action: ConsentAction, is_down: bool) -> None:
        self.act(tenant, lambda one: one.consent(subject, purpose, action), is_down=is_down)

    @rule(tenant=tenants, seeds=st.lists(seeds, min_size=1, max_size=2), from_artifact=st.booleans())
    def register(self, tenant: int, seeds: list[int], from_artifact: bool) -> None:
        artifacts = [*self.tenants[tenant].world.artifacts][-1:] if from_artifact else []
        sources = dict.fromkeys([*artifacts, *(self.memory(tenant, seed) for seed in seeds)])
        self.act(tenant, lambda one: one.register(tuple(sources)))

    @rule(tenant=tenants, seed=seeds)
    def acknowledge(self, tenant: int, seed: int) -> None:
        artifacts = [*self.tenants[tenant].world.artifacts, "artifact:" + "0" * 32]
        self.act(tenant, lambda one: one.acknowledge(artifacts[seed % len(artifacts)]))

    @rule(tenant=tenants, seed=seeds, ground=st.sampled_from(DisclosureGround))
    def disclose(self, tenant: int, seed: int, ground: DisclosureGround) -> None:
        memory_id = self.memory(tenant, seed)
        self.act(tenant, lambda one: one.disclose(memory_id, ground))

    @rule(tenant=tenants, seed=seeds)
    def cancel(self, tenant: int, seed: int) -> None:
        owed: list[Owed] = self.tenants[tenant].world.owed
        if owed:
            self.act(tenant, lambda one: one.cancel(owed[seed % len(owed)]))

    @rule(tenant=tenants, subject=subjects)
    def search(self, tenant: int, subject: str) -> None:
        self.tenants[tenant].compare_recall(subject)

    # ---- What nobody asks for

    @rule(spans=st.lists(spans, max_size=2), then=st.sampled_from(["nothing", "upkeep", "upkeep", "restart"]))
    def time_passes(self, spans: list[int], then: str) -> None:
        """Opening takes longest, so it comes seldom; all it does here is to finish what was begun."""
        for span in spans:
            self.tenants[0].wait(span)
        for tenant in self.tenants:
            tenant.wait(0)
        if then == "restart":
            self.running.close()
            self.running.open()
            self.all_came_to(World.restart)
        elif then == "upkeep":
            upkeep(self.running.engine)
            self.all_came_to(World.tick)
        else:
            self.check(0)

    def all_came_to(self, rule: Callable[[World], Outcome]) -> None:
        """Something happened to every tenant at once; each one's log says what."""
        for tenant in self.tenants:
            wanted = rule(tenant.world)
            assert in_order(tenant.new_receipts()) == wanted.receipts
        for index in range(3):
            self.check(index)

    def teardown(self) -> None:
        with self.opened:
            COUNTED["examples"] += 1
            for tenant in self.tenants:
                for memory_id in tenant.world.memories:
                    tenant.compare_one(memory_id)


COUNTED = {"examples": 0}


def test_verbs(request: pytest.FixtureRequest) -> None:
    """Fast by default; `pytest tests/laws --deep` goes ten times as far and writes down what it came to."""
    is_deep = bool(request.config.getoption("--deep", default=False))
    examples, steps = DEEP if is_deep else FAST
    began, COUNTED["examples"] = time.monotonic(), 0
    passed = False
    try:
        with template() as Verbs.template:
            run_state_machine_as_test(Verbs, settings=_settings(examples, steps))
        passed = True
    finally:
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
