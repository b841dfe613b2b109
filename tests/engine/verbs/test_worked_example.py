"""The worked example of SEMANTICS §22, step by step, told once and read from top to bottom."""

from collections import Counter
from typing import Any

import pytest

from shomei_service.engine.errors import ConfirmRequired
from shomei_service.engine.model import (
    ArtifactKind,
    Authority,
    EventKind,
    Ground,
    ObligationState,
    Release,
)
from shomei_service.engine.store import events
from shomei_service.engine.verbs import artifact, hold, obligation
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.status import status
from tests.engine.verbs.office import Office, kind
from tests.engine.verbs.side_by_side import Running


def test_the_worked_example(running: Running) -> None:
    office = Office.opened(running)
    engine, admin, data = running.engine, office.admin, office.data

    # Alice: L1 and L2 free, L3 held, L4 restricted for legal claims, D1 derived from L1 and bob's B1,
    # X1 an external summary of L2.
    l1, l2, l3, l4 = (office.remember(f"alice's kettle {n}", "alice") for n in range(4))
    b1 = office.remember("bob's kettle", "bob")
    d1 = office.remember("a kettle for both", derived_from=(l1, b1))
    artifact.register(engine, data, [l2], ArtifactKind.SUMMARY)
    held = hold.place(engine, admin, hold.NewHold(Authority.LITIGATION, memory_id=l3)).hold
    restrict(engine, admin, l4, Ground.LEGAL_CLAIMS)
    running.back_up()
    so_far = len(office.log())

    # 1. Forget alice: five matched, four erased, L3 deferred; the closure says partial.
    first = forget(engine, admin, "alice")
    assert {one.memory_id for one in first.erased} == {l1, l2, l4, d1}
    assert first.deferred_ids == [l3]
    log = office.log()[so_far:]
    assert Counter(map(kind, log)) == {"vector_delete": 4, "restriction": 1, "subject_closure": 1}
    closure = log[-1]
    assert counts(closure) == (5, 4, 1, "partial")
    assert closure["match_basis"] == "subject_exact_plus_derived"
    assert closure["external_artifact_count"] == first.external_artifact_count == 1
    assert status(engine, data, b1).retrieval_safe
    assert (EventKind.ARTIFACT_REBUILD_SUGGESTED, [d1]) in events_of(office)

    # 2. Search finds nothing of hers: L3 is under art17_deferred_hold.
    assert office.found("kettle", "alice") == set()
    assert office.found("kettle") == {b1}

    # 3. Forget alice again: L3 alone, deferred, and nothing new is said about it.
    again = forget(engine, admin, "alice")
    log = office.log()
    assert kind(log[-1]) == "subject_closure"
    assert counts(log[-1]) == (1, 0, 1, "deferred")
    assert kind(log[-2]) == "subject_closure"
    assert again.restricted_now == []
    assert again.obligation_ids == first.obligation_ids
    assert log[-1]["closed_set_commitment"] == closure["closed_set_commitment"]

    # 4. Unrestrict L3: its erasure is owed, so nothing is lifted.
    lifted = lift(engine, admin, l3)
    assert (lifted.restricted, lifted.changed, lifted.code) == (True, False, "erasure_deferred")

    # 5. Release the hold: not without a word, then L3 goes and both requests are complete.
    with pytest.raises(ConfirmRequired) as asked:
        hold.release(engine, admin, held.hold_id, Release.MATTER_CLOSED)
    assert asked.value.pending_erasures == 1
    so_far = len(office.log())
    hold.release(engine, admin, held.hold_id, Release.MATTER_CLOSED, confirm=True)
    log = office.log()
    assert Counter(map(kind, log[so_far:])) == {"legal_hold": 1, "vector_delete": 1, "subject_closure": 2}
    (gone,) = (body for body in log[so_far:] if kind(body) == "vector_delete")
    assert (gone["memory_id"], gone["cause"]) == (l3, "deferred_hold_release")
    closures = {body["request_id"]: body for body in log[so_far:] if kind(body) == "subject_closure"}
    earlier = {body["request_id"]: body for body in log[:so_far] if kind(body) == "subject_closure"}
    assert counts(closures[first.request_id]) == (5, 5, 0, "complete")
    assert counts(closures[again.request_id]) == (1, 1, 0, "complete")
    assert all(closures[one]["prior_closure_hash"] == earlier[one]["receipt_hash"] for one in closures)
    commitment = closures[first.request_id]["closed_set_commitment"]

    # 6. Last week's database comes back: all five are erased again before anyone can ask.
    running.put_back()
    log = office.log()
    assert kind(log[0]) == "log_restart"
    assert {body["memory_id"] for body in log if kind(body) == "reerase"} == {l1, l2, l3, l4, d1}
    assert [kind(body) for body in log].count("reerase") == 5
    assert office.found("kettle", "alice") == set()
    assert office.found("kettle") == {b1}
    for memory_id in (l1, l2, l3, l4, d1):
        assert status(running.engine, data, memory_id).failures == ("erased",)
    assert [one.released_at is None for one in hold.page(running.engine, admin).holds] == [False]
    open_kinds = [
        one.kind.value
        for one in obligation.page(running.engine, admin).obligations
        if one.state is ObligationState.OPEN
    ]
    assert open_kinds == ["external_erasure_ack"]
    nothing = forget(running.engine, admin, "alice").closure
    assert nothing is not None
    assert nothing.body["disposition"] == "noop_no_match"
    assert nothing.body["closed_set_commitment"] == commitment

    # 7. Alice is remembered again: a new id, which no closure knows.
    new = office.remember("alice's new kettle", "alice")
    assert new not in {l1, l2, l3, l4, d1}
    assert office.found("kettle", "alice") == {new}


def counts(closure: dict[str, Any]) -> tuple[int, int, int, str]:
    names = ("matched_count", "erased_count", "deferred_count", "disposition")
    return tuple(closure[name] for name in names)  # type: ignore[return-value]


def events_of(office: Office) -> list[tuple[EventKind, list[str]]]:
    with office.engine.reading(office.tenant) as unit:
        return [(what, ids) for _, what, ids in events.after(unit, 0, 100)]
