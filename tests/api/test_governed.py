"""Every governed verb over HTTP, in the states that matter. SEMANTICS.md §5-§13, CONTRACT.md §1-§2."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from shomei_service.api.bodies import SINGLE
from shomei_service.api.routes import OPERATIONS
from shomei_service.api.shapes import Nothing
from shomei_service.engine import failpoints
from shomei_service.engine.errors import Blocked
from shomei_service.engine.model import Basis, DisclosureGround, Ground
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.update import update
from tests.api.desk import CODES, DAY, Desk, open_desk
from tests.api.house import UNKNOWN, fields_of, open_house, without_id
from tests.statements import statements

M = "/v1/memories"
MARK = "ZQ7-0a41c7d2"
LIVE = {"valid": True, "retrieval_safe": True, "embedding_retired": False, "physically_purged": False}
HIDDEN = {"valid": None, "reason": "not_found"}
BLOCKED = (409, {"code": "blocked"})
HELD = (423, {"code": "held", "held": True})
MISSING = (404, {"code": "not_found"})
NO_RESTRICTION = (404, {"code": "not_found", "restricted": None, "changed": False})
UNDELETED = (404, {"code": "not_found", "deleted": False})
HELD_UNDELETED = (423, {"code": "held", "deleted": False, "held": True})


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with open_desk() as opened:
        yield opened


@pytest.fixture
def custody_fails() -> Iterator[None]:
    """Let the next destruction of a key fail in the middle; the erasure is durable by then."""
    failpoints.arm("e2.pending:eio")
    yield
    failpoints.disarm()


def status(desk: Desk, memory_id: str, *, admin: bool = True) -> dict[str, Any]:
    key = desk.house.admin if admin else desk.house.data
    return desk.done("GET", f"{M}/{memory_id}/verify", key=key)


def found(desk: Desk, query: str, **more: Any) -> list[str]:
    answer = desk.done("POST", "/v1/search", {"query": query, "limit": 100, **more}, key=desk.house.data)
    return [one["id"] for one in answer["results"]]


def readable(desk: Desk, memory_id: str) -> bool:
    return desk.send("GET", f"{M}/{memory_id}", key=desk.house.data).status_code == 200


# ---- Update


def test_an_update_puts_a_successor_in_its_place(desk: Desk) -> None:
    before = desk.add("the gate is shut", user_id="ada", semantic_type="HABIT", metadata={"k": "v"})
    updated = desk.done("PUT", f"{M}/{before}", {"data": "  the gate is open "})["results"][0]
    assert (updated["previous_id"], updated["event"]) == (before, "UPDATE")
    body = updated["receipt"]
    assert (body["schema"], body["memory_id"]) == ("shomei.memory_update.v1", updated["id"])
    assert (body["previous_id"], body["cause"]) == (before, "superseded_update")
    read = desk.done("GET", f"{M}/{updated['id']}", key=desk.house.data)
    assert read.pop("created_at")
    assert read == {
        "id": updated["id"],
        "memory": "the gate is open",
        "user_id": "ada",
        "semantic_type": "HABIT",
        "metadata": {"k": "v"},
    }
    assert desk.refused("GET", f"{M}/{before}") == MISSING
    assert status(desk, before)["failures"] == ["erased"]
    assert found(desk, "gate") == [updated["id"]]


def test_what_is_not_there_is_not_updated(desk: Desk) -> None:
    assert desk.refused("PUT", f"{M}/{UNKNOWN}", {"data": "x"}) == MISSING
    assert desk.refused("PUT", f"{M}/{desk.erased()}", {"data": "x"}) == MISSING


def test_a_hold_is_told_before_a_restriction(desk: Desk) -> None:
    memory_id = desk.restricted()
    desk.hold(memory_id)
    assert desk.refused("PUT", f"{M}/{memory_id}", {"data": "x"}) == HELD


def blocked(desk: Desk) -> dict[str, str]:
    return {
        "restricted": desk.restricted(),
        "without_consent": desk.without_consent(),
        "expired": desk.expired(),
    }


def test_nobody_can_tell_why_an_update_is_blocked(desk: Desk) -> None:
    answers = {
        why: desk.send("PUT", f"{M}/{memory_id}", {"data": "x"}) for why, memory_id in blocked(desk).items()
    }
    assert {answer.status_code for answer in answers.values()} == {409}
    assert len({without_id(answer) for answer in answers.values()}) == 1
    assert len({str(fields_of(answer.headers)) for answer in answers.values()}) == 1
    told = answers["restricted"].text.lower()
    assert not any(word in told for word in ("restrict", "consent", "expire", "art18"))


def test_nor_by_the_work_it_takes(desk: Desk) -> None:
    """T-37: the same questions are asked of the database, in the same order, whatever the reason."""
    store = desk.house.engine.store
    asked: dict[str, list[str]] = {}
    for why, memory_id in blocked(desk).items():
        questions = asked.setdefault(why, [])
        with statements(store, questions), pytest.raises(Blocked):
            update(desk.house.engine, desk.tenant, memory_id, "x")
    assert len(asked["restricted"]) > 0
    assert all(questions == asked["restricted"] for questions in asked.values())


def test_damaged_bytes_are_never_shown_and_can_still_be_erased(desk: Desk) -> None:
    """I-16: and an update is blocked with the words for every other reason."""
    memory_id, other = desk.add("rust never sleeps"), desk.restricted()
    database = desk.house.engine.store.path
    assert database is not None
    with closing(sqlite3.connect(database)) as connection, connection:
        query = "SELECT sealed_content FROM memories WHERE memory_id = ?"
        sealed = connection.execute(query, (memory_id,)).fetchone()[0]
        damaged = sealed[:-1] + bytes([sealed[-1] ^ 1])
        connection.execute("UPDATE memories SET sealed_content = ? WHERE memory_id = ?", (damaged, memory_id))
    assert found(desk, "rust never sleeps") == []
    assert status(desk, memory_id)["failures"] == ["integrity_error"]
    told = [desk.send("PUT", f"{M}/{one}", {"data": "x"}) for one in (memory_id, other)]
    assert without_id(told[0]) == without_id(told[1])
    for answer in (
        desk.send("GET", f"{M}/{memory_id}"),
        desk.send("POST", f"{M}/{memory_id}/disclose", {"ground_code": "subject_access"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "integrity_error")
        assert "rust" not in answer.text
    assert desk.done("DELETE", f"{M}/{memory_id}")["deleted"] is True


# ---- Restrict and lift


def test_a_restriction_and_its_lifting(desk: Desk) -> None:
    memory_id = desk.add("the lantern is lit", user_id="bea")
    path = f"{M}/{memory_id}/restrict"
    on = desk.done("POST", path, {"reason": "art18_1_a_accuracy_contested"})
    assert (on["id"], on["restricted"], on["changed"]) == (memory_id, True, True)
    assert (on["receipt"]["action"], on["receipt"]["reason_code"]) == (
        "applied",
        "art18_1_a_accuracy_contested",
    )
    assert desk.done("POST", path, {"reason": "art18_1_a_accuracy_contested"}) == {
        "id": memory_id,
        "restricted": True,
        "changed": False,
    }
    assert found(desk, "the lantern is lit") == found(desk, "lantern", user_id="bea") == []
    assert not readable(desk, memory_id)
    assert status(desk, memory_id, admin=False) == HIDDEN
    assert status(desk, memory_id) == {**LIVE, "retrieval_safe": False, "failures": ["restricted"]}
    off = desk.done("DELETE", path)
    assert (off["restricted"], off["changed"], off["code"]) == (False, True, "art18_lifted")
    assert (off["receipt"]["action"], off["receipt"]["reason_code"]) == ("lifted", "art18_lifted")
    assert desk.done("DELETE", path) == {"id": memory_id, "restricted": False, "changed": False}
    assert found(desk, "lantern") == [memory_id]


def test_a_second_ground_is_a_change(desk: Desk) -> None:
    memory_id = desk.restricted()
    second = desk.done("POST", f"{M}/{memory_id}/restrict", {"reason": "security_quarantine"})
    assert (second["changed"], second["receipt"]["ground_count"]) == (True, 2)
    assert desk.done("DELETE", f"{M}/{memory_id}/restrict")["restricted"] is False


def test_without_a_reason_it_is_the_subjects_request(desk: Desk) -> None:
    for body in ({}, {"reason": None}, {"reason": " art18_request "}):
        on = desk.done("POST", f"{M}/{desk.add()}/restrict", body)
        assert on["receipt"]["reason_code"] == "art18_request"


@pytest.mark.parametrize(
    "reason",
    [
        "because Ada Lovelace asked",
        "x" * 65,
        "ART18_REQUEST",
        "",
        5,
        "art17_deferred_hold",
        "source_erased",
        "source_superseded",
        "integrity_fault",
        "art18_lifted",
    ],
)
def test_a_reason_outside_the_vocabulary_restricts_nothing(desk: Desk, reason: object) -> None:
    memory_id = desk.add()
    answer = desk.send("POST", f"{M}/{memory_id}/restrict", {"reason": reason})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert not (isinstance(reason, str) and reason and reason in answer.text)
    assert readable(desk, memory_id)


def test_the_callers_reason_never_reaches_a_lifting(desk: Desk) -> None:
    memory_id = desk.restricted()
    off = desk.done("DELETE", f"{M}/{memory_id}/restrict?reason={MARK}", {"reason": MARK})
    assert off["receipt"]["reason_code"] == "art18_lifted"
    assert MARK not in str(off)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_what_is_not_there_is_not_restricted(desk: Desk, method: str) -> None:
    body = {} if method == "POST" else None
    for memory_id in (UNKNOWN, desk.erased()):
        assert desk.refused(method, f"{M}/{memory_id}/restrict", body) == NO_RESTRICTION


def test_a_policy_may_want_the_person_told_first(desk: Desk) -> None:
    memory_id = desk.restricted()
    told = {**{name: getattr(CODES, name) for name in CODES.__slots__}, "notice_before_lift": True}
    access.set_policies(desk.house.engine, desk.tenant.tenant, type(CODES)(**told))
    try:
        assert desk.refused("DELETE", f"{M}/{memory_id}/restrict") == BLOCKED
        off = desk.done("DELETE", f"{M}/{memory_id}/restrict?notice_sent_at={desk.clock.at}")
        assert off["receipt"]["notice_recorded"] is True
    finally:
        access.set_policies(desk.house.engine, desk.tenant.tenant, CODES)


def test_preserved_memories_go_only_on_a_basis_of_their_subjects(desk: Desk) -> None:
    allowed = {Basis.SUBJECT_REQUEST, Basis.LEGAL_OBLIGATION, Basis.RESTRICTION_CONSENT}
    for ground in (Ground.LEGAL_CLAIMS, Ground.UNLAWFUL_OPPOSES_ERASURE):
        for basis in Basis:
            memory_id = desk.add()
            desk.done("POST", f"{M}/{memory_id}/restrict", {"reason": ground})
            url = f"{M}/{memory_id}?basis={basis}"
            if basis in allowed:
                assert desk.done("DELETE", url)["receipt"]["basis"] == basis
            else:
                assert desk.refused("DELETE", url) == BLOCKED


def test_a_restricted_memory_can_be_erased(desk: Desk) -> None:
    assert desk.done("DELETE", f"{M}/{desk.restricted()}")["deleted"] is True


# ---- Holds


def test_a_hold_is_created_and_listed_without_its_matter(desk: Desk) -> None:
    memory_id = desk.add("held words", user_id="cleo")
    body = {"scope": "memory", "memory_id": memory_id, "authority_code": "litigation"}
    placed = desk.send("POST", "/v1/holds", {**body, "matter_ref": MARK, "review_at": desk.clock.at + DAY})
    assert placed.status_code == 201
    hold = placed.json()
    assert (hold["scope"], hold["receipt"]["action"]) == ("memory", "placed")
    assert hold["receipt"]["authority_code"] == "litigation"
    listed = desk.send("GET", "/v1/holds")
    mine = next(one for one in listed.json()["results"] if one["hold_id"] == hold["hold_id"])
    assert mine == {
        "hold_id": hold["hold_id"],
        "scope": "memory",
        "memory_id": memory_id,
        "subject_pseudonym": None,
        "authority_code": "litigation",
        "placed_by": desk.tenant.actor,
        "placed_at": desk.clock.at,
        "review_at": desk.clock.at + DAY,
        "expires_at": None,
        "released_at": None,
        "release_code": None,
    }
    assert MARK not in placed.text + listed.text


def test_a_hold_stops_every_destructive_path(desk: Desk) -> None:
    """DEV-17."""
    one, two = (desk.add(f"dora's {word} kite", user_id="dora") for word in ("red", "green"))
    hold_id = desk.hold(one)
    assert set(found(desk, "kite", user_id="dora")) == {one, two}  # it stops destruction, not recall
    assert desk.refused("DELETE", f"{M}/{one}") == HELD_UNDELETED
    assert desk.refused("DELETE", f"{M}/{one}?derived=cascade&basis=subject_request") == HELD_UNDELETED
    assert desk.refused("PUT", f"{M}/{one}", {"data": "x"}) == HELD

    first = desk.done("POST", "/v1/forget", {"user_id": "dora"})
    assert (first["erased_ids"], first["deferred_ids"]) == ([two], [one])
    assert [first[f"{name}_count"] for name in ("matched", "erased", "deferred", "restricted_now")] == [
        2,
        1,
        1,
        1,
    ]
    assert first["closure_receipt"]["disposition"] == "partial"
    assert found(desk, "kite", user_id="dora") == []
    assert desk.done("DELETE", f"{M}/{one}/restrict") == {
        "id": one,
        "restricted": True,
        "changed": False,
        "code": "erasure_deferred",
    }
    assert desk.refused("DELETE", f"{M}/{one}") == HELD_UNDELETED
    again = desk.done("POST", "/v1/forget", {"user_id": "dora"})
    assert (again["erased_ids"], again["deferred_ids"]) == ([], [one])
    assert again["obligations"] == first["obligations"]
    assert (again["restricted_now_count"], again["already_erased_count"]) == (0, 1)
    assert again["closure_receipt"]["disposition"] == "deferred"
    commitment = "closed_set_commitment"
    assert again["closure_receipt"][commitment] == first["closure_receipt"][commitment]

    # The text is preserved meanwhile, and goes when the last hold does.
    second_hold = desk.hold(one)
    kept = desk.done("POST", f"{M}/{one}/disclose", {"ground_code": "art18_2_legal_claims"})
    assert kept["disclosed"]["memory"] == "dora's red kite"
    url = f"/v1/holds/{hold_id}?release_code=matter_closed"
    released = desk.done("DELETE", url)  # not the last: nothing is erased, so nothing to confirm
    assert released["obligations"] == {"fired": 0, "completed": 0, "pending": 0}
    url = f"/v1/holds/{second_hold}?release_code=matter_closed"
    assert desk.refused("DELETE", url) == (409, {"code": "confirm_required", "pending_erasures": 1})
    assert desk.refused("DELETE", f"{url}&confirm=false")[1]["pending_erasures"] == 1
    released = desk.done("DELETE", f"{url}&confirm=true")
    assert released["obligations"] == {"fired": 1, "completed": 1, "pending": 0}
    assert (released["released"], released["erased_ids"]) == (True, [one])
    gone = released["signed_receipts"][0]["signed_receipt"]["body"]
    assert (gone["memory_id"], gone["cause"]) == (one, "deferred_hold_release")
    assert gone["obligation_id"] == first["obligations"][0]
    closures = {one["closure_receipt"]["prior_closure_hash"]: one for one in released["closures"]}
    assert closures.keys() == {first["closure_receipt_hash"], again["closure_receipt_hash"]}
    assert {one["closure_receipt"]["disposition"] for one in closures.values()} == {"complete"}
    assert desk.refused("DELETE", f"{url}&confirm=true") == MISSING
    assert status(desk, one)["failures"] == ["erased"]


def test_a_hold_on_a_subject_covers_who_is_to_come(desk: Desk) -> None:
    body = {"scope": "subject", "user_id": "eve", "authority_code": "statutory_retention"}
    hold = desk.done("POST", "/v1/holds", body)
    assert hold["receipt"]["subject_pseudonym"].startswith("hmac-sha256:")
    added = desk.done("POST", M, {"messages": "eve arrives", "user_id": "eve"})["results"][0]
    assert added["receipt"]["held_on_arrival"] is True
    assert desk.refused("DELETE", f"{M}/{added['id']}") == HELD_UNDELETED
    desk.done("DELETE", f"/v1/holds/{hold['hold_id']}?release_code=court_order")
    assert desk.done("DELETE", f"{M}/{added['id']}")["deleted"] is True


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"scope": "memory", "authority_code": "litigation"},
        {"scope": "subject", "authority_code": "litigation"},
        {"scope": "memory", "memory_id": UNKNOWN, "user_id": "a", "authority_code": "litigation"},
        {"scope": "subject", "memory_id": UNKNOWN, "authority_code": "litigation"},
        {"scope": "tenant_category", "authority_code": "litigation"},
        {"scope": "subject", "user_id": "a", "authority_code": "whim"},
        {"scope": "subject", "user_id": "a", "authority_code": "litigation", "expires_at": 1},
        {"scope": "subject", "user_id": "a", "authority_code": "litigation", "matter_ref": "x" * 1025},
        {"scope": "subject", "user_id": "a", "authority_code": "litigation", "tenant": "b"},
    ],
    ids=range(10),
)
def test_refused_holds(desk: Desk, body: object) -> None:
    before = desk.done("GET", "/v1/holds")
    assert desk.refused("POST", "/v1/holds", body) == (422, {"code": "invalid_request"})
    assert desk.done("GET", "/v1/holds") == before


@pytest.mark.parametrize("query", ["", "?release_code=bored", "?release_code=expired&confirm=yes"])
def test_refused_releases(desk: Desk, query: str) -> None:
    hold_id = desk.hold(memory_id := desk.add())
    assert desk.refused("DELETE", f"/v1/holds/{hold_id}{query}") == (422, {"code": "invalid_request"})
    assert desk.refused("DELETE", f"{M}/{memory_id}") == HELD_UNDELETED


def test_what_is_not_there_is_not_held(desk: Desk) -> None:
    for memory_id in (UNKNOWN, desk.erased(), MARK):
        body = {"scope": "memory", "memory_id": memory_id, "authority_code": "litigation"}
        assert desk.refused("POST", "/v1/holds", body) == MISSING


def test_an_erasure_that_has_begun_is_too_far_gone(desk: Desk, custody_fails: None) -> None:
    memory_id = desk.add("the ferry is leaving", user_id="fay")
    assert desk.refused("DELETE", f"{M}/{memory_id}") == (503, {"code": "erasure_pending"})
    body = {"scope": "memory", "memory_id": memory_id, "authority_code": "litigation"}
    assert desk.refused("POST", "/v1/holds", body) == (409, {"code": "erasure_in_progress"})
    assert desk.refused("PUT", f"{M}/{memory_id}", {"data": "x"}) == MISSING
    assert desk.refused("POST", f"{M}/{memory_id}/restrict", {}) == NO_RESTRICTION
    assert desk.refused("DELETE", f"{M}/{memory_id}/restrict") == NO_RESTRICTION
    assert desk.refused("POST", f"{M}/{memory_id}/disclose", {"ground_code": "subject_access"}) == MISSING
    assert desk.refused("GET", f"{M}/{memory_id}/lineage/graph") == MISSING
    assert desk.refused("GET", f"{M}/{memory_id}") == MISSING
    assert found(desk, "ferry") == []
    assert status(desk, memory_id, admin=False)["failures"] == ["erasure_pending"]
    # Whoever asks again joins it and gets the proof.
    assert desk.done("DELETE", f"{M}/{memory_id}")["receipt"]["cause"] == "delete_request"
    assert desk.refused("DELETE", f"{M}/{memory_id}") == UNDELETED


# ---- Obligations


def test_what_is_owed_is_listed_and_can_be_taken_back(desk: Desk) -> None:
    memory_id = desk.add("gus hums", user_id="gus")
    hold_id = desk.hold(memory_id)
    forgotten = desk.done("POST", "/v1/forget", {"user_id": "gus"})
    obligation_id = forgotten["obligations"][0]
    pseudonym = forgotten["closure_receipt"]["subject_pseudonym"]

    def listed() -> dict[str, Any]:
        every = desk.done("GET", "/v1/obligations")["results"]
        return next(one for one in every if one["obligation_id"] == obligation_id)

    assert listed() == {
        "obligation_id": obligation_id,
        "kind": "erase_on_hold_release",
        "state": "open",
        "overdue": False,
        "memory_id": memory_id,
        "subject_pseudonym": pseudonym,
        "purpose": None,
        "artifact_id": None,
        "requested_at": desk.clock.at,
        "due_at": desk.clock.at + 30 * DAY,
        "ended_at": None,
    }
    desk.clock.at += 31 * DAY
    assert listed()["overdue"] is True
    url = f"/v1/obligations/{obligation_id}/cancel"
    cancelled = desk.done("POST", url)
    assert (cancelled["obligation_id"], cancelled["cancelled"]) == (obligation_id, True)
    assert cancelled["receipt"]["action"] == "lifted"
    assert (listed()["state"], listed()["overdue"]) == ("cancelled", False)
    assert desk.refused("POST", url) == MISSING
    assert found(desk, "hums") == [memory_id]
    assert desk.done("DELETE", f"/v1/holds/{hold_id}?release_code=scope_narrowed")["erased_ids"] == []
    assert readable(desk, memory_id)


def test_what_another_owes_is_not_cancelled(desk: Desk) -> None:
    source = desk.add()
    artifact = desk.done("POST", "/v1/artifacts", {"derived_from": [source], "kind": "report"})["id"]
    desk.done("DELETE", f"{M}/{source}")
    every = desk.done("GET", "/v1/obligations")["results"]
    owed = next(one for one in every if one["artifact_id"] == artifact)
    assert (owed["kind"], owed["state"]) == ("external_erasure_ack", "open")
    answer = desk.refused("POST", f"/v1/obligations/{owed['obligation_id']}/cancel")
    assert answer == (422, {"code": "invalid_request"})


# ---- Consent


def test_consent_comes_and_goes(desk: Desk) -> None:
    given = {"user_id": "hal", "purpose": "care"}
    granted = desk.done(
        "POST",
        "/v1/consent",
        {**given, "action": "granted", "evidence_ref": MARK, "policy_version": "v1", "channel_code": "form"},
    )
    assert (granted["changed"], granted["affected_count"]) == (True, 0)
    memory_id = desk.add("hal agreed", user_id="hal", lawful_basis="consent", purposes=["care"])
    assert found(desk, "agreed") == found(desk, "agreed", purpose="care") == [memory_id]
    assert found(desk, "agreed", purpose="study") == []
    withdrawn = desk.done("POST", "/v1/consent", {**given, "action": "withdrawn"})
    assert (withdrawn["affected_count"], withdrawn["receipt"]["affected_count"]) == (1, 1)
    assert desk.done("POST", "/v1/consent", {**given, "action": "withdrawn"}) == {
        **given,
        "action": "withdrawn",
        "changed": False,
        "affected_count": 0,
    }
    assert found(desk, "agreed") == []
    assert status(desk, memory_id, admin=False) == HIDDEN
    assert status(desk, memory_id)["failures"] == ["consent_invalid"]
    new = {"messages": "hal again", "user_id": "hal", "lawful_basis": "consent", "purposes": ["care"]}
    assert desk.refused("POST", M, new) == BLOCKED
    assert desk.done("POST", "/v1/consent", {**given, "action": "granted"})["affected_count"] == 1
    assert found(desk, "agreed") == [memory_id]
    records = desk.send("GET", "/v1/consent?user_id=hal")
    assert records.json() == {
        "user_id": "hal",
        "results": [
            {
                "purpose": "care",
                "action": "granted",
                "at": desk.clock.at,
                "policy_version": "v1",
                "channel_code": "form",
            },
            *(
                {
                    "purpose": "care",
                    "action": action,
                    "at": desk.clock.at,
                    "policy_version": None,
                    "channel_code": None,
                }
                for action in ("withdrawn", "granted")
            ),
        ],
    }
    assert MARK not in records.text
    assert desk.done("GET", "/v1/consent?user_id=nobody") == {"user_id": "nobody", "results": []}


@pytest.mark.parametrize(
    "body",
    [
        {"purpose": "care", "action": "granted"},
        {"user_id": "a", "purpose": "marketing", "action": "granted"},
        {"user_id": "a", "purpose": "care", "action": "expired"},
        {"user_id": "a", "purpose": "care", "action": "granted", "channel_code": "phone"},
        {"user_id": "a", "purpose": "care", "action": "granted", "policy_version": "v2"},
        {"user_id": "a", "purpose": "care", "action": "granted", "evidence_ref": "é" * 129},
        {"user_id": "a", "purpose": "Care Team", "action": "granted"},
        {"user_id": "a", "purpose": "care", "action": "granted", "at": 1},
    ],
    ids=range(8),
)
def test_refused_consents(desk: Desk, body: object) -> None:
    assert desk.refused("POST", "/v1/consent", body) == (422, {"code": "invalid_request"})
    assert desk.done("GET", "/v1/consent?user_id=a")["results"] == []


# ---- Disclosure


def test_a_disclosure_is_receipted_in_every_state_a_memory_is_kept(desk: Desk) -> None:
    for memory_id in (
        desk.add("told once"),
        desk.restricted(text="told once"),
        desk.without_consent("ida", text="told once"),
        desk.expired(text="told once"),
    ):
        body = {"ground_code": "art18_2_rights_of_others", "recipient": f"{MARK} & Sons"}
        told = desk.done("POST", f"{M}/{memory_id}/disclose", body)
        assert told["disclosed"]["memory"] == "told once"
        assert told["disclosed"]["id"] == told["receipt"]["memory_id"] == memory_id
        assert told["receipt"]["ground_code"] == "art18_2_rights_of_others"
        assert told["receipt"]["recipient_ref"].startswith("hmac-sha256:")
        assert MARK not in json.dumps(told["signed_receipt"])


def test_a_disclosure_needs_a_ground_and_a_memory(desk: Desk) -> None:
    memory_id = desk.add()
    for body in ({}, {"ground_code": "curiosity"}, {"ground_code": "subject_access", "recipient": ""}):
        assert desk.refused("POST", f"{M}/{memory_id}/disclose", body) == (422, {"code": "invalid_request"})
    for ground in DisclosureGround:
        assert desk.done("POST", f"{M}/{memory_id}/disclose", {"ground_code": ground})
        assert desk.refused("POST", f"{M}/{UNKNOWN}/disclose", {"ground_code": ground}) == MISSING
    assert desk.refused("POST", f"{M}/{desk.erased()}/disclose", {"ground_code": "subject_access"}) == MISSING


# ---- Lineage


def lineage(desk: Desk, memory_id: str, direction: str, **asked: Any) -> dict[str, Any]:
    """Ask both views, hold them against each other (DEV-20) and return the graph."""
    query = f"?direction={direction}&limit={asked.pop('limit', 50)}"
    graph = desk.done("GET", f"{M}/{memory_id}/lineage/graph{query}", **asked)
    near = desk.done("GET", f"{M}/{memory_id}/lineage/neighbors{query}", **asked)
    assert graph["nodes"][0]["id"] == memory_id == near["id"] == graph["id"]
    assert graph["nodes"][1:] == near["neighbors"]
    assert (graph["edges"], graph["truncated"]) == (near["edges"], near["truncated"])
    ids = [node["id"] for node in graph["nodes"]]
    assert len(ids) == len(set(ids))
    assert {end for edge in graph["edges"] for end in (edge["from"], edge["to"])} <= set(ids)
    edges = [tuple(edge.items()) for edge in graph["edges"]]
    assert len(edges) == len(set(edges))
    return graph


def node(memory_id: str, kind: str = "memory", *, recallable: bool = True) -> dict[str, object]:
    return {"id": memory_id, "kind": kind, "recallable": recallable}


def test_lineage_after_updates_deletes_and_forgetting(desk: Desk) -> None:
    """DEV-20."""
    a = desk.add("first wording", user_id="jo")
    b = desk.done("PUT", f"{M}/{a}", {"data": "second wording"})["results"][0]["id"]
    c = desk.done("PUT", f"{M}/{b}", {"data": "third wording"})["results"][0]["id"]
    d = desk.add("made from it", derived_from=[c])
    stone_a, stone_b = (node(one, "tombstone", recallable=False) for one in (a, b))
    newest = {"type": "supersedes", "from": c, "to": b}
    made = {"type": "derived_from", "from": d, "to": c}
    assert lineage(desk, c, "out")["nodes"] == [node(c), stone_b]
    # A data key is not told of what it may not see, not even that there was more.
    for limit in (0, 50):
        seen = lineage(desk, c, "out", limit=limit, key=desk.house.data)
        assert (seen["nodes"], seen["edges"], seen["truncated"]) == ([node(c)], [], False)
    assert lineage(desk, c, "in")["edges"] == [made]
    both = lineage(desk, c, "both")
    assert both["nodes"][0] == node(c)
    assert sorted(both["nodes"][1:], key=str) == sorted([stone_b, node(d)], key=str)
    assert sorted(both["edges"], key=str) == sorted([newest, made], key=str)
    assert lineage(desk, a, "both")["nodes"] == [stone_a, stone_b]
    assert lineage(desk, b, "out")["nodes"] == [stone_b, stone_a]
    assert desk.refused("GET", f"{M}/{a}/lineage/graph", key=desk.house.data) == MISSING
    desk.done("DELETE", f"{M}/{c}")
    stone_c = node(c, "tombstone", recallable=False)
    assert lineage(desk, d, "out")["nodes"] == [node(d, recallable=False), stone_c]
    assert desk.refused("GET", f"{M}/{d}/lineage/graph", key=desk.house.data) == MISSING
    desk.done("POST", "/v1/forget", {"user_id": "jo"})
    assert lineage(desk, d, "both")["nodes"] == [node(d, "tombstone", recallable=False), stone_c]
    text = str([lineage(desk, one, "both") for one in (a, b, c, d)])
    assert not any(word in text for word in ("wording", "jo", "sha256"))


def test_lineage_has_bounds(desk: Desk) -> None:
    source = desk.add()
    made = {desk.add(f"part {index}", derived_from=[source]) for index in range(4)}
    assert lineage(desk, source, "in", limit=0) == {
        "id": source,
        "nodes": [node(source)],
        "edges": [],
        "truncated": True,
    }
    few = lineage(desk, source, "in", limit=3)
    assert (len(few["nodes"]), few["truncated"]) == (4, True)
    every = lineage(desk, source, "in", limit=100)
    assert ({one["id"] for one in every["nodes"][1:]}, every["truncated"]) == (made, False)
    assert lineage(desk, source, "out")["truncated"] is False
    for query in ("?limit=101", "?limit=-1", "?limit=x", "?direction=up", "?limit=1&limit=2"):
        for view in ("graph", "neighbors"):
            refused = desk.refused("GET", f"{M}/{source}/lineage/{view}{query}")
            assert refused == (422, {"code": "invalid_request"})


def test_a_restricted_source_takes_what_was_made_of_it_along(desk: Desk) -> None:
    source = desk.add("kai said a thing", user_id="kai")
    derived = desk.add("kai, summed up", derived_from=[source])
    artifact = desk.done("POST", "/v1/artifacts", {"derived_from": [derived], "kind": "summary"})["id"]
    desk.done("POST", f"{M}/{source}/restrict", {})
    assert found(desk, "kai") == []
    nodes = lineage(desk, derived, "both")["nodes"]
    assert [one["recallable"] for one in nodes] == [False, False, False]
    assert nodes[-1]["id"] in {source, artifact}
    for path, body in (
        (M, {"messages": "x", "derived_from": [derived]}),
        ("/v1/artifacts", {"derived_from": [derived], "kind": "summary"}),
        ("/v1/artifacts", {"derived_from": [artifact], "kind": "summary"}),
    ):
        assert desk.refused("POST", path, body) == BLOCKED
    desk.done("DELETE", f"{M}/{source}/restrict")
    assert sorted(found(desk, "kai")) == sorted([source, derived])


def test_artifacts_elsewhere_are_registered_called_back_and_acknowledged(desk: Desk) -> None:
    source = desk.add(user_id="lea")
    body = {"derived_from": [source], "kind": "index", "location_code": "lake"}
    artifact = desk.done("POST", "/v1/artifacts", body, key=desk.house.data)
    assert artifact["id"].startswith("artifact:")
    assert artifact["recallable"] is True
    assert artifact["receipt"]["source_ids"] == [source]
    path = f"/v1/artifacts/{quote(artifact['id'], safe='')}/ack"
    assert lineage(desk, source, "in")["nodes"] == [node(source), node(artifact["id"], "artifact")]
    forgotten = desk.done("POST", "/v1/forget", {"user_id": "lea"})
    assert forgotten["external_artifact_count"] == 1
    assert lineage(desk, source, "in")["nodes"][1] == node(artifact["id"], "artifact", recallable=False)
    asked = [
        one
        for one in desk.done("GET", "/v1/obligations")["results"]
        if one["artifact_id"] == artifact["id"] and one["state"] == "open"
    ]
    assert [one["kind"] for one in asked] == ["external_erasure_ack"]
    told = {"id": artifact["id"], "acknowledged": True}
    assert desk.done("POST", path, key=desk.house.data) == {**told, "changed": True}
    assert desk.done("POST", path, key=desk.house.data) == {**told, "changed": False}
    assert desk.refused("POST", f"/v1/artifacts/artifact:{'0' * 32}/ack") == MISSING


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"derived_from": [UNKNOWN], "kind": "report"}, MISSING),
        ({"derived_from": ["artifact:" + "0" * 32], "kind": "report"}, MISSING),
        ({"derived_from": [], "kind": "report"}, (422, {"code": "invalid_request"})),
        ({"derived_from": ["x", "x"], "kind": "report"}, (422, {"code": "invalid_request"})),
        ({"derived_from": ["x"], "kind": "poem"}, (422, {"code": "invalid_request"})),
        (
            {"derived_from": ["x"], "kind": "report", "location_code": "sea"},
            (422, {"code": "invalid_request"}),
        ),
    ],
    ids=range(6),
)
def test_refused_artifacts(desk: Desk, body: object, refused: tuple[int, dict[str, object]]) -> None:
    assert desk.refused("POST", "/v1/artifacts", body) == refused


def test_without_lineage_everything_else_goes_on() -> None:
    off = (501, {"code": "lineage_unsupported"})
    with open_desk(lineage="off") as plain:
        memory_id = plain.add("no lineage here", user_id="moe")
        for view in ("graph", "neighbors"):
            for one in (memory_id, UNKNOWN):
                assert plain.refused("GET", f"{M}/{one}/lineage/{view}") == off
        derived = {"messages": "x", "derived_from": [memory_id]}
        assert plain.refused("POST", M, derived) == off
        assert plain.refused("POST", f"{M}/batch", {"memories": [derived]}) == off
        assert plain.refused("POST", "/v1/artifacts", {"derived_from": [memory_id], "kind": "report"}) == off
        updated = plain.done("PUT", f"{M}/{memory_id}", {"data": "still none"})["results"][0]["id"]
        assert found(plain, "none") == [updated]
        assert plain.done("POST", "/v1/forget", {"user_id": "moe"})["erased_ids"] == [updated]


def test_without_a_signer_statements_are_unsigned_and_all_there(tmp_path: Path) -> None:
    with open_house(tmp_path, signer="none") as house:

        def done(method: str, url: str, body: object = None) -> dict[str, Any]:
            answer = house.call(method, url, key=house.admin, body=body)
            assert answer.is_success, answer.text
            assert "signature_hex" not in answer.text
            assert "signed" not in answer.text.replace('"signed_receipts":[]', "")
            return answer.json()

        memory_id = house.add("unsigned", "ned")
        memory_id = done("PUT", f"{M}/{memory_id}", {"data": "still unsigned"})["results"][0]["id"]
        assert done("POST", f"{M}/{memory_id}/restrict", {})["receipt"]["action"] == "applied"
        hold = done(
            "POST", "/v1/holds", {"scope": "subject", "user_id": "ned", "authority_code": "litigation"}
        )
        forgotten = done("POST", "/v1/forget", {"user_id": "ned"})
        assert forgotten["closure_receipt"]["disposition"] == "deferred"
        url = f"/v1/holds/{hold['hold_id']}?release_code=matter_closed&confirm=true"
        released = done("DELETE", url)
        assert released["erased_ids"] == [memory_id]
        assert released["closures"][0]["closure_receipt"]["disposition"] == "complete"
        kinds = [one["receipt"]["schema"].split(".")[1] for one in done("GET", "/v1/receipts")["results"]]
        assert kinds == [
            "memory_add",
            "memory_update",
            "restriction",
            "legal_hold",
            "restriction",
            "subject_closure",
            "legal_hold",
            "vector_delete",
            "subject_closure",
        ]


# ---- What holds for every route

TARGETS: dict[str, Callable[[str], tuple[str, object]]] = {
    "PUT /v1/memories/{memory_id}": lambda one: (f"{M}/{one}", {"data": "x"}),
    "GET /v1/memories/{memory_id}": lambda one: (f"{M}/{one}", None),
    "DELETE /v1/memories/{memory_id}": lambda one: (f"{M}/{one}?derived=cascade", None),
    "GET /v1/memories/{memory_id}/verify": lambda one: (f"{M}/{one}/verify", None),
    "POST /v1/memories/{memory_id}/restrict": lambda one: (f"{M}/{one}/restrict", {}),
    "DELETE /v1/memories/{memory_id}/restrict": lambda one: (f"{M}/{one}/restrict", None),
    "POST /v1/memories/{memory_id}/disclose": lambda one: (
        f"{M}/{one}/disclose",
        {"ground_code": "subject_access"},
    ),
    "GET /v1/memories/{memory_id}/lineage/neighbors": lambda one: (f"{M}/{one}/lineage/neighbors", None),
    "GET /v1/memories/{memory_id}/lineage/graph": lambda one: (
        f"{M}/{one}/lineage/graph?direction=both",
        None,
    ),
    "DELETE /v1/holds/{hold_id}": lambda one: (
        f"/v1/holds/{one}?release_code=matter_closed&confirm=true",
        None,
    ),
    "POST /v1/obligations/{obligation_id}/cancel": lambda one: (f"/v1/obligations/{one}/cancel", None),
    "POST /v1/artifacts/{artifact_id}/ack": lambda one: (f"/v1/artifacts/{quote(one, safe='')}/ack", None),
    # Ids in bodies are ids as well.
    "POST /v1/holds": lambda one: (
        "/v1/holds",
        {"scope": "memory", "memory_id": one, "authority_code": "litigation"},
    ),
    "POST /v1/artifacts": lambda one: ("/v1/artifacts", {"derived_from": [one], "kind": "report"}),
    "POST /v1/memories": lambda one: (M, {"messages": "x", "derived_from": [one]}),
    "POST /v1/memories/batch": lambda one: (
        f"{M}/batch",
        {"memories": [{"messages": "x", "derived_from": [one]}]},
    ),
}


@pytest.fixture(scope="module")
def owned(desk: Desk) -> dict[str, str]:
    """What the tenant has, in every state, by what it is."""
    held = desk.add(user_id="mia")
    hold_id = desk.hold(held)
    owed = desk.done("POST", "/v1/forget", {"user_id": "mia"})["obligations"][0]
    source = desk.add()
    artifact = desk.done("POST", "/v1/artifacts", {"derived_from": [source], "kind": "cache"})["id"]
    states = {"live": source, "held": held, "erased": desk.erased(), **blocked(desk)}
    return {**states, "hold": hold_id, "obligation": owed, "artifact": artifact}


def test_every_route_with_an_id_is_among_the_targets() -> None:
    named = {f"{one.method} {one.path}" for one in OPERATIONS if "{" in one.path}
    assert named <= TARGETS.keys()


@pytest.mark.parametrize("route", TARGETS)
def test_a_foreign_id_is_an_unknown_id(desk: Desk, owned: dict[str, str], route: str) -> None:
    """DEV-21, T-32: byte for byte, headers included, for every state and kind of thing; nothing changes."""
    method = route.partition(" ")[0]
    before = [desk.done("GET", path) for path in ("/v1/holds", "/v1/obligations")], len(desk.log())
    for one in owned.values():
        unknown = one[:-32] + "0" * 32
        answers = []
        for each in (one, unknown):
            url, body = TARGETS[route](each)
            answers.append(desk.send(method, url, body, key=desk.house.other))
        foreign, nothing = answers
        expected = 200 if route.endswith("/verify") else 404
        assert (foreign.status_code, nothing.status_code) == (expected, expected)
        if expected == 200:
            assert foreign.content == nothing.content
        else:
            assert without_id(foreign) == without_id(nothing)
        assert fields_of(foreign.headers) == fields_of(nothing.headers)
    assert before == ([desk.done("GET", path) for path in ("/v1/holds", "/v1/obligations")], len(desk.log()))


def test_a_stranger_sees_nothing_in_any_list(desk: Desk, owned: dict[str, str]) -> None:
    assert owned
    for path in ("holds", "obligations", "receipts", "tombstones", "memories"):
        assert desk.done("GET", f"/v1/{path}", key=desk.house.other)["results"] == []
    accesses = desk.done("GET", "/v1/audit", key=desk.house.other)["results"]  # the stranger's own
    assert desk.tenant.actor not in {one["actor_ref"] for one in accesses}
    assert desk.done("GET", "/v1/consent?user_id=withdrawer", key=desk.house.other)["results"] == []
    origin = desk.done("GET", "/v1/receipts")["origin"]
    assert desk.done("GET", f"/v1/receipts?origin={origin}", key=desk.house.other)["results"] == []
    stone = desk.done("POST", "/v1/forget", {"user_id": "mia"})["closure_receipt"]["subject_pseudonym"]
    url = f"/v1/tombstones?subject_pseudonym={stone}"
    assert desk.done("GET", url, key=desk.house.other)["results"] == []


WITH_BODY = [one for one in OPERATIONS if one.body is not Nothing]
VALID: dict[str, dict[str, object]] = {
    "/v1/memories": {"messages": MARK},
    "/v1/memories/batch": {"memories": [{"messages": MARK}]},
    "/v1/search": {"query": MARK},
    "/v1/forget": {"user_id": MARK},
    "/v1/export": {"user_id": MARK},
    "/v1/memories/{memory_id}": {"data": MARK},
    "/v1/memories/{memory_id}/restrict": {"reason": "art18_request"},
    "/v1/memories/{memory_id}/disclose": {"ground_code": "subject_access", "recipient": MARK},
    "/v1/artifacts": {"derived_from": [MARK], "kind": "report"},
    "/v1/holds": {"scope": "subject", "user_id": MARK, "authority_code": "litigation"},
    "/v1/consent": {"user_id": MARK, "purpose": "care", "action": "granted"},
}


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: f"{one.method} {one.path}")
def test_fields_nobody_knows_are_refused_and_not_repeated(desk: Desk, operation: Any) -> None:
    path = operation.path.replace("{memory_id}", UNKNOWN)
    valid = VALID[operation.path]
    receipts = len(desk.log())
    for extra in ({MARK: 1}, {"tenant_id": MARK}, {"user": {MARK: [MARK]}}):
        answer = desk.send(operation.method, path, {**valid, **extra})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert MARK not in answer.text
    assert len(desk.log()) == receipts


def test_whatever_is_refused_repeats_nothing_of_it(desk: Desk) -> None:
    """DEV-29 for codes, references and ids, which look harmless."""
    memory_id = desk.add()
    for method, url, body in (
        ("POST", f"{M}/{MARK}/restrict", {}),
        ("POST", f"{M}/{memory_id}/restrict", {"reason": MARK}),
        ("DELETE", f"{M}/{memory_id}/restrict?notice_sent_at={MARK}", None),
        ("PUT", f"{M}/{MARK}", {"data": MARK}),
        ("POST", f"{M}/{MARK}/disclose", {"ground_code": "subject_access", "recipient": MARK}),
        ("POST", f"{M}/{memory_id}/disclose", {"ground_code": MARK}),
        ("POST", "/v1/holds", {"scope": "memory", "memory_id": MARK, "authority_code": "litigation"}),
        ("POST", "/v1/holds", {"scope": "memory", "memory_id": memory_id, "authority_code": MARK}),
        ("DELETE", f"/v1/holds/{MARK}?release_code=expired", None),
        ("DELETE", f"/v1/holds/{MARK}?release_code={MARK}", None),
        ("POST", f"/v1/obligations/{MARK}/cancel", None),
        ("POST", "/v1/consent", {"user_id": MARK, "purpose": "zq7", "action": "granted"}),
        ("POST", "/v1/consent", {"user_id": MARK, "purpose": MARK, "action": MARK}),
        ("GET", f"/v1/consent?user_id={MARK}%00", None),
        ("POST", "/v1/artifacts", {"derived_from": [MARK], "kind": "report"}),
        ("POST", "/v1/artifacts", {"derived_from": [memory_id], "kind": "report", "location_code": "zq7"}),
        ("POST", f"/v1/artifacts/{MARK}/ack", None),
        ("GET", f"{M}/{MARK}/lineage/graph?direction=in", None),
        ("GET", f"{M}/{memory_id}/lineage/neighbors?direction={MARK}", None),
        ("GET", f"/v1/receipts?origin={MARK}", None),
        ("GET", f"/v1/tombstones?cursor={MARK}", None),
        ("GET", f"/v1/tombstones?subject_pseudonym={MARK}", None),
        ("GET", f"/v1/audit?after_seq={MARK}", None),
    ):
        answer = desk.send(method, url, body)
        assert answer.status_code in {404, 422}, url
        assert MARK.lower() not in answer.text.lower()
        assert "zq7" not in answer.text.lower()


@pytest.mark.parametrize("path", [f"{M}/{{}}", f"{M}/{{}}/restrict"])
def test_a_delete_needs_no_body_and_reads_none(desk: Desk, path: str) -> None:
    for content in (None, b"", b"{", b'{"basis":"x"}', b"x" * (SINGLE.octets + 1)):
        url = path.format(desk.add())
        answer = desk.house.call("DELETE", url, key=desk.house.admin, content=content)
        assert answer.status_code == 200, answer.text


def test_receipts_are_content_free(desk: Desk) -> None:
    """DEV-28: nothing the caller wrote, and no plain hash of it, is in any statement."""
    texts = ["yes", "nessa@example.com", "M-2031 ./. Nessa", "Nessa & Sons", "proof 7", "other text", "Mood"]
    text, subject, matter, recipient, evidence, update, kind = texts
    start = len(desk.log())
    memory_id = desk.add(text, user_id=subject, semantic_type=kind, metadata={"note": "proof 7"})
    twin = desk.add(text, user_id=subject, semantic_type=kind)
    desk.done("POST", f"{M}/{memory_id}/restrict", {})
    desk.done("DELETE", f"{M}/{memory_id}/restrict")
    body = {"ground_code": "subject_access", "recipient": recipient}
    desk.done("POST", f"{M}/{memory_id}/disclose", body)
    body = {"user_id": subject, "purpose": "study", "action": "granted", "evidence_ref": evidence}
    desk.done("POST", "/v1/consent", body)
    body = {"scope": "subject", "user_id": subject, "authority_code": "litigation", "matter_ref": matter}
    hold_id = desk.done("POST", "/v1/holds", body)["hold_id"]
    desk.done("DELETE", f"/v1/holds/{hold_id}?release_code=placed_in_error")
    memory_id = desk.done("PUT", f"{M}/{memory_id}", {"data": update})["results"][0]["id"]
    desk.done("POST", "/v1/artifacts", {"derived_from": [memory_id], "kind": "report"})
    desk.done("DELETE", f"{M}/{twin}")
    desk.done("POST", "/v1/forget", {"user_id": subject})
    new = desk.log()[start:]
    told = json.dumps(new).lower()
    for word in texts[1:]:
        assert word.lower() not in told
    for word in [*texts, *(subject + one for one in texts), *(one + subject for one in texts)]:
        for name in ("md5", "sha1", "sha256", "sha512", "blake2b"):
            assert hashlib.new(name, word.encode()).hexdigest()[:16] not in told
    retired = [mark for one in new for mark in one["receipt"].get("retirement_hashes", [])]
    assert len(retired) == len(set(retired)) == 3


def test_every_kind_of_receipt_was_handed_out_and_authenticates(desk: Desk) -> None:
    assert {schema.split(".")[1] for schema in desk.seen.values()} == {
        "memory_add",
        "memory_update",
        "vector_delete",
        "restriction",
        "subject_closure",
        "legal_hold",
        "consent",
        "disclosure",
        "derived_artifact",
    }
