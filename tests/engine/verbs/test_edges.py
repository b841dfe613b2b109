"""Where a rule of the table meets damage, haste or numbers."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.errors import Blocked, ErasurePending, Invalid, RowDamaged
from shomei_service.engine.model import (
    Authority,
    ConsentAction,
    DisclosureGround,
    LawfulBasis,
    NewMemory,
    Policies,
)
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import access, consent, disclose, hold, read, status
from shomei_service.engine.verbs.add import add, add_batch
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.update import update
from tests.engine.verbs.office import Office, kind, said_no
from tests.engine.verbs.side_by_side import Running

LONE_SURROGATE = "\ud800"


@pytest.fixture
def office(running: Running) -> Office:
    """One tenant."""
    return Office.opened(running)


def damage(office: Office, memory_id: str) -> None:
    """Turn one byte of what the row holds."""
    with closing(sqlite3.connect(office.running.database_file)) as connection, connection:
        (sealed,) = connection.execute(
            "SELECT sealed_content FROM memories WHERE memory_id = ?", [memory_id]
        ).fetchone()
        turned = sealed[:-1] + bytes([sealed[-1] ^ 1])
        connection.execute("UPDATE memories SET sealed_content = ? WHERE memory_id = ?", [turned, memory_id])


def test_a_damaged_memory_is_never_shown_and_can_be_erased(office: Office) -> None:
    """SEMANTICS §5: not recallable; update is blocked; erasing needs no plaintext. I-16."""
    engine, admin, data = office.engine, office.admin, office.data
    first, second = office.remember("a kettle", "alice"), office.remember("a kettle", "alice")
    whole = office.remember("a kettle", "bob")
    for memory_id in (first, second):
        damage(office, memory_id)
        told = status.status(engine, admin, memory_id)
        assert (told.valid, told.retrieval_safe, told.failures) == (False, False, ("integrity_error",))
        assert said_no(lambda memory_id=memory_id: read.get(engine, data, memory_id))[0] is RowDamaged
        assert said_no(lambda memory_id=memory_id: update(engine, admin, memory_id, "new"))[0] is Blocked
    assert office.found("kettle") == {whole}
    assert [one.memory_id for one in read.page(engine, data).memories] == [whole]
    erase(engine, admin, first)
    done = forget(engine, admin, "alice")
    assert [one.memory_id for one in done.erased] == [second]
    assert office.found("kettle") == {whole}


def test_references_are_text_or_refused(office: Office) -> None:
    engine, admin = office.engine, office.admin
    memory_id = office.remember("a kettle", "alice")
    for wrong in (LONE_SURROGATE, "", "x" * 1025):
        new = hold.NewHold(Authority.LITIGATION, memory_id, matter_ref=wrong)
        said = consent.NewConsent("alice", "support", ConsentAction.GRANTED, evidence_ref=wrong)
        calls: list[Callable[[], object]] = [
            lambda new=new: hold.place(engine, admin, new),
            lambda said=said: consent.record(engine, admin, said),
            lambda wrong=wrong: disclose.disclose(
                engine, admin, memory_id, DisclosureGround.SUBJECT_ACCESS, wrong
            ),
        ]
        assert {said_no(call)[0] for call in calls} == {Invalid}
    assert [kind(body) for body in office.log()] == ["memory_add"]


def test_requiring_consent_reaches_what_is_there(office: Office) -> None:
    """SEMANTICS §13: `not_recorded` is recallable by default and invalid where consent is required."""
    bare = office.remember("a kettle", "alice")
    stated = office.remember("a kettle", "alice", lawful_basis=LawfulBasis.CONTRACT)
    policies = Policies(purposes=frozenset({"support"}))
    for required, shown in ((True, {stated}), (False, {bare, stated})):
        access.set_policies(office.engine, office.tenant, replace(policies, consent_required=required))
        assert office.found("kettle") == shown
        told = status.status(office.engine, office.admin, bare)
        assert told.failures == (("consent_invalid",) if required else ())


def test_held_rows_do_not_keep_retention_from_the_others(office: Office) -> None:
    """What is owed already is not looked at again, however much of it there is."""
    engine = office.engine
    hold.place(engine, office.admin, hold.NewHold(Authority.LITIGATION, user_id="alice"))
    until = office.running.clock.at + 60
    add_batch(engine, office.data, [NewMemory("a kettle", "alice", expires_at=until)] * 501)
    free = office.remember("a kettle", "bob", expires_at=until)
    office.running.clock.at += 60
    for _ in range(2):
        upkeep(engine)
    assert status.status(engine, office.data, free).failures == ("erased",)
    assert [kind(body) for body in office.log()].count("vector_delete") == 1


@pytest.mark.parametrize(
    ("sources", "common"),
    [
        ([{"a"}, {"b"}, {"c"}], []),
        ([{"a", "b"}, {"b", "c"}], ["b"]),
        ([{"a", "b"}, set[str](), {"a"}], ["a"]),
        ([set[str](), set[str]()], []),
    ],
)
def test_a_derived_memory_is_for_what_all_its_sources_are_for(
    running: Running, sources: list[set[str]], common: list[str]
) -> None:
    office = Office.opened(running, policies=Policies(purposes=frozenset("abc")))
    ids = [office.remember("a kettle", purposes=tuple(sorted(one))) for one in sources]
    for order in (ids, ids[::-1]):
        made = add(office.engine, office.data, NewMemory("of kettles", derived_from=tuple(order)))
        assert made.receipt.body["purpose_codes"] == common


@pytest.mark.parametrize(
    "goes", [lambda *whose: update(*whose, "a tin kettle"), erase], ids=["update", "erase"]
)
def test_a_successor_on_its_way_leaves_recall_with_its_source(
    office: Office, goes: Callable[..., object]
) -> None:
    """SEMANTICS §11: it does not matter that it was not live yet when its source went."""
    engine, admin = office.engine, office.admin
    source = office.remember("a kettle", "alice")
    derived = office.remember("of kettles", "bob", derived_from=(source,))
    failpoints.arm("e2.pending:raise")
    with pytest.raises(ErasurePending):
        update(engine, admin, derived, "of kettles and pans")
    goes(engine, admin, source)
    upkeep(engine)
    (successor,) = [body["memory_id"] for body in office.log() if body.get("previous_id") == derived]
    told = status.status(engine, admin, successor)
    assert (told.valid, told.retrieval_safe, told.failures) == (True, False, ("restricted",))
    assert successor not in office.found("kettle")
