"""The same call made again: one effect, the same bytes, nothing personal kept. T-17, SEMANTICS.md §16."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import httpx
import pytest

from shomei_service.api.routes import OPERATIONS
from shomei_service.engine import failpoints
from shomei_service.engine.model import NewMemory, Retry
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.add import add
from tests.api.desk import DAY, Desk, open_desk
from tests.api.house import UNKNOWN, House
from tests.engine.custody.postgres import programs, server
from tests.fakes import new_home

M = "/v1/memories"
MARK = "ZQ7-5be90c31"
IN_FLIGHT = (409, {"code": "idempotency_in_flight"})
MISMATCH = (422, {"code": "idempotency_mismatch"})
numbers = count()


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with open_desk() as opened:
        yield opened


@dataclass(frozen=True)
class Made:
    """A call that is ready to be made: where, with what, and how many receipts one effect leaves."""

    url: str
    body: dict[str, Any] | None = None
    receipts: int = 1


def fresh_subject() -> str:
    return f"{MARK} subject {next(numbers)}"


def a_forget(desk: Desk) -> Made:
    subject = fresh_subject()
    held = desk.add(user_id=subject)
    desk.hold(held)
    desk.add(user_id=subject)
    return Made("/v1/forget", {"user_id": subject}, receipts=3)  # one erased, one restricted, the closure


def a_release(desk: Desk) -> Made:
    subject = fresh_subject()
    hold_id = desk.hold(desk.add(user_id=subject))
    desk.done("POST", "/v1/forget", {"user_id": subject})
    url = f"/v1/holds/{hold_id}?release_code=matter_closed&confirm=true"
    return Made(url, receipts=3)  # the release, the erasure, the follow-up closure


def a_cancellation(desk: Desk) -> Made:
    subject = fresh_subject()
    desk.hold(desk.add(user_id=subject))
    owed = desk.done("POST", "/v1/forget", {"user_id": subject})["obligations"][0]
    return Made(f"/v1/obligations/{owed}/cancel")


def an_acknowledgement(desk: Desk) -> Made:
    body = {"derived_from": [desk.add()], "kind": "cache"}
    return Made(f"/v1/artifacts/{desk.done('POST', '/v1/artifacts', body)['id']}/ack", receipts=0)


def a_hold(_desk: Desk) -> Made:
    body = {
        "scope": "subject",
        "user_id": fresh_subject(),
        "authority_code": "litigation",
        "matter_ref": MARK,
    }
    return Made("/v1/holds", body)


def a_consent(_desk: Desk) -> Made:
    body = {"user_id": fresh_subject(), "purpose": "care", "action": "granted", "evidence_ref": MARK}
    return Made("/v1/consent", body)


CALLS: dict[str, Callable[[Desk], Made]] = {
    "POST /v1/memories": lambda _: Made(M, {"messages": MARK, "user_id": fresh_subject()}),
    "POST /v1/memories/batch": lambda _: Made(
        f"{M}/batch", {"memories": [{"messages": MARK}, {"messages": MARK}]}, receipts=2
    ),
    "PUT /v1/memories/{memory_id}": lambda desk: Made(f"{M}/{desk.add()}", {"data": MARK}),
    "DELETE /v1/memories/{memory_id}": lambda desk: Made(f"{M}/{desk.add()}?basis=subject_request"),
    "POST /v1/forget": a_forget,
    "POST /v1/memories/{memory_id}/restrict": lambda desk: Made(
        f"{M}/{desk.add()}/restrict", {"reason": "retention_review"}
    ),
    "DELETE /v1/memories/{memory_id}/restrict": lambda desk: Made(f"{M}/{desk.restricted()}/restrict"),
    "POST /v1/memories/{memory_id}/disclose": lambda desk: Made(
        f"{M}/{desk.add()}/disclose", {"ground_code": "subject_access", "recipient": MARK}
    ),
    "POST /v1/artifacts": lambda desk: Made("/v1/artifacts", {"derived_from": [desk.add()], "kind": "cache"}),
    "POST /v1/artifacts/{artifact_id}/ack": an_acknowledgement,
    "POST /v1/holds": a_hold,
    "DELETE /v1/holds/{hold_id}": a_release,
    "POST /v1/obligations/{obligation_id}/cancel": a_cancellation,
    "POST /v1/consent": a_consent,
    "POST /v1/search": lambda _: Made("/v1/search", {"query": MARK}, receipts=0),
}
NOT_BUILT = {"POST /v1/export"}
every_call = pytest.mark.parametrize("route", CALLS)


def fresh_key() -> str:
    return f"{MARK}-key-{next(numbers)}"


def ask(house: House, route: str, made: Made, retry: str) -> httpx.Response:
    method = route.partition(" ")[0]
    headers = {"idempotency-key": retry}
    return house.call(method, made.url, key=house.admin, body=made.body, headers=headers)


def test_every_writing_route_is_among_the_calls() -> None:
    writing = {f"{one.method} {one.path}" for one in OPERATIONS if one.method != "GET"}
    assert writing == CALLS.keys() | NOT_BUILT


@every_call
def test_made_again_it_is_one_effect_and_the_same_bytes(desk: Desk, route: str) -> None:
    made, retry = CALLS[route](desk), fresh_key()
    method = route.partition(" ")[0]
    before = len(desk.log())
    first = desk.send(method, made.url, made.body, retry=retry)
    assert first.is_success, first.text
    assert len(desk.log()) == before + made.receipts
    for _ in range(2):
        again = desk.send(method, made.url, made.body, retry=retry)
        assert (again.status_code, again.content) == (first.status_code, first.content)
    assert len(desk.log()) == before + made.receipts


def ten_at_once(desk: Desk, route: str) -> None:
    """Make a call ten times at once: one effect, and one answer for whoever is not told to wait."""
    made, retry = CALLS[route](desk), fresh_key()
    before = len(desk.log())
    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(lambda _: ask(desk.house, route, made, retry), range(10)))
    last = ask(desk.house, route, made, retry)
    assert last.is_success, last.text
    assert len(desk.log()) == before + made.receipts
    for answer in answers:
        if answer.status_code == IN_FLIGHT[0]:
            assert answer.json()["code"] == "idempotency_in_flight"
        else:
            assert (answer.status_code, answer.content) == (last.status_code, last.content)
    assert any(answer.is_success for answer in answers)


@every_call
def test_ten_at_once_are_one_effect_and_the_same_bytes(desk: Desk, route: str) -> None:
    ten_at_once(desk, route)


@pytest.mark.skipif(programs() is None, reason="must: there is no PostgreSQL on this machine")
def test_where_writers_do_not_queue_it_is_the_same() -> None:
    binaries = programs()
    assert binaries is not None
    with (
        server(binaries) as running,
        open_desk(database_url=running.database("main"), custody_url=running.database("custody")) as desk,
    ):
        for route in CALLS:
            ten_at_once(desk, route)


def another(route: str, made: Made) -> Made:
    """Return a different request to the same route."""
    if "release_code" in made.url:
        return replace(made, url=made.url.replace("matter_closed", "court_order"))
    if made.body is None:
        return replace(made, url=re.sub("[0-9a-f]{32}", "0" * 32, made.url))
    other = {
        "data": "other",
        "messages": "other",
        "reason": "poisoning_suspected",
        "memories": [{"messages": "x"}],
        "ground_code": "art18_2_consent",
        "kind": "model",
        "matter_ref": "other",
        "evidence_ref": "other",
        "user_id": "other",
    }
    name = next(one for one in other if one in made.body)
    return replace(made, body={**made.body, name: other[name]})


@pytest.mark.parametrize("route", sorted(CALLS.keys() - {"POST /v1/search"}))
def test_another_request_under_the_key_is_refused_and_does_nothing(desk: Desk, route: str) -> None:
    made, retry = CALLS[route](desk), fresh_key()
    method = route.partition(" ")[0]
    desk.done(method, made.url, made.body, retry=retry)
    before = len(desk.log()), [desk.done("GET", path) for path in ("/v1/holds", "/v1/obligations")]
    other = another(route, made)
    assert desk.refused(method, other.url, other.body, retry=retry) == MISMATCH
    assert desk.send(method, made.url, made.body, retry=retry).is_success
    assert before == (
        len(desk.log()),
        [desk.done("GET", path) for path in ("/v1/holds", "/v1/obligations")],
    )


def test_ten_different_requests_at_once_are_one_effect(desk: Desk) -> None:
    retry, before = fresh_key(), len(desk.log())
    calls = [Made(M, {"messages": f"{MARK} number {index}"}) for index in range(10)]
    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(lambda made: ask(desk.house, "POST /v1/memories", made, retry), calls))
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [200, *[422] * 9]
    assert {one.json()["code"] for one in answers if one.status_code == 422} == {"idempotency_mismatch"}
    assert len(desk.log()) == before + 1


def test_a_key_is_one_callers_and_one_routes(desk: Desk) -> None:
    retry, memory_id = fresh_key(), desk.add()
    body = {"messages": "the same words"}
    ids = {
        desk.done("POST", M, body, key=key, retry=retry)["results"][0]["id"]
        for key in (desk.house.data, desk.house.admin, desk.house.other)
        for _ in range(2)
    }
    assert len(ids) == 3
    # One key on every step of a conversation: each route keeps its own.
    assert desk.done("POST", f"{M}/{memory_id}/restrict", {}, retry=retry)["restricted"] is True
    assert desk.done("DELETE", f"{M}/{memory_id}/restrict", retry=retry)["restricted"] is False
    assert desk.done("DELETE", f"{M}/{memory_id}", retry=retry)["deleted"] is True
    assert desk.done("POST", f"{M}/{memory_id}/restrict", {}, retry=retry)["restricted"] is True
    assert desk.refused("POST", f"{M}/{memory_id}/restrict", {})[0] == 404


def test_an_erased_memory_does_not_come_back_with_its_add(desk: Desk) -> None:
    retry, body = fresh_key(), {"messages": MARK, "user_id": "erased again"}
    first = desk.done("POST", M, body, retry=retry)["results"][0]
    desk.done("DELETE", f"{M}/{first['id']}")
    again = desk.done("POST", M, body, retry=retry)["results"][0]
    assert again == {**first, "memory": None, "erased": True}
    # The body that was compared went with the memory, so any body asks for the same result.
    other = desk.send("POST", M, {"messages": "quite another"}, retry=retry)
    assert other.json()["results"] == [again]
    assert desk.done("GET", f"{M}?user_id=erased%20again")["results"] == []


def test_an_updated_memory_does_not_come_back_with_its_add(desk: Desk) -> None:
    add_key, update_key = fresh_key(), fresh_key()
    first = desk.done("POST", M, {"messages": MARK}, retry=add_key)["results"][0]
    updated = desk.done("PUT", f"{M}/{first['id']}", {"data": "corrected"}, retry=update_key)
    again = desk.done("POST", M, {"messages": MARK}, retry=add_key)["results"][0]
    assert again == {**first, "memory": None, "erased": True}
    desk.done("DELETE", f"{M}/{updated['results'][0]['id']}")
    assert desk.done("PUT", f"{M}/{first['id']}", {"data": "corrected"}, retry=update_key) == updated


def test_of_a_batch_only_what_is_left_comes_back(desk: Desk) -> None:
    retry, body = fresh_key(), {"memories": [{"messages": f"{MARK} {index}"} for index in range(3)]}
    first = desk.done("POST", f"{M}/batch", body, retry=retry)["results"]
    desk.done("DELETE", f"{M}/{first[1]['id']}")
    again = desk.done("POST", f"{M}/batch", body, retry=retry)["results"]
    assert again == [first[0], {**first[1], "memory": None, "erased": True}, first[2]]


def test_what_recall_hides_is_not_told_to_whoever_did_not_bring_it(desk: Desk) -> None:
    """Once a part is erased no body is compared any more, so only what anybody could read comes back."""
    retry, body = fresh_key(), {"memories": [{"messages": f"{MARK} {word}"} for word in ("a", "b", "c")]}
    first = desk.done("POST", f"{M}/batch", body, retry=retry)["results"]
    desk.done("POST", f"{M}/{first[0]['id']}/restrict", {})
    assert desk.done("POST", f"{M}/batch", body, retry=retry)["results"] == first
    desk.done("DELETE", f"{M}/{first[1]['id']}")
    unknowing = {"memories": [{"messages": "guess"}]}
    told = desk.done("POST", f"{M}/batch", unknowing, retry=retry)["results"]
    assert [one["memory"] for one in told] == [None, None, f"{MARK} c"]
    assert [one.get("erased") for one in told] == [None, True, None]


def test_a_refusal_is_not_kept(desk: Desk) -> None:
    """What was refused has done nothing, so the same call is judged anew."""
    retry, memory_id = fresh_key(), desk.add()
    hold_id = desk.hold(memory_id)
    assert desk.refused("DELETE", f"{M}/{memory_id}", retry=retry)[0] == 423
    desk.done("DELETE", f"/v1/holds/{hold_id}?release_code=matter_closed")
    deleted = desk.done("DELETE", f"{M}/{memory_id}", retry=retry)
    assert desk.done("DELETE", f"{M}/{memory_id}", retry=retry) == deleted
    assert desk.refused("DELETE", f"{M}/{memory_id}", retry=fresh_key())[0] == 404


def test_that_nothing_is_lifted_of_what_is_being_forgotten_is_kept(desk: Desk) -> None:
    subject, retry = fresh_subject(), fresh_key()
    memory_id = desk.add(user_id=subject)
    desk.hold(memory_id)
    owed = desk.done("POST", "/v1/forget", {"user_id": subject})["obligations"][0]
    url = f"{M}/{memory_id}/restrict"
    first = desk.done("DELETE", url, retry=retry)
    assert first["code"] == "erasure_deferred"
    desk.done("POST", f"/v1/obligations/{owed}/cancel")
    desk.done("POST", url, {})
    assert desk.done("DELETE", url, retry=retry) == first
    assert desk.done("DELETE", url)["changed"] is True


def erasing(desk: Desk, method: str, url: str, body: object, retry: str) -> str:
    """Make a call whose erasure becomes durable and then fails; return the intent's id."""
    failpoints.arm("e2.pending:eio")
    try:
        assert desk.refused(method, url, body, retry=retry) == (503, {"code": "erasure_pending"})
    finally:
        failpoints.disarm()
    database = desk.house.engine.store.path
    assert database is not None
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT intent_id FROM intents").fetchone()[0]


@pytest.mark.parametrize("what", ["delete", "update", "forget", "release"])
def test_while_the_first_is_under_way_it_says_so_and_then_joins_it(desk: Desk, what: str) -> None:
    route = {
        "delete": "DELETE /v1/memories/{memory_id}",
        "update": "PUT /v1/memories/{memory_id}",
        "forget": "POST /v1/forget",
        "release": "DELETE /v1/holds/{hold_id}",
    }[what]
    made, retry = CALLS[route](desk), fresh_key()
    method, before = route.partition(" ")[0], len(desk.log())
    intent_id = erasing(desk, method, made.url, made.body, retry)
    with ThreadPoolExecutor(1) as thread, desk.house.engine.flights.alone(intent_id):
        meanwhile = thread.submit(desk.refused, method, made.url, made.body, retry=retry)
        assert meanwhile.result(timeout=10) == IN_FLIGHT
    first = desk.send(method, made.url, made.body, retry=retry)
    assert first.is_success, first.text
    assert desk.send(method, made.url, made.body, retry=retry).content == first.content
    assert len(desk.log()) == before + made.receipts


def test_what_upkeep_finished_meanwhile_is_told_whole(desk: Desk) -> None:
    for route in ("DELETE /v1/memories/{memory_id}", "POST /v1/forget", "DELETE /v1/holds/{hold_id}"):
        made, retry = CALLS[route](desk), fresh_key()
        method = route.partition(" ")[0]
        erasing(desk, method, made.url, made.body, retry)
        upkeep(desk.house.engine)
        first = desk.send(method, made.url, made.body, retry=retry)
        assert first.is_success, first.text
        proofs = json.dumps(first.json())
        assert "signature_hex" in proofs
        if route == "POST /v1/forget":
            assert first.json()["signed_closure_receipt"]
            assert len(first.json()["signed_receipts"]) == 1


def test_a_retry_past_the_memorys_time_still_gets_its_answer(desk: Desk) -> None:
    retry, body = fresh_key(), {"messages": MARK, "expires_at": desk.clock.at + 5}
    first = desk.done("POST", M, body, retry=retry)
    desk.clock.at += 10
    assert desk.done("POST", M, body, retry=retry) == first
    retry = fresh_key()
    hold = {"scope": "subject", "user_id": fresh_subject(), "authority_code": "litigation"}
    hold["expires_at"] = desk.clock.at + 5
    first = desk.done("POST", "/v1/holds", hold, retry=retry)
    desk.clock.at += 10
    assert desk.done("POST", "/v1/holds", hold, retry=retry) == first


def test_nothing_personal_is_kept_for_a_replay(desk: Desk) -> None:
    """Every call above held the mark in its text, subject, references or key."""
    database = desk.house.engine.store.path
    assert database is not None
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = [
            row
            for table in ("replays", "replay_memories")
            for row in connection.execute(f"SELECT * FROM {table}")
        ]
        kept = [json.loads(row[0]) for row in connection.execute("SELECT result FROM replays")]
    told = repr(rows).lower()
    assert len(rows) > len(CALLS)
    allowed = re.compile(r"(sha256:|lm_|obl_|hold_|artifact:)[0-9a-f]{32,64}|art18_lifted|erasure_deferred")
    leaves = [leaf for result in kept for leaf in leaves_of(result) if isinstance(leaf, str)]
    assert all(allowed.fullmatch(leaf) for leaf in leaves)
    for word in (MARK, "subject", "words", "corrected", "litigation", "care"):
        assert word.lower() not in re.sub(r"(post|put|delete) /v1/[a-z/{}_]+", "", told)
    for path in database.parent.iterdir():
        found = path.read_bytes()
        assert MARK.encode() not in found
        assert MARK.encode().hex().encode() not in found


def leaves_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves_of(item)]
    return [leaf for item in value for leaf in leaves_of(item)] if isinstance(value, list) else [value]


def test_results_are_kept_for_a_day_and_not_for_ever(desk: Desk) -> None:
    retry, body = fresh_key(), {"messages": MARK}
    first = desk.done("POST", M, body, retry=retry)
    desk.clock.at += DAY
    upkeep(desk.house.engine)
    assert desk.done("POST", M, body, retry=retry) == first
    desk.clock.at += 2 * DAY
    upkeep(desk.house.engine)
    assert desk.done("POST", M, body, retry=retry) != first


@pytest.mark.parametrize("retry", ["", " ", "two words", "tab\there", "x" * 256, "clé", "\x7f"], ids=range(7))
def test_odd_keys_are_refused_and_not_repeated(desk: Desk, retry: str) -> None:
    raw: Any = {b"idempotency-key": retry.encode()}
    before = len(desk.log())
    for route in ("POST /v1/memories", "DELETE /v1/holds/{hold_id}"):
        method, path = route.split(" ")
        url = path.replace("{hold_id}", UNKNOWN) + "?release_code=expired"
        body = {"messages": "x"} if method == "POST" else None
        answer = desk.house.call(method, url, key=desk.house.admin, body=body, headers=raw)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert answer.json()["detail"] == "Idempotency-Key: must be 1 to 255 visible ASCII characters"
    assert len(desk.log()) == before


def test_a_key_is_given_once(desk: Desk) -> None:
    twice: Any = [(b"idempotency-key", b"a"), (b"Idempotency-Key", b"a")]
    twice += [
        (b"authorization", b"Bearer " + desk.house.data.encode()),
        (b"content-type", b"application/json"),
    ]

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(desk.house.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.post(M, content=b'{"messages":"x"}', headers=twice)

    answer = desk.house.portal.call(exchange)
    assert (answer.status_code, answer.json()["detail"]) == (422, "Idempotency-Key: must be given once")


def test_the_longest_key_is_taken_and_a_read_needs_none(desk: Desk) -> None:
    assert desk.done("POST", M, {"messages": "x"}, retry="x" * 255)["results"]
    for url in ("/v1/holds", f"{M}?limit=1"):
        assert desk.house.call("GET", url, key=desk.house.admin, headers={"idempotency-key": ""}).is_success


def test_a_restart_forgets_no_result(tmp_path: Any) -> None:
    home, retry = new_home(tmp_path), Retry("POST /v1/memories", "key", b"body")
    results = []
    for _ in range(2):
        with home.opened() as house:
            results.append(add(house.engine, replace(house.data, retry=retry), NewMemory("kept")))
    assert results[0] == results[1]
