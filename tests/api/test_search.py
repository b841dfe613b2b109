"""Search over HTTP: shapes, tolerant numbers (DEV-08) and honest refusals."""

from typing import Any

import pytest

from tests.api.house import House
from tests.api.test_memories import conform


def search(house: House, body: dict[str, Any], query: str = "") -> dict[str, Any]:
    answer = house.call("POST", f"/v1/search{query}", key=house.data, body=body)
    return conform(house, "POST", "/v1/search", answer)


def test_a_result_carries_its_quote_and_no_more(house: House) -> None:
    text = "We met at the lighthouse. Zanzibar cloves were on sale. The ferry left at noon."
    memory_id = house.add(text, "sailor")
    found = search(house, {"query": "zanzibar cloves", "user_id": " sailor "})
    assert found.keys() == {"results"}
    [result] = found["results"]
    assert (result["id"], result["memory"], result["user_id"]) == (memory_id, text, "sailor")
    quote = result["quote"]
    assert text[quote["start"] : quote["end"]] == quote["text"]
    assert "Zanzibar" in quote["text"]
    assert 0 < result["score"] <= 1
    assert "score_details" not in result


def test_explain_says_what_the_score_is_made_of(house: House) -> None:
    house.add("the heliograph blinked", "explained")
    [result] = search(house, {"query": "heliograph"}, "?explain=true")["results"]
    assert result["score_details"].keys() == {"semantic", "lexical", "embedder_id", "degraded"}
    assert result["score_details"]["embedder_id"] is None
    assert "score_details" not in search(house, {"query": "heliograph"}, "?explain=false")["results"][0]


@pytest.mark.parametrize("spelled", [5, "5", " 5 ", 5.0])
def test_five_is_five(house: House, spelled: object) -> None:
    for index in range(6):
        house.add(f"quintet number {index}", "quintet")
    assert len(search(house, {"query": "quintet", "limit": spelled})["results"]) == 5


def test_null_means_ten(house: House) -> None:
    for index in range(12):
        house.add(f"dozen number {index}", "dozen")
    nulls = {"user_id": None, "limit": None, "min_score": None, "semantic_type": None, "purpose": None}
    assert len(search(house, {"query": "dozen", **nulls})["results"]) == 10


@pytest.mark.parametrize(
    "limit", [5.5, "5.5", "abc", "", True, False, 0, 101, -1, 1e30, [5], {}, "٥", "0x5", "1" * 40]
)
def test_refused_limits(house: House, limit: object) -> None:
    answer = house.call("POST", "/v1/search", key=house.data, body={"query": "x", "limit": limit})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("limit: ")


@pytest.mark.parametrize("score", [-0.1, 1.1, "high", True, [0.5], "nan", "inf"])
def test_refused_scores(house: House, score: object) -> None:
    answer = house.call("POST", "/v1/search", key=house.data, body={"query": "x", "min_score": score})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("min_score: ")


def test_min_score_leaves_the_weaker_out(house: House) -> None:
    house.add("obelisk", "stones")
    assert len(search(house, {"query": "obelisk", "min_score": "0.01"})["results"]) == 1
    assert search(house, {"query": "obelisk of another kind entirely", "min_score": 1})["results"] == []


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "query: is required"),
        ({"query": " "}, "query: must not be empty"),
        ({"query": 1}, "query: must be a string"),
        ({"query": "x", "purpose": "No Code"}, "purpose: must be 1 to 64 of a-z, 0-9 and _"),
        ({"query": "x", "filters": {}}, "body: holds a field this route does not know"),
    ],
    ids=range(5),
)
def test_refused_shapes(house: House, body: Any, detail: str) -> None:
    answer = house.call("POST", "/v1/search", key=house.data, body=body)
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


def test_a_query_beyond_its_limit_is_413(house: House) -> None:
    answer = house.call("POST", "/v1/search", key=house.data, body={"query": "q" * 4097})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


def test_a_purpose_has_to_be_registered(house: House) -> None:
    answer = house.call("POST", "/v1/search", key=house.data, body={"query": "x", "purpose": "support"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_explain_is_true_or_false(house: House) -> None:
    answer = house.call("POST", "/v1/search?explain=maybe", key=house.data, body={"query": "x"})
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "explain: must be one of the documented values",
    )


def test_tenants_and_erased_memories_do_not_meet_here(house: House) -> None:
    mine = house.add("wolframite is mine")
    theirs = house.add("wolframite is theirs", key=house.other)
    assert [result["id"] for result in search(house, {"query": "wolframite"})["results"]] == [mine]
    house.call("DELETE", f"/v1/memories/{mine}", key=house.admin)
    assert search(house, {"query": "wolframite"})["results"] == []
    answer = house.call("POST", "/v1/search", key=house.other, body={"query": "wolframite"})
    assert [result["id"] for result in answer.json()["results"]] == [theirs]
