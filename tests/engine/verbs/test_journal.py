"""What governance did since a backup is in force again when the database is put back. CUSTODY.md §4, §7.8.

Each case: a state, a backup of the database, an act, the backup put back. Custody's journal then makes
all that is at rest what the model says it was after the act, with receipts; a second opening finds
nothing to do.
"""

from collections.abc import Callable
from copy import deepcopy

import pytest

from shomei_service.engine.errors import Unauthenticated
from shomei_service.engine.model import Policies, Scope, Withdrawal
from shomei_service.engine.verbs import access, consent
from tests.engine.verbs import cells
from tests.engine.verbs.cells import GRANTED, LASTS_S, WITHDRAWN, Tenant, release
from tests.engine.verbs.office import Office, kind
from tests.engine.verbs.side_by_side import Beside, Running
from tests.model import Rules

Act = Callable[[Tenant, str], object]
Case = tuple[Callable[[Tenant], str], Act, Rules]
USUAL = Rules()
AT_ONCE, LATER = Rules(withdrawal=Withdrawal.ERASE_NOW), Rules(withdrawal=Withdrawal.ERASE_AFTER)


def forget_twice(tenant: Tenant, _: str) -> None:
    tenant.forget("alice")
    tenant.forget("alice")


def forget_and_release(tenant: Tenant, memory_id: str) -> None:
    forget_twice(tenant, memory_id)
    release(tenant, memory_id)


def cancel_deferred(tenant: Tenant, _: str) -> None:
    tenant.cancel(next(one for one in tenant.world.owed if one.memory_id is not None))


def withdraw(tenant: Tenant, _: str) -> None:
    tenant.consent("alice", "support", WITHDRAWN)


def withdraw_and_regrant(tenant: Tenant, _: str) -> None:
    tenant.consent("alice", "support", WITHDRAWN)
    tenant.consent("alice", "support", GRANTED)


def withdraw_and_wait(tenant: Tenant, _: str) -> None:
    tenant.consent("alice", "support", WITHDRAWN)
    tenant.wait(tenant.world.rules.withdrawal_days * 86_400)
    tenant.tick()


def expire(tenant: Tenant, _: str) -> None:
    tenant.wait(LASTS_S)
    tenant.tick()


def expire_then_forget(tenant: Tenant, memory_id: str) -> None:
    expire(tenant, memory_id)
    tenant.forget("alice")


def asked_and_acknowledged(tenant: Tenant, memory_id: str) -> None:
    tenant.erase(memory_id)
    for artifact_id in tenant.world.artifacts:
        tenant.acknowledge(artifact_id)


def with_memories(tenant: Tenant) -> str:
    """Alice's memory, from which bob's was made, from which carol's was made."""
    memory_id = cells.active(tenant)
    bobs = str(tenant.add("bob", sources=(memory_id,)).answer["memory_id"])
    tenant.add("carol", sources=(bobs,))
    return memory_id


def with_derived(tenant: Tenant) -> str:
    """The same, and an artifact made from bob's."""
    memory_id = with_memories(tenant)
    tenant.register(tuple(one for one in tenant.world.memories if one != memory_id)[:1])
    return memory_id


def with_memories_held(tenant: Tenant) -> str:
    memory_id = with_memories(tenant)
    tenant.place(subject="carol")
    return memory_id


def with_derived_held(tenant: Tenant) -> str:
    memory_id = with_derived(tenant)
    tenant.place(subject="carol")
    return memory_id


def with_artifact(tenant: Tenant) -> str:
    memory_id = cells.active(tenant)
    tenant.register((memory_id,))
    return memory_id


CASES: dict[str, Case] = {
    "restricted": (cells.active, lambda one, it: one.restrict(it), USUAL),
    "restricted_again": (
        cells.restricted,
        lambda one, it: one.restrict(it, cells.Ground.LEGAL_CLAIMS),
        USUAL,
    ),
    "lifted": (cells.restricted, lambda one, it: one.lift(it), USUAL),
    "memory_held": (cells.active, lambda one, it: one.place(memory_id=it), USUAL),
    "subject_held": (
        cells.active,
        lambda one, _: one.place(subject="alice", expires_at=one.world.now + 9),
        USUAL,
    ),
    "hold_released": (cells.held, release, USUAL),
    "hold_expired": (
        cells.active,
        lambda one, it: (one.place(memory_id=it, expires_at=one.world.now + 9), one.wait(9), one.tick()),
        USUAL,
    ),
    "release_fires": (cells.deferred, release, USUAL),
    "release_keeps": (cells.expired_and_held, lambda one, it: (one.restrict(it), release(one, it)), USUAL),
    "withdrawn": (cells.active, withdraw, USUAL),
    "withdrawn_and_erased": (cells.active, withdraw, AT_ONCE),
    "withdrawn_and_owed": (cells.held, withdraw, AT_ONCE),
    "withdrawn_for_later": (cells.active, withdraw, LATER),
    "withdrawn_and_done": (cells.active, withdraw_and_wait, LATER),
    "granted": (cells.consent_invalid, lambda one, _: one.consent("alice", "support", GRANTED), USUAL),
    "regranted": (cells.held, withdraw_and_regrant, AT_ONCE),
    "regranted_in_time": (cells.active, withdraw_and_regrant, LATER),
    "expired_and_owed": (cells.held, expire, USUAL),
    "expired_restricted": (cells.restricted, expire, USUAL),
    "expired_then_forgotten": (cells.held, expire_then_forget, USUAL),
    "erased": (cells.active, lambda one, it: one.erase(it), USUAL),
    "erased_with_derived": (with_derived, lambda one, it: one.erase(it), USUAL),
    "cascaded": (with_derived_held, lambda one, it: one.erase(it, cascade=True), USUAL),
    "forgotten": (cells.active, lambda one, _: one.forget("alice"), USUAL),
    "forgotten_under_hold": (cells.held, lambda one, _: one.forget("alice"), USUAL),
    "forgotten_twice": (cells.held, forget_twice, USUAL),
    "forgotten_and_released": (cells.held, forget_and_release, USUAL),
    "forgotten_with_derived": (with_derived, lambda one, _: one.forget("alice"), USUAL),
    "forgotten_derived_held": (with_derived_held, lambda one, _: one.forget("alice"), USUAL),
    "cancelled": (cells.deferred, cancel_deferred, USUAL),
    "forgotten_and_cancelled": (
        cells.held,
        lambda one, it: (one.forget("alice"), cancel_deferred(one, it)),
        USUAL,
    ),
    "artifact_asked": (with_artifact, lambda one, it: one.erase(it), USUAL),
    "artifact_acknowledged": (with_artifact, asked_and_acknowledged, USUAL),
}


def at_rest(tenant: Beside) -> None:
    tenant.compare()
    tenant.compare_recall()
    for memory_id in tenant.world.memories:
        tenant.compare_one(memory_id)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_back_in_force(running: Running, case: Case) -> None:
    build, act, rules = case
    tenant = Beside(running, rules)
    target = build(tenant)
    running.back_up()
    act(tenant, target)
    at_rest(tenant)
    running.put_back()
    at_rest(tenant)
    tenant.new_receipts()
    running.close()
    running.open()
    at_rest(tenant)
    assert tenant.new_receipts() == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_death_among_the_lines_loses_none(running: Running, case: Case) -> None:
    """Whatever line the first opening dies at, the second one goes on from there."""
    build, act, rules = case
    tenant = Beside(running, rules)
    target = build(tenant)
    running.back_up()
    act(tenant, target)
    running.put_back(died_at=[f"boot.journal:raise:{line}" for line in (1, 2, 3)])
    at_rest(tenant)


def test_a_backup_of_an_update_under_way(running: Running) -> None:
    """The successor was not there yet when the backup was made, and is gone by now: it stays gone."""
    tenant = Beside(running)
    memory_id = cells.active(tenant)
    with tenant.custody_down():
        tenant.update(memory_id)
    running.back_up()
    tenant.tick()
    (successor,) = tenant.world.memories.keys() - {memory_id}
    tenant.erase(successor)
    running.put_back()
    at_rest(tenant)


def test_what_proves_a_consent_comes_back(running: Running) -> None:
    codes = frozenset({"v2", "web"})
    office = Office.opened(
        running,
        policies=Policies(purposes=frozenset({"support"}), policy_versions=codes, channel_codes=codes),
    )
    running.back_up()
    new = consent.NewConsent("alice", "support", GRANTED, "form 7", "v2", "web")
    consent.record(running.engine, office.admin, new)
    said = consent.listing(running.engine, office.admin, "alice")
    running.put_back()
    assert consent.listing(running.engine, office.admin, "alice") == said
    restarted, receipt = office.log()
    assert (kind(restarted), kind(receipt)) == ("log_restart", "consent")
    assert receipt["evidence_ref_hmac"] == said[0].evidence_ref_hmac is not None


@pytest.mark.parametrize(
    ("build", "act", "rules"),
    [
        (cells.active, lambda one, _: one.forget("alice"), USUAL),
        (with_memories, lambda one, _: one.forget("alice"), USUAL),
        (with_memories_held, lambda one, _: one.forget("alice"), USUAL),
        (cells.deferred, release, USUAL),
        (cells.expired_and_held, release, USUAL),
    ],
    ids=["forgotten", "forgotten_with_derived", "forgotten_derived_held", "release_fires", "retention_fires"],
)
def test_what_was_promised_is_kept(running: Running, build: cells.Build, act: Act, rules: Rules) -> None:
    """The answer was that the erasure is under way and will finish by itself; so it does, restore or not."""
    tenant = Beside(running, rules)
    target = build(tenant)
    running.back_up()
    with tenant.custody_down():
        act(tenant, target)
    running.put_back()
    tenant.world.restart()
    at_rest(tenant)


def test_a_withdrawal_that_was_to_erase_at_once_does(running: Running) -> None:
    tenant = Beside(running, AT_ONCE)
    target = cells.active(tenant)
    running.back_up()
    with tenant.custody_down():
        withdraw(tenant, target)
    running.put_back()
    tenant.world.restart()
    at_rest(tenant)
    assert tenant.world.state(target) is cells.S8


@pytest.mark.parametrize("verb", ["erase", "update"])
def test_what_was_not_done_leaves_no_trace(running: Running, verb: str) -> None:
    """An erasure that had begun is lost with the database, and so is what it meant for others."""
    tenant = Beside(running)
    target = with_derived(tenant)
    running.back_up()
    restored = deepcopy(tenant.world)
    with tenant.custody_down():
        getattr(tenant, verb)(target)
    running.put_back()
    tenant.world = restored
    at_rest(tenant)


def test_a_revoked_key_stays_revoked(running: Running) -> None:
    engine = running.engine
    tenant = access.create_tenant(engine, "tenant").tenant_id
    key = access.create_key(engine, tenant, Scope.DATA)
    running.back_up()
    access.revoke_key(engine, tenant, key.key_id)
    for again in (running.put_back, running.close, running.open):
        again()
    with pytest.raises(Unauthenticated):
        access.authenticate(running.engine, key.token)
