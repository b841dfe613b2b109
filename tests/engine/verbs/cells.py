"""The cells of the state table: how a memory comes into a state, and what is done to it then. SEMANTICS §5.

A row is a verb, a column a state; further cases of a cell have a name of their own. What a cell comes to is
the model's to say, so nothing is expected here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shomei_service.engine.model import (
    Basis,
    ConsentAction,
    DisclosureGround,
    Ground,
    LawfulBasis,
    PostForget,
    Withdrawal,
)
from tests.engine.verbs.side_by_side import Alone, Beside
from tests.model import Outcome, Rules, State

GRANTED, WITHDRAWN = ConsentAction.GRANTED, ConsentAction.WITHDRAWN
S0, S1, S2, S3, S4, S5, S6, S7, S8 = State
UNKNOWN = "lm_" + "0" * 32
LASTS_S = 1_000  # how long each memory here is kept
Tenant = Alone | Beside
Build = Callable[[Tenant], str]
Act = Callable[[Tenant, str], Outcome]


# ---- Columns: each puts a fresh memory of alice, resting on consent and kept for a while, into a state.


def active(tenant: Tenant) -> str:
    tenant.consent("alice", "support", GRANTED)
    added = tenant.add(
        "alice",
        basis=LawfulBasis.CONSENT,
        purposes=("support",),
        expires_at=tenant.world.now + LASTS_S,
    )
    return str(added.answer["memory_id"])


def unknown(_: Tenant) -> str:
    return UNKNOWN


def foreign(tenant: Tenant) -> str:
    return active(tenant.stranger())


def held(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.place(memory_id=memory_id)
    return memory_id


def held_by_subject(tenant: Tenant) -> str:
    tenant.place(subject="alice")
    return active(tenant)


def restricted(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.restrict(memory_id)
    return memory_id


def preserved(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.restrict(memory_id, Ground.LEGAL_CLAIMS)
    return memory_id


def restricted_and_held(tenant: Tenant) -> str:
    memory_id = restricted(tenant)
    tenant.place(memory_id=memory_id)
    return memory_id


def deferred(tenant: Tenant) -> str:
    """Forgotten under a hold: out of recall, and owed."""
    memory_id = held(tenant)
    tenant.forget("alice")
    return memory_id


def consent_invalid(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.consent("alice", "support", WITHDRAWN)
    return memory_id


def expired(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.wait(LASTS_S)
    return memory_id


def expired_and_held(tenant: Tenant) -> str:
    """Expired under a hold: its erasure is owed."""
    memory_id = held(tenant)
    tenant.wait(LASTS_S)
    tenant.tick()
    return memory_id


def erasing(tenant: Tenant) -> str:
    memory_id = active(tenant)
    with tenant.custody_down():
        tenant.erase(memory_id)
    return memory_id


def erased(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.erase(memory_id)
    return memory_id


def superseded(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.update(memory_id)
    return memory_id


def superseding(tenant: Tenant) -> str:
    """Its update has begun and is not finished: the successor is there and nobody sees it."""
    memory_id = active(tenant)
    with tenant.custody_down():
        tenant.update(memory_id)
    return memory_id


def derived(tenant: Tenant) -> str:
    """Bob's memory, made from one of alice's."""
    return str(tenant.add("bob", sources=(active(tenant),)).answer["memory_id"])


COLUMNS: dict[State, Build] = {
    S0: unknown,
    S1: active,
    S2: held,
    S3: restricted,
    S4: restricted_and_held,
    S5: consent_invalid,
    S6: expired,
    S7: erasing,
    S8: erased,
}


# ---- Rows


def release(tenant: Tenant, memory_id: str, *, confirm: bool = True) -> Outcome:
    """Release the hold that covers the memory; where none does, one that is over already."""
    holds = list(tenant.world.holds)
    hold_id = holds[-1] if holds else str(tenant.place(subject="bob").answer["hold_id"])
    if not holds:
        tenant.release(hold_id)
    return tenant.release(hold_id, confirm=confirm)


def retention(tenant: Tenant, _: str) -> Outcome:
    """The memory's time passes and upkeep comes by."""
    tenant.wait(LASTS_S)
    return tenant.tick()


def cancel(tenant: Tenant, memory_id: str) -> Outcome:
    return tenant.cancel(next(one for one in tenant.world.owed if one.memory_id in {memory_id, None}))


ROWS: dict[str, Act] = {
    "search": lambda tenant, one: tenant.look_for(one),
    "get": lambda tenant, one: tenant.get(one),
    "verify": lambda tenant, one: tenant.say_status(one),
    "lineage": lambda tenant, one: tenant.show_lineage(one),
    "update": lambda tenant, one: tenant.update(one),
    "delete": lambda tenant, one: tenant.erase(one),
    "restrict": lambda tenant, one: tenant.restrict(one),
    "unrestrict": lambda tenant, one: tenant.lift(one),
    "hold-memory": lambda tenant, one: tenant.place(memory_id=one),
    "hold-subject": lambda tenant, _: tenant.place(subject="alice"),
    "release": release,
    "forget": lambda tenant, _: tenant.forget("alice"),
    "disclose": lambda tenant, one: tenant.disclose(one),
    "export": lambda tenant, one: tenant.show_export(one),
    "import": lambda tenant, one: tenant.take_in(one),
    "derive": lambda tenant, one: tenant.add("bob", sources=(one,)),
    "register": lambda tenant, one: tenant.register((one,)),
    "withdraw": lambda tenant, _: tenant.consent("alice", "support", WITHDRAWN),
    "regrant": lambda tenant, _: tenant.consent("alice", "support", GRANTED),
    "retention": retention,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One test: a verb on a memory in a state, perhaps under a policy or in a case of its own."""

    row: str
    state: State
    build: Build
    act: Act
    case: str = ""
    rules: Rules = field(default_factory=Rules)

    @property
    def name(self) -> str:
        """The test's id."""
        return "-".join(filter(None, (self.row, self.state.value, self.case)))


def _case(
    row: str, state: State, case: str, build: Build, act: Act | None = None, rules: Rules | None = None
) -> Cell:
    return Cell(row, state, build, act or ROWS[row], case, rules or Rules())


def _every_row() -> Iterable[Cell]:
    """Further ways into a state, for every verb."""
    for row, act in ROWS.items():
        yield Cell(row, S0, foreign, act, "foreign")
        yield Cell(row, S1, derived, act, "derived")
        yield Cell(row, S2, held_by_subject, act, "by_subject")
        yield Cell(row, S4, deferred, act, "deferred")
        yield Cell(row, S7, superseding, act, "superseding")
        yield Cell(row, S8, superseded, act, "superseded")


def _ways_out() -> Iterable[Cell]:
    """Erasing, updating, forgetting, releasing."""
    for basis in Basis:
        yield _case("delete", S3, f"preserved_{basis}", preserved, _erase_on(basis))
    yield _case("delete", S1, "with_derived", _with_derived, _erase_source(cascade=False))
    yield _case("delete", S1, "cascade", _with_derived, _erase_source(cascade=True))
    yield _case("delete", S2, "cascade_held", _with_derived_held, _erase_source(cascade=True))
    yield _case("update", S1, "with_derived", _with_derived, lambda one, it: one.update(_source(one, it)))
    yield _case("forget", S3, "preserved", preserved)
    yield _case("forget", S2, "retention_owed", expired_and_held)
    yield _case("release", S4, "unconfirmed", deferred, lambda one, it: release(one, it, confirm=False))
    yield _case("release", S2, "one_of_two", _held_twice)
    yield _case("release", S4, "one_of_two", _deferred_held_twice)
    yield _case("release", S2, "consent_invalid", _withdrawn_held)
    yield _case("release", S2, "retention_owed", expired_and_held)
    yield _case("release", S4, "restricted_retention_owed", _expired_held_restricted)
    yield _case("retention", S6, "kept_by_policy", expired, rules=Rules(erase_when_expired=False))
    for state, build in ((S1, active), (S2, held), (S7, erasing)):
        yield _case("forget", state, "custody_down", build, _while_down(ROWS["forget"]))
    for row, state, build in (
        ("delete", S1, active),
        ("delete", S7, erasing),
        ("update", S1, active),
        ("restrict", S1, active),
        ("release", S4, deferred),
    ):
        yield _case(row, state, "custody_down", build, _while_down(ROWS[row]))


def _restrictions() -> Iterable[Cell]:
    """Grounds, notices, disclosure."""
    yield _case("restrict", S3, "new_ground", restricted, _restrict_as(Ground.SECURITY_QUARANTINE))
    yield _case("restrict", S4, "new_ground", restricted_and_held, _restrict_as(Ground.LEGAL_CLAIMS))
    for ground in Ground:
        yield _case("restrict", S1, ground.value, active, _restrict_as(ground))
    wants_notice = Rules(notice_before_lift=True)
    yield _case("unrestrict", S3, "notice_missing", restricted, rules=wants_notice)
    yield _case("unrestrict", S3, "notice_given", restricted, _lift_with_notice, wants_notice)
    yield _case("unrestrict", S3, "two_grounds", _twice_restricted)
    yield _case("unrestrict", S3, "erasure_waits", _expired_restricted)
    yield _case("unrestrict", S4, "erasure_waits", _expired_restricted_held)
    yield _case("hold-memory", S2, "second_matter", held)
    for ground in DisclosureGround:
        yield _case("disclose", S3, ground.value, restricted, _disclose_on(ground))


def _consent() -> Iterable[Cell]:
    """Withdrawals under each policy, and what adding needs."""
    for rule in Withdrawal:
        rules = Rules(withdrawal=rule, withdrawal_days=0)
        builds = (
            (S1, active),
            (S2, held),
            (S3, restricted),
            (S3, preserved),
            (S6, expired),
            (S7, superseding),
        )
        for state, build in builds:
            yield _case("withdraw", state, f"{rule}_{build.__name__}", build, _withdraw_and_tick, rules)
    yield _case("regrant", S2, "erasure_owed", _withdrawn_held, rules=Rules(withdrawal=Withdrawal.ERASE_NOW))
    yield _case("add", S1, "not_recorded", active, _add(LawfulBasis.NOT_RECORDED))
    wants_consent = Rules(consent_required=True)
    yield _case("add", S1, "consent_required", active, _add(LawfulBasis.NOT_RECORDED), wants_consent)
    yield _case("add", S2, "under_subject_hold", held_by_subject, _add(LawfulBasis.CONTRACT))
    yield _case("add", S5, "withdrawn", consent_invalid, _add(LawfulBasis.CONSENT))
    for rule in PostForget:
        for case, basis in (("bare", LawfulBasis.CONTRACT), ("consented", LawfulBasis.CONSENT)):
            yield _case("add", S8, f"{rule}_{case}", _forgotten, _add(basis), Rules(post_forget=rule))


def _owed() -> Iterable[Cell]:
    """Obligations and artifacts."""
    yield _case("cancel", S4, "deferred", deferred, cancel)
    yield _case("cancel", S2, "retention_owed", expired_and_held, cancel)
    yield _case("cancel", S5, "review", consent_invalid, cancel)
    yield _case("cancel", S7, "too_late", _released_and_pending, cancel)
    yield _case("cancel", S8, "over", _released, cancel)
    yield _case("cancel", S8, "external", _artifact_of_erased, cancel)
    yield _case("acknowledge", S0, "unknown", unknown, lambda one, it: one.acknowledge(it))
    yield _case("acknowledge", S1, "not_asked", _artifact, _acknowledge)
    yield _case("acknowledge", S8, "asked", _artifact_of_erased, _acknowledge)
    yield _case("register", S1, "from_artifact", _artifact, _register_from_artifact)
    yield _case("register", S8, "from_asked", _artifact_of_erased, _register_from_artifact)


def _erase_source(*, cascade: bool) -> Act:
    return lambda tenant, one: tenant.erase(_source(tenant, one), cascade=cascade)


def _lift_with_notice(tenant: Tenant, memory_id: str) -> Outcome:
    return tenant.lift(memory_id, notice=True)


def _register_from_artifact(tenant: Tenant, _: str) -> Outcome:
    return tenant.register(tuple(tenant.world.artifacts))


def _erase_on(basis: Basis) -> Act:
    return lambda tenant, one: tenant.erase(one, basis)


def _restrict_as(ground: Ground) -> Act:
    return lambda tenant, one: tenant.restrict(one, ground)


def _disclose_on(ground: DisclosureGround) -> Act:
    return lambda tenant, one: tenant.disclose(one, ground)


def _add(basis: LawfulBasis) -> Act:
    return lambda tenant, _: tenant.add("alice", basis=basis, purposes=("support",))


def _while_down(act: Act) -> Act:
    """The same while no key can be destroyed."""

    def acted(tenant: Tenant, memory_id: str) -> Outcome:
        with tenant.custody_down():
            return act(tenant, memory_id)

    return acted


def _source(tenant: Tenant, derived_id: str) -> str:
    return tenant.world.memories[derived_id].sources[0]


def _with_derived(tenant: Tenant) -> str:
    """What is derived is itself the source of more, in the store and outside."""
    memory_id = derived(tenant)
    tenant.add("carol", sources=(memory_id,))
    tenant.register((memory_id,))
    return memory_id


def _with_derived_held(tenant: Tenant) -> str:
    memory_id = _with_derived(tenant)
    tenant.place(memory_id=memory_id)
    return memory_id


def _twice_restricted(tenant: Tenant) -> str:
    memory_id = preserved(tenant)
    tenant.restrict(memory_id)
    return memory_id


def _expired_restricted(tenant: Tenant) -> str:
    memory_id = restricted(tenant)
    retention(tenant, memory_id)
    return memory_id


def _expired_restricted_held(tenant: Tenant) -> str:
    memory_id = _expired_restricted(tenant)
    tenant.place(memory_id=memory_id)
    return memory_id


def _expired_held_restricted(tenant: Tenant) -> str:
    memory_id = expired_and_held(tenant)
    tenant.restrict(memory_id)
    return memory_id


def _held_twice(tenant: Tenant) -> str:
    memory_id = held(tenant)
    tenant.place(subject="alice")
    return memory_id


def _deferred_held_twice(tenant: Tenant) -> str:
    memory_id = deferred(tenant)
    tenant.place(subject="alice")
    return memory_id


def _withdrawn_held(tenant: Tenant) -> str:
    memory_id = held(tenant)
    tenant.consent("alice", "support", WITHDRAWN)
    return memory_id


def _withdraw_and_tick(tenant: Tenant, _: str) -> Outcome:
    outcome = tenant.consent("alice", "support", WITHDRAWN)
    tenant.tick()
    return outcome


def _forgotten(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.forget("alice")
    return memory_id


def _released(tenant: Tenant) -> str:
    memory_id = deferred(tenant)
    release(tenant, memory_id)
    return memory_id


def _released_and_pending(tenant: Tenant) -> str:
    memory_id = deferred(tenant)
    with tenant.custody_down():
        release(tenant, memory_id)
    return memory_id


def _artifact(tenant: Tenant) -> str:
    memory_id = active(tenant)
    tenant.register((memory_id,))
    return memory_id


def _artifact_of_erased(tenant: Tenant) -> str:
    memory_id = _artifact(tenant)
    tenant.erase(memory_id)
    return memory_id


def _acknowledge(tenant: Tenant, _: str) -> Outcome:
    (artifact_id,) = tenant.world.artifacts
    tenant.acknowledge(artifact_id)
    return tenant.acknowledge(artifact_id)


CELLS: list[Cell] = [
    *(Cell(row, state, build, act) for row, act in ROWS.items() for state, build in COLUMNS.items()),
    *_every_row(),
    *_ways_out(),
    *_restrictions(),
    *_consent(),
    *_owed(),
]
