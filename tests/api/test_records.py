"""The records, page by page, and what is read when they cannot be kept. SEMANTICS.md §14, §17."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from shomei_memory_verify.audit import judge
from shomei_service.engine.errors import AuditUnavailable
from shomei_service.engine.model import MemoryId
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.recompute import recompute
from tests.api.desk import Desk, open_desk
from tests.api.house import UNKNOWN, serve

M = "/v1/memories"
MARK = "ZQ7-9d27f3b8"
UNAVAILABLE = (503, {"code": "audit_unavailable"})


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with open_desk() as opened:
        yield opened


@pytest.fixture(scope="module")
def strict() -> Iterator[Desk]:
    with open_desk(audit="strict") as opened:
        yield opened


def pages(desk: Desk, path: str, limit: int, step: str, **asked: Any) -> Iterator[list[dict[str, Any]]]:
    """Read to the end: by `after_seq` until a page is empty, by `cursor` until none follows."""
    at: Any = -1 if step == "after_seq" else None
    while True:
        query = f"{path}{'&' if '?' in path else '?'}limit={limit}" + (
            f"&{step}={at}" if at is not None else ""
        )
        page = desk.done("GET", query, **asked)
        results = page["results"]
        assert len(results) <= limit
        if step == "after_seq":
            if not results:
                return
            last = results[-1]
            at = last["receipt"]["log"]["seq"] if "receipt" in last else last["seq"]
        yield results
        if step == "cursor":
            at = page["next_cursor"]
            if at is None:
                return
            assert len(results) == limit


def whole(desk: Desk, path: str, limit: int, step: str, **asked: Any) -> list[dict[str, Any]]:
    return [one for page in pages(desk, path, limit, step, **asked) for one in page]


# ---- Receipts


def test_receipts_come_complete_and_in_order(desk: Desk) -> None:
    body = {"memories": [{"messages": f"part {index}"} for index in range(120)]}
    handed_out = [one["receipt_hash"] for one in desk.done("POST", f"{M}/batch", body)["results"]]
    every = whole(desk, "/v1/receipts", 500, "after_seq")
    assert [one["receipt_hash"] for one in every][-120:] == handed_out
    assert [one["receipt"]["log"]["seq"] for one in every] == list(range(len(every)))
    times = [one["receipt"]["applied_at"] for one in every]
    assert times == sorted(times)
    for limit in (1, 7, 60, 119, 120):
        assert whole(desk, "/v1/receipts", limit, "after_seq") == every
    assert len(desk.done("GET", "/v1/receipts")["results"]) == 100
    page = desk.done("GET", f"/v1/receipts?after_seq={len(every)}")
    assert page["results"] == []
    assert page["origins"] == [page["origin"]] == [every[0]["receipt"]["log"]["origin"]]
    assert desk.done("GET", f"/v1/receipts?origin={page['origin']}&limit=500")["results"] == every
    elsewhere = f"shomei/{'0' * 32}"
    assert desk.done("GET", f"/v1/receipts?origin={elsewhere}") == {
        "origin": elsewhere,
        "origins": page["origins"],
        "results": [],
    }


def test_an_auditor_finds_every_receipt_authentic_and_nothing_missing(desk: Desk) -> None:
    desk.add(user_id="ada")
    desk.done("POST", "/v1/forget", {"user_id": "ada"})
    log = desk.log()
    findings = [judge(json.dumps(one["signed_receipt"]).encode(), [desk.pin]) for one in log]
    assert {finding.reason for finding in findings} == {"ok"}
    assert [finding.seq for finding in findings] == list(range(len(log)))
    recomputed = recompute(desk.house.engine, desk.tenant)
    assert (recomputed.receipts, recomputed.disagreeing, recomputed.gaps) == (len(log), [], [])


# ---- Tombstones


def test_tombstones_come_complete_and_in_order(desk: Desk) -> None:
    own = [desk.add(user_id="bea") for _ in range(5)]
    derived = desk.add(user_id="cleo", derived_from=own[:1])
    alone = desk.erased()
    forgotten = desk.done("POST", "/v1/forget", {"user_id": "bea"})
    every = whole(desk, "/v1/tombstones", 500, "cursor")
    ids = [one["tombstone_id"] for one in every]
    assert ids == sorted(set(ids))
    assert {*own, derived, alone} <= {one["memory_id"] for one in every}
    for limit in (1, 3, len(every) - 1, len(every)):
        assert whole(desk, "/v1/tombstones", limit, "cursor") == every
    log = {one["receipt_hash"]: one["receipt"] for one in desk.log()}
    for one in every:
        receipt = log[one["receipt_hash"]]
        assert (receipt["memory_id"], receipt["tombstone_id"]) == (one["memory_id"], one["tombstone_id"])
        assert (receipt["cause"], receipt["subject_pseudonym"]) == (one["cause"], one["subject_pseudonym"])

    # One subject's closed set: also what was made from it and is another's.
    pseudonym = forgotten["closure_receipt"]["subject_pseudonym"]
    path = f"/v1/tombstones?subject_pseudonym={pseudonym}"
    mine = whole(desk, path, 2, "cursor")
    assert {one["memory_id"] for one in mine} == {*own, derived}
    assert len(mine) == forgotten["closure_receipt"]["closed_set_size"]
    nobody = f"hmac-sha256:{'0' * 64}"
    assert whole(desk, f"/v1/tombstones?subject_pseudonym={nobody}", 2, "cursor") == []


def test_a_tombstone_says_when_the_bytes_are_gone(desk: Desk) -> None:
    desk.erased()
    upkeep(desk.house.engine)
    assert all(one["physically_purged"] for one in whole(desk, "/v1/tombstones", 500, "cursor"))


# ---- The read audit


def test_every_read_and_every_refusal_is_on_record(desk: Desk) -> None:
    data = {"key": desk.house.data}
    one, two = (desk.add(f"{MARK} {word}", user_id="dora") for word in ("kite", "sail"))
    held = desk.add(user_id="eve")
    desk.hold(held)
    before = len(whole(desk, "/v1/audit", 500, "after_seq"))
    desk.done("GET", f"{M}/{one}", **data)
    desk.done("GET", f"{M}?user_id=dora", **data)
    desk.done("POST", "/v1/search", {"query": f"{MARK} kite sail", "user_id": "dora"}, **data)
    desk.done("GET", f"{M}/{two}/verify", **data)
    desk.done("GET", f"{M}/{MARK}/verify", **data)
    desk.done("GET", f"{M}/{two}/lineage/graph", **data)
    desk.done("GET", f"{M}/{two}/lineage/neighbors", **data)
    desk.done("POST", f"{M}/{one}/disclose", {"ground_code": "subject_access", "recipient": MARK})
    desk.done("GET", "/v1/consent?user_id=dora")
    desk.refused("GET", f"{M}/{UNKNOWN}", **data)
    desk.refused("DELETE", f"{M}/{held}")
    desk.refused("PUT", f"{M}/{held}", {"data": MARK})
    desk.done("POST", f"{M}/{two}/restrict", {"reason": "art18_1_c_legal_claims"})
    desk.refused("PUT", f"{M}/{two}", {"data": MARK})
    desk.refused("DELETE", f"{M}/{two}")
    every = whole(desk, "/v1/audit", 500, "after_seq")
    told = [
        (one["actor_kind"], one["verb"], one["outcome_code"], one["memory_ids"], one["count"])
        for one in every[before:]
    ]
    search = next(ids for _, verb, _, ids, _ in told if verb == "search")
    assert set(search) == {one, two}
    assert told == [
        ("data", "get", "ok", [one], 1),
        ("data", "list", "ok", [one, two], 2),
        ("data", "search", "ok", search, 2),
        ("data", "verify", "ok", [two], 1),
        ("data", "verify", "ok", [], 0),
        ("data", "lineage", "ok", [two], 1),
        ("data", "lineage", "ok", [two], 1),
        ("admin", "disclose", "ok", [one], 1),
        ("admin", "consents", "ok", [], 0),
        ("admin", "erase", "held", [held], 1),
        ("admin", "update", "held", [held], 1),
        ("admin", "update", "blocked", [two], 1),
        ("admin", "erase", "blocked", [two], 1),
    ]
    assert {one["actor_ref"] for one in every if one["actor_kind"] == "admin"} == {desk.tenant.actor}
    assert all(time.time() - 600 < one["at"] <= time.time() for one in every)


def test_the_audit_is_a_chain_that_anybody_can_follow(desk: Desk) -> None:
    for _ in range(9):
        desk.send("GET", f"{M}/{UNKNOWN}/verify")
    every = whole(desk, "/v1/audit", 500, "after_seq")
    assert [one["seq"] for one in every] == list(range(len(every)))
    link = "sha256:" + 64 * "0"
    for one in every:
        assert one["prev_hash"] == link
        link = "sha256:" + hashlib.sha256(rfc8785.dumps(one)).hexdigest()
    for limit in (1, 4, len(every)):
        assert whole(desk, "/v1/audit", limit, "after_seq") == every


def test_the_audit_names_a_hundred_ids_and_counts_the_rest(desk: Desk) -> None:
    body = {"memories": [{"messages": "many", "user_id": "many"} for _ in range(130)]}
    desk.done("POST", f"{M}/batch", body)
    desk.done("GET", f"{M}?user_id=many&limit=500")
    last = whole(desk, "/v1/audit", 500, "after_seq")[-1]
    assert (last["verb"], last["count"], len(last["memory_ids"])) == ("list", 130, 100)


def test_nothing_that_was_read_is_in_the_records(desk: Desk) -> None:
    desk.add(MARK, user_id=f"{MARK}@example.com", semantic_type="DIARY", metadata={"note": MARK})
    desk.done("POST", "/v1/search", {"query": f"{MARK} diary"})
    desk.done("GET", f"{M}?user_id={MARK}%40example.com")
    every = [
        whole(desk, "/v1/audit", 500, "after_seq"),
        whole(desk, "/v1/tombstones", 500, "cursor"),
        desk.log(),
    ]
    told = json.dumps(every).lower()
    assert not any(word in told for word in (MARK.lower(), "example.com", "diary"))


@pytest.mark.parametrize(
    "query",
    [
        "receipts?limit=0",
        "receipts?limit=501",
        "receipts?limit=ten",
        "receipts?after_seq=-2",
        "receipts?after_seq=9007199254740992",
        "receipts?origin=shomei/x",
        "tombstones?limit=0",
        "tombstones?limit=501",
        "tombstones?cursor=ts_1",
        "tombstones?subject_pseudonym=ada",
        "audit?limit=0",
        "audit?limit=501",
        "audit?after_seq=-2",
        "audit?after_seq=1&after_seq=2",
    ],
)
def test_refused_pages(desk: Desk, query: str) -> None:
    assert desk.refused("GET", f"/v1/{query}") == (422, {"code": "invalid_request"})


# ---- T-22: when the audit can not be written


def database(desk: Desk) -> Path:
    path = desk.house.engine.store.path
    assert path is not None
    return path


@contextmanager
def broken(desk: Desk, how: str) -> Iterator[None]:
    """Make writing the audit fail for as long as the block lasts."""
    breaking, mending = {
        "gone": ("ALTER TABLE audit RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO audit"),
        "full": (
            "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'disk full'); END",
            "DROP TRIGGER full",
        ),
    }[how]
    with closing(sqlite3.connect(database(desk), isolation_level=None)) as connection:
        connection.execute(breaking)
        try:
            yield
        finally:
            connection.execute(mending)


def written(desk: Desk) -> int:
    with closing(sqlite3.connect(f"file:{database(desk)}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT count(*) FROM audit").fetchone()[0]


def reads(memory_id: str) -> list[tuple[str, str, dict[str, str] | None]]:
    return [
        ("GET", f"{M}/{memory_id}", None),
        ("GET", M, None),
        ("POST", "/v1/search", {"query": MARK}),
        ("GET", f"{M}/{memory_id}/verify", None),
        ("GET", f"{M}/{memory_id}/lineage/graph", None),
        ("GET", f"{M}/{memory_id}/lineage/neighbors", None),
        ("POST", f"{M}/{memory_id}/disclose", {"ground_code": "subject_access"}),
        ("GET", "/v1/consent?user_id=ada", None),
    ]


def test_a_strict_audit_is_written_before_the_answer(strict: Desk) -> None:
    memory_id = strict.add(MARK)
    for method, url, body in reads(memory_id):
        before = written(strict)
        strict.done(method, url, body)
        assert written(strict) == before + 1, url


@pytest.mark.parametrize("how", ["gone", "full"])
def test_a_strict_audit_that_fails_lets_no_text_out(strict: Desk, how: str) -> None:
    memory_id, held = strict.add(MARK), strict.add(MARK)
    strict.hold(held)
    receipts = len(strict.log())
    with broken(strict, how):
        for method, url, body in reads(memory_id):
            answer = strict.send(method, url, body)
            assert (answer.status_code, answer.json()["code"]) == (503, "audit_unavailable")
            assert answer.headers["retry-after"].isdigit()
            assert MARK not in answer.text
            assert "disk full" not in answer.text
        assert strict.refused("DELETE", f"{M}/{held}") == UNAVAILABLE  # not even that it is held
        assert len(strict.log()) == receipts  # nor a receipt of a disclosure that was not made
        # What changes things leaves receipts, and goes on.
        added = strict.add(MARK)
        assert strict.done("POST", f"{M}/{added}/restrict", {})["changed"] is True
        assert strict.done("DELETE", f"{M}/{added}")["deleted"] is True
    for method, url, body in reads(memory_id):
        strict.done(method, url, body)
    events = whole(strict, "/v1/audit", 500, "after_seq")
    assert [one["seq"] for one in events] == list(range(len(events)))


def test_no_text_passes_the_socket_either(strict: Desk) -> None:
    memory_id = strict.add(MARK)
    with serve(strict.house) as live, broken(strict, "gone"):
        for method, url, body in reads(memory_id):
            sent = json.dumps(body).encode() if body else b""
            answer = live.ask(method, url, key=strict.house.admin, body=sent)
            assert (answer.status, answer.json["code"]) == (503, "audit_unavailable")
            assert MARK.encode() not in answer.body
        assert live.ask("GET", "/healthz").status == 200


def test_a_batched_audit_loses_nothing_while_it_can_not_be_written(desk: Desk) -> None:
    memory_id = desk.add(MARK)
    before = len(whole(desk, "/v1/audit", 500, "after_seq"))
    with broken(desk, "gone"):
        for _ in range(3):
            desk.done("GET", f"{M}/{memory_id}")
            with pytest.raises(AuditUnavailable):
                upkeep(desk.house.engine)
        assert desk.refused("GET", "/v1/audit") == UNAVAILABLE
    with broken(desk, "full"):
        desk.done("GET", f"{M}/{memory_id}/verify")
        with pytest.raises(AuditUnavailable):
            upkeep(desk.house.engine)
    after = whole(desk, "/v1/audit", 500, "after_seq")[before:]
    assert [one["verb"] for one in after] == ["get", "get", "get", "verify"]


def notes(desk: Desk, memory_id: str) -> bool:
    try:
        desk.house.engine.audit.note(desk.tenant, "get", [MemoryId(memory_id)])
    except AuditUnavailable:
        return False
    return True


def test_a_batched_audit_refuses_reads_rather_than_grow_for_ever(desk: Desk) -> None:
    memory_id = desk.add(MARK)
    engine = desk.house.engine
    before = written(desk)
    taken = next(number for number in range(1_000_000) if not notes(desk, memory_id))
    assert 1_000 <= taken <= 100_000
    for method, url, body in reads(memory_id):
        answer = desk.send(method, url, body)
        assert (answer.status_code, answer.json()["code"]) == (503, "audit_unavailable")
        assert MARK not in answer.text
    desk.add(MARK)
    upkeep(engine)
    assert written(desk) >= before + taken
    assert desk.done("GET", f"{M}/{memory_id}")["memory"] == MARK
