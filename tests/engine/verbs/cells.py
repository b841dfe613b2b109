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


def derived(tenant: Tenant) -> str:
    """Bob's memory, made from one of alice's."""
    return str(tenant.add("bob", sources=(active(tenant),)).answer["memory_id"])


COLUMNS: dict[State, Build] = {
    State.UNKNOWN: unknown,
    State.ACTIVE: active,
    State.HELD: held,
    State.RESTRICTED: restricted,
    State.RESTRICTED_AND_HELD: restricted_and_held,
    State.CONSENT_INVALID: consent_invalid,
    State.EXPIRED: expired,
    State.ERASING: erasing,
    State.ERASED: erased,
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


def _variants() -> Iterable[Cell]:
    s1, s2, s3, s4 = State.ACTIVE, State.HELD, State.RESTRICTED, State.RESTRICTED_AND_HELD
    s5, s6, s8 = State.CONSENT_INVALID, State.EXPIRED, State.ERASED
    for row, act in ROWS.items():
        yield Cell(row, State.UNKNOWN, foreign, act, "foreign")
        yield Cell(row, s8, superseded, act, "superseded")
        yield Cell(row, s2, held_by_subject, act, "by_subject")
        yield Cell(row, s4, deferred, act, "deferred")
        yield Cell(row, s1, derived, act, "derived")
    for basis in Basis:
        yield _case("delete", s3, f"preserved_{basis}", preserved, _erase_on(basis))
    yield _case("delete", s1, "with_derived", _with_derived, lambda one, it: one.erase(_source(one, it)))
    yield _case(
        "delete", s1, "cascade", _with_derived, lambda one, it: one.erase(_source(one, it), cascade=True)
    )
    yield _case(
        "delete",
        s2,
        "cascade_held",
        _with_derived_held,
        lambda one, it: one.erase(_source(one, it), cascade=True),
    )
    yield _case("update", s1, "with_derived", _with_derived, lambda one, it: one.update(_source(one, it)))
    yield _case("restrict", s3, "new_ground", restricted, _restrict_as(Ground.SECURITY_QUARANTINE))
    yield _case("restrict", s4, "new_ground", restricted_and_held, _restrict_as(Ground.LEGAL_CLAIMS))
    for ground in Ground:
        yield _case("restrict", s1, ground.value, active, _restrict_as(ground))
    yield _case("unrestrict", s3, "two_grounds", _twice_restricted)
    yield _case("unrestrict", s3, "notice_missing", restricted, rules=Rules(notice_before_lift=True))
    yield _case(
        "unrestrict",
        s3,
        "notice_given",
        restricted,
        lambda one, it: one.lift(it, notice=True),
        Rules(notice_before_lift=True),
    )
    yield _case("unrestrict", s3, "erasure_waits", _expired_restricted)
    yield _case("unrestrict", s4, "erasure_waits", _expired_restricted_held)
    yield _case("hold-memory", s2, "second_matter", held)
    yield _case("release", s4, "unconfirmed", deferred, lambda one, it: release(one, it, confirm=False))
    yield _case("release", s2, "one_of_two", _held_twice)
    yield _case("release", s4, "one_of_two", _deferred_held_twice)
    yield _case("release", s2, "retention_owed", expired_and_held)
    yield _case("release", s4, "restricted_retention_owed", _expired_held_restricted)
    yield _case("forget", s3, "preserved", preserved)
    yield _case("forget", s2, "retention_owed", expired_and_held)
    for ground in DisclosureGround:
        yield _case("disclose", s3, ground.value, restricted, _disclose_on(ground))
    for rule in Withdrawal:
        rules = Rules(withdrawal=rule, withdrawal_days=0)
        for state, build in ((s1, active), (s2, held), (s3, restricted), (s3, preserved), (s6, expired)):
            case = "_".join((rule.value, build.__name__))
            yield _case("withdraw", state, case, build, _withdraw_and_tick, rules)
    yield _case("regrant", s2, "erasure_owed", _withdrawn_held, rules=Rules(withdrawal=Withdrawal.ERASE_NOW))
    yield _case("retention", s6, "kept_by_policy", expired, rules=Rules(erase_when_expired=False))
    yield _case("add", s1, "not_recorded", active, _add(LawfulBasis.NOT_RECORDED))
    for rule in PostForget:
        for case, basis in (("bare", LawfulBasis.CONTRACT), ("consented", LawfulBasis.CONSENT)):
            yield _case("add", s8, f"{rule}_{case}", _forgotten, _add(basis), Rules(post_forget=rule))
    yield _case("add", s5, "withdrawn", consent_invalid, _add(LawfulBasis.CONSENT))
    yield _case(
        "add", s1, "consent_required", active, _add(LawfulBasis.NOT_RECORDED), Rules(consent_required=True)
    )
    yield _case("add", s2, "under_subject_hold", held_by_subject, _add(LawfulBasis.CONTRACT))
    yield _case("cancel", s4, "deferred", deferred, cancel)
    yield _case("cancel", s2, "retention_owed", expired_and_held, cancel)
    yield _case("cancel", s5, "review", consent_invalid, cancel)
    yield _case("cancel", State.ERASING, "too_late", _released_and_pending, cancel)
    yield _case("cancel", s8, "over", _released, cancel)
    yield _case("cancel", s8, "external", _artifact_of_erased, cancel)
    yield _case("acknowledge", s1, "not_asked", _artifact, _acknowledge)
    yield _case("acknowledge", s8, "asked", _artifact_of_erased, _acknowledge)
    yield _case("acknowledge", State.UNKNOWN, "unknown", unknown, lambda one, it: one.acknowledge(it))
    yield _case("register", s1, "from_artifact", _artifact, lambda one, _: one.register(_artifacts(one)))
    yield _case(
        "register", s8, "from_asked", _artifact_of_erased, lambda one, _: one.register(_artifacts(one))
    )


def _erase_on(basis: Basis) -> Act:
    return lambda tenant, one: tenant.erase(one, basis)


def _restrict_as(ground: Ground) -> Act:
    return lambda tenant, one: tenant.restrict(one, ground)


def _disclose_on(ground: DisclosureGround) -> Act:
    return lambda tenant, one: tenant.disclose(one, ground)


def _add(basis: LawfulBasis) -> Act:
    return lambda tenant, _: tenant.add("alice", basis=basis, purposes=("support",))


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


def _artifacts(tenant: Tenant) -> tuple[str, ...]:
    return tuple(tenant.world.artifacts)


def _acknowledge(tenant: Tenant, _: str) -> Outcome:
    (artifact_id,) = tenant.world.artifacts
    tenant.acknowledge(artifact_id)
    return tenant.acknowledge(artifact_id)


CELLS: list[Cell] = [
    *(Cell(row, state, build, act) for row, act in ROWS.items() for state, build in COLUMNS.items()),
    *_variants(),
]
