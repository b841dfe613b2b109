"""A path means what it spells, and nothing else (DEV-30, T-30): on the wire, under both HTTP parsers."""

from collections.abc import Iterator
from typing import Any

import pytest

from shomei_service.api.connection import Connection
from shomei_service.api.paths import decode
from shomei_service.engine.errors import NotFound
from tests.api.house import UNKNOWN, Answer, House, Live, serve, without_id


@pytest.mark.parametrize(
    ("segment", "decoded"),
    [
        ("lm_1", "lm_1"),
        ("lm_1%2Frestrict", "lm_1/restrict"),
        ("lm_1%252Frestrict", "lm_1%2Frestrict"),
        ("a+b", "a+b"),
        ("a%20b", "a b"),
        ("%C3%A9", "é"),
        ("..;", "..;"),
        ("%e2%80%ae", "\u202e"),
        ("x" * 384, "x" * 384),
        ("%78" * 384, "x" * 384),
    ],
)
def test_a_segment_is_decoded_once(segment: str, decoded: str) -> None:
    assert decode(segment) == decoded


@pytest.mark.parametrize(
    "segment",
    [
        "%", "%2", "%zz", "a%", "%u0041", "%00", "a%00b", "%FF", "%C3", "%C0%AF", "%ED%A0%80", ".", "..",
        "%2e", "%2e%2e", ".%2E", "x" * 385, "%78" * 385,
    ],
)  # fmt: skip
def test_what_cannot_be_an_id_names_nothing(segment: str) -> None:
    with pytest.raises(NotFound):
        decode(segment)


@pytest.fixture(scope="module", params=[Connection, "h11"], ids=["httptools", "h11"])
def either(request: pytest.FixtureRequest, house: House) -> Iterator[Live]:
    parser: Any = request.param
    with serve(house, http=parser) as live:
        yield live


def tricks(one: str, two: str) -> list[tuple[str, str]]:
    return [
        ("DELETE", f"/v1/memories/{one}%2Frestrict"),
        ("POST", f"/v1/memories/{one}%2Frestrict"),
        ("DELETE", f"/v1/memories/{one}%2frestrict"),
        ("DELETE", f"/v1/memories/{one}%252Frestrict"),
        ("PUT", f"/v1/memories/{one}%2Fverify"),
        ("GET", f"/v1/memories/x%2F{one}/verify"),
        ("DELETE", f"/v1/memories/{one}%2F..%2F{two}"),
        ("DELETE", f"/v1/memories/{one}/../{two}"),
        ("DELETE", f"/v1/memories/./{two}"),
        ("DELETE", f"/v1/memories/%2e%2e/memories/{two}"),
        ("DELETE", f"/v1/memories/{one}%00"),
        ("DELETE", f"/v1/memories/{one}%20"),
        ("DELETE", f"/v1/memories/{one}%0a"),
        ("DELETE", f"/v1/memories/%20{one}"),
        ("DELETE", f"/v1/memories/{one.upper()}"),
        ("DELETE", f"/v1/memories/{one}..;"),
        ("DELETE", f"/v1/memories/{one};x=1"),
        ("DELETE", f"/v1/memories/{one}/"),
        ("DELETE", f"/v1/memories/{one}//"),
        ("DELETE", f"/v1/memories//{one}"),
        ("DELETE", f"/v1//memories/{one}"),
        ("DELETE", f"//v1/memories/{one}"),
        ("DELETE", f"/v1/%6Demories/{one}"),
        ("DELETE", f"/V1/memories/{one}"),
        ("DELETE", f"/v1%2Fmemories%2F{one}"),
        ("DELETE", f"/v1/memories/{one}%C0%AFrestrict"),
        ("DELETE", f"/v1/memories/{one}%5Crestrict"),
        ("DELETE", f"/v1/memories/{one}\\restrict"),
        ("DELETE", f"/v1/memories/{one}%23"),
        ("DELETE", f"/v1/memories/{one}%3Fbasis=unspecified"),
        ("DELETE", "/v1/memories/" + 4096 * "x"),
        ("POST", "/v1/memories/"),
        ("GET", "/v1//memories"),
        ("GET", "/v1/memories/"),
        ("POST", "/v1/forget/"),
        ("GET", "/healthz/"),
    ]


def is_ours(answer: Answer) -> bool:
    return (
        answer.headers["content-type"] == "application/json"
        and {"code", "detail", "request_id"} <= answer.json.keys()
        and "location" not in answer.headers
    )


@pytest.mark.parametrize("index", range(len(tricks("", ""))))
def test_no_trick_reaches_another_memory_or_verb(house: House, either: Live, index: int) -> None:
    one, two = house.add("path tricks one"), house.add("path tricks two")
    method, target = tricks(one, two)[index]
    body = b'{"data":"x"}' if method == "PUT" else b""
    answer = either.ask(method, target, key=house.admin, body=body)
    # A verify of an unknown id is a 200 that says so; 501 is an unbuilt verb on exactly this odd id.
    if answer.status == 200:
        assert answer.json == {"valid": None, "reason": "not_found"}
    else:
        assert is_ours(answer)
        assert answer.status in {404, 405, 501}
    for memory_id in (one, two):
        assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 200


@pytest.mark.parametrize(
    "target", ["http://service/v1/memories/{}", "http:/v1/memories/{}", "v1/memories/{}", "*"]
)
def test_only_paths_are_targets(house: House, either: Live, target: str) -> None:
    memory_id = house.add("absolute targets")
    answer = either.ask("DELETE", target.format(memory_id), key=house.admin)
    assert answer.status in {400, 404}
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 200


def test_bytes_outside_ascii_are_refused(house: House, live: Live) -> None:
    answer = live.ask("DELETE", b"/v1/memories/lm_\xc3\xa9", key=house.admin)
    assert answer.status in {400, 404}
    assert is_ours(answer)


def test_unknown_foreign_erased_and_impossible_ids_are_one_answer(house: House) -> None:
    foreign = house.add("of the other tenant", key=house.other)
    erased = house.add("erased before")
    assert house.call("DELETE", f"/v1/memories/{erased}", key=house.admin).status_code == 200
    for method in ("GET", "DELETE"):
        answers = [
            house.call(method, f"/v1/memories/{each}", key=house.admin)
            for each in (UNKNOWN, foreign, erased, "x", "%00", "%FF", "%2e%2e%20", "y" * 2000)
        ]
        assert {answer.status_code for answer in answers} == {404}
        assert len({without_id(answer) for answer in answers}) == 1
        assert len({tuple(sorted(answer.headers.items())) for answer in answers}) == 1
        assert all(("deleted" in answer.json()) == (method == "DELETE") for answer in answers)
        assert all(answer.json().get("deleted") is not True for answer in answers)
    assert house.call("GET", f"/v1/memories/{foreign}", key=house.other).status_code == 200


def test_unknown_paths_and_methods_get_our_errors(house: House, live: Live) -> None:
    nowhere = live.ask("GET", "/v2/anything", key=house.admin)
    assert (nowhere.status, nowhere.json["code"]) == (404, "not_found")
    patch = live.ask("PATCH", f"/v1/memories/{UNKNOWN}", key=house.admin)
    assert (patch.status, patch.json["code"]) == (405, "unsupported")
    assert patch.headers["allow"] == "DELETE, GET, HEAD, PUT"
    for answer in (nowhere, patch):
        assert is_ours(answer)
        assert answer.headers["cache-control"] == "no-store"
