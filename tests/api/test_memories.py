"""Add, batch, read, list, delete and check: shapes, states and what is refused. CONTRACT.md §1."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from shomei_memory_verify import verify_signed_receipt
from shomei_service.api.routes import OPERATIONS
from shomei_service.engine import limits
from shomei_service.engine.model import Basis
from tests.api.house import UNKNOWN, House, open_house

ODD = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\r\nh\ti\ufeffj \U0001f468\u200d\U0001f469\u200d\U0001f467"


def conform(house: House, method: str, path: str, answer: Any) -> dict[str, Any]:
    """Check a 200 against the documented shape, no field more and no field less, and return it."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    operation = next(each for each in OPERATIONS if (each.method, each.path) == (method, path))
    # Reading drops what the shape does not name, at every level; nothing may have been dropped.
    assert TypeAdapter(operation.answer).validate_python(answer.json(), strict=True) == answer.json()
    return answer.json()


def add(house: House, **body: Any) -> dict[str, Any]:
    answer = house.call("POST", "/v1/memories", key=house.data, body=body)
    return conform(house, "POST", "/v1/memories", answer)["results"][0]


def refusal(house: House, body: Any, path: str = "/v1/memories") -> tuple[int, str, str]:
    answer = house.call("POST", path, key=house.admin, body=body)
    return answer.status_code, answer.json().get("code"), answer.json().get("detail")


def test_add_answers_with_the_memory_and_its_receipt(house: House) -> None:
    added = add(house, messages="  the quick brown fox \n", user_id=" alice ", metadata={" k ": " v "})
    assert added["memory"] == "the quick brown fox"
    assert added["event"] == "ADD"
    assert added["receipt"]["schema"] == "shomei.memory_add.v1"
    assert added["receipt_hash"] == added["signed_receipt"]["receipt_hash"]
    assert verify_signed_receipt(added["signed_receipt"]).valid
    read = house.call("GET", f"/v1/memories/{added['id']}", key=house.data)
    memory = conform(house, "GET", "/v1/memories/{memory_id}", read)
    assert 0 <= added["receipt"]["applied_at"] - memory.pop("created_at") <= 5  # taken, then applied
    assert memory == {
        "id": added["id"],
        "memory": "the quick brown fox",
        "user_id": "alice",
        "semantic_type": "GENERIC",
        "metadata": {" k ": " v "},
    }


def test_text_comes_back_code_point_for_code_point(house: House) -> None:
    for text in (ODD, "x\0y", "e\u0301 \u00e9", "\ufeffbom"):
        added = add(house, messages=text)
        assert added["memory"] == text
        assert house.call("GET", f"/v1/memories/{added['id']}", key=house.data).json()["memory"] == text


def test_null_is_the_same_as_absent(house: House) -> None:
    nulls = {"user_id": None, "semantic_type": None, "metadata": None, "derived_from": None}
    added = add(house, messages="nulls", **nulls, lawful_basis=None, purposes=None, expires_at=None)
    read = house.call("GET", f"/v1/memories/{added['id']}", key=house.data).json()
    assert (read["user_id"], read["semantic_type"], read["metadata"]) == (None, "GENERIC", {})


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "messages: is required"),
        ({"messages": None}, "messages: is required"),
        ({"messages": ""}, "messages: must not be empty"),
        ({"messages": " \u2003\n\t"}, "messages: must not be empty"),
        ({"messages": ["a"]}, "messages: must be a string"),
        ({"messages": 5}, "messages: must be a string"),
        ({"messages": {"role": "user"}}, "messages: must be a string"),
        ({"messages": "a", "user_id": ""}, "user_id: must not be empty"),
        ({"messages": "a", "user_id": "x\0y"}, "user_id: must not hold a NUL character"),
        ({"messages": "a", "user_id": 7}, "user_id: must be a string"),
        ({"messages": "a", "user_id": "x" * 257}, "user_id: must be at most 256 characters"),
        ({"messages": "a", "user_id": "é" * 129}, "user_id is longer than 256 bytes"),
        ({"messages": "a", "semantic_type": "x" * 65}, "semantic_type: must be at most 64 characters"),
        ({"messages": "a", "metadata": []}, "metadata: must be an object"),
        ({"messages": "a", "metadata": {str(n): n for n in range(33)}}, "metadata has more than 32 keys"),
        ({"messages": "a", "lawful_basis": "because"}, "lawful_basis: must be one of the documented values"),
        ({"messages": "a", "expires_at": "tomorrow"}, "expires_at: must be a whole number"),
        ({"messages": "a", "expires_at": 0}, "expires_at: must be at least 1"),
        ({"messages": "a", "purposes": ["No"]}, "purposes[0]: must be 1 to 64 of a-z, 0-9 and _"),
        ({"messages": "a", "purposes": ["a", "a"]}, "purposes: must not repeat an item"),
        ({"messages": "a", "purposes": "a"}, "purposes: must be a list"),
        ({"messages": "a", "derived_from": [1]}, "derived_from[0]: must be a string"),
        ({"message": "a"}, "messages: is required; body: holds a field this route does not know"),
        ({"messages": "a", "extra": None}, "body: holds a field this route does not know"),
    ],
    ids=range(24),
)
def test_refused_shapes(house: House, body: Any, detail: str) -> None:
    assert refusal(house, body) == (422, "invalid_request", detail)


def test_metadata_that_is_too_large_is_413(house: House) -> None:
    status, code, _ = refusal(house, {"messages": "a", "metadata": {"k": "v" * limits.METADATA_BYTES}})
    assert (status, code) == (413, "payload_too_large")


@pytest.mark.parametrize(
    ("field", "refused"),
    [
        ({"derived_from": [UNKNOWN]}, (404, "not_found")),
        ({"purposes": ["never_registered"]}, (422, "invalid_request")),
        ({"expires_at": 1}, (422, "invalid_request")),
        ({"lawful_basis": "consent"}, (422, "invalid_request")),
    ],
    ids=str,
)
def test_what_a_memory_declares_has_to_hold(
    house: House, field: dict[str, Any], refused: tuple[int, str]
) -> None:
    before = house.call("GET", "/v1/memories?user_id=declared", key=house.data).json()
    one = {"messages": "b", "user_id": "declared"}
    if field == {"lawful_basis": "consent"}:
        one.pop("user_id")  # whose consent would it be
    assert refusal(house, {**one, **field})[:2] == refused
    batch = {"memories": [{"messages": "a", "user_id": "declared"}, {**one, **field}]}
    assert refusal(house, batch, "/v1/memories/batch")[:2] == refused
    assert house.call("GET", "/v1/memories?user_id=declared", key=house.data).json() == before


def test_empty_lists_use_nothing(house: House) -> None:
    add(house, messages="a", derived_from=[], purposes=[], lawful_basis="contract")


def test_a_batch_keeps_its_order_and_is_all_or_nothing(house: House) -> None:
    texts = [f"batch {index}" for index in range(100)]
    answer = house.call(
        "POST",
        "/v1/memories/batch",
        key=house.data,
        body={"memories": [{"messages": text} for text in texts]},
    )
    results = conform(house, "POST", "/v1/memories/batch", answer)["results"]
    assert [result["memory"] for result in results] == texts
    broken = {
        "memories": [{"messages": "orphan", "user_id": "orphan"}, {"messages": "b", "user_id": "é" * 129}]
    }
    assert refusal(house, broken, "/v1/memories/batch")[0] == 422
    assert listed(house, "orphan") == []


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "memories: is required"),
        ({"memories": []}, "memories: must not be empty"),
        ({"memories": {}}, "memories: must be a list"),
        ({"memories": ["a"]}, "memories[0]: must be an object"),
        ({"memories": [{"messages": "a"}, {"messages": ""}]}, "memories[1].messages: must not be empty"),
        (
            {"memories": [{"messages": "a", "nope": 1}]},
            "memories[0]: holds a field this route does not know",
        ),
        ({"memories": [{"messages": "a"}] * 1001}, "memories: must hold at most 1000 items"),
    ],
    ids=range(7),
)
def test_refused_batches(house: House, body: Any, detail: str) -> None:
    assert refusal(house, body, "/v1/memories/batch") == (422, "invalid_request", detail)


def test_the_largest_batch_is_taken(house: House) -> None:
    memory = {"messages": "m", "user_id": "largest batch", "metadata": {str(n): n for n in range(32)}}
    answer = house.call("POST", "/v1/memories/batch", key=house.data, body={"memories": [memory] * 1000})
    assert len(answer.json()["results"]) == 1000


def listed(house: House, user_id: str, **query: Any) -> list[str]:
    answer = house.call("GET", "/v1/memories", key=house.data, headers={})
    assert answer.status_code == 200
    found: list[str] = []
    cursor: str | None = None
    while True:
        parameters = {"user_id": user_id, **query} | ({"cursor": cursor} if cursor else {})
        url = "/v1/memories?" + "&".join(f"{name}={value}" for name, value in parameters.items())
        page = conform(house, "GET", "/v1/memories", house.call("GET", url, key=house.data))
        found += [memory["id"] for memory in page["results"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def test_pages_hold_every_memory_once_in_order(house: House) -> None:
    added = [house.add(f"page {index}", "paged") for index in range(7)]
    house.add("somebody else", "paged twice")
    for limit in (1, 3, 7, 8):
        assert listed(house, "paged", limit=limit) == added
    assert listed(house, "%20paged%20") == added
    assert listed(house, "nobody") == []


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=501", "limit=-1", "limit=5.5", "limit=abc", "limit=true", "limit=", "limit=%00",
        "limit=1&limit=2",
        "user_id=", "user_id=%20", "user_id=a%00b", "user_id=%FF", "user_id=a&user_id=b", "cursor=zz",
        "cursor=",
        "cursor=" + "f" * 300, "&".join(f"p{index}=1" for index in range(40)), "limit=1e30",
        "limit=" + "1" * 30,
    ],
)  # fmt: skip
def test_refused_queries(house: House, query: str) -> None:
    answer = house.call("GET", f"/v1/memories?{query}", key=house.data)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_other_parameters_mean_nothing(house: House) -> None:
    assert house.call("GET", "/v1/memories?token=x&limit=%205%20", key=house.data).status_code == 200


def test_delete_proves_itself_once(house: House) -> None:
    memory_id = house.add("to be erased", "erased")
    deleted = conform(
        house,
        "DELETE",
        "/v1/memories/{memory_id}",
        house.call("DELETE", f"/v1/memories/{memory_id}?basis=subject_request", key=house.admin),
    )
    assert deleted["message"] == "memory deleted (governed crypto-erasure)"
    assert deleted["deleted"] is True
    assert deleted["key_custody"] == deleted["receipt"]["key_custody"]
    assert deleted["retirement_hashes"] == deleted["receipt"]["retirement_hashes"]
    assert deleted["receipt"]["basis"] == Basis.SUBJECT_REQUEST
    assert verify_signed_receipt(deleted["signed_receipt"]).valid
    again = house.call("DELETE", f"/v1/memories/{memory_id}", key=house.admin)
    assert (again.status_code, again.json()["deleted"]) == (404, False)
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.admin).status_code == 404
    assert listed(house, "erased") == []


@pytest.mark.parametrize(
    "query", ["basis=because", "basis=", "derived=all", "basis=unspecified&basis=unspecified"]
)
def test_a_refused_delete_deletes_nothing(house: House, query: str) -> None:
    memory_id = house.add("still here")
    answer = house.call("DELETE", f"/v1/memories/{memory_id}?{query}", key=house.admin)
    assert answer.status_code == 422
    assert house.call("GET", f"/v1/memories/{memory_id}", key=house.data).status_code == 200


@pytest.mark.parametrize(("asked", "status"), [("", 200), ("?derived=cascade", 404)])
def test_what_was_derived_goes_too_where_that_is_asked(house: House, asked: str, status: int) -> None:
    source = house.add("a source")
    derived = add(house, messages="made from it", derived_from=[source])["id"]
    answer = house.call("DELETE", f"/v1/memories/{source}{asked}", key=house.admin)
    assert conform(house, "DELETE", "/v1/memories/{memory_id}", answer)["deleted"] is True
    # Either way it is out of recall; what was not asked to go is still there to be erased.
    assert house.call("GET", f"/v1/memories/{derived}", key=house.data).status_code == 404
    assert house.call("DELETE", f"/v1/memories/{derived}", key=house.admin).status_code == status


def test_verify_tells_the_states_apart_and_never_fails(house: House) -> None:
    def status(memory_id: str, key: str) -> dict[str, Any]:
        answer = house.call("GET", f"/v1/memories/{memory_id}/verify", key=key)
        return conform(house, "GET", "/v1/memories/{memory_id}/verify", answer)

    memory_id = house.add("checked")
    assert status(memory_id, house.data) == {
        "valid": True,
        "retrieval_safe": True,
        "embedding_retired": False,
        "physically_purged": False,
        "failures": [],
    }
    assert status(memory_id, house.other) == {"valid": None, "reason": "not_found"}
    assert status(UNKNOWN, house.data) == {"valid": None, "reason": "not_found"}
    house.call("DELETE", f"/v1/memories/{memory_id}", key=house.admin)
    erased = status(memory_id, house.data)
    assert (erased["valid"], erased["retrieval_safe"], erased["failures"]) == (False, False, ["erased"])
    assert erased["embedding_retired"] is True
    assert status(memory_id, house.other) == {"valid": None, "reason": "not_found"}


def test_without_a_signer_there_is_no_signed_field_anywhere(tmp_path: Path) -> None:
    with open_house(tmp_path, signer="none") as unsigned:
        one, two = unsigned.add("unsigned", "sam"), unsigned.add("unsigned too", "sam")
        added = unsigned.call("POST", "/v1/memories", key=unsigned.data, body={"messages": "x"})
        deleted = unsigned.call("DELETE", f"/v1/memories/{one}", key=unsigned.admin)
        forgotten = unsigned.call("POST", "/v1/forget", key=unsigned.admin, body={"user_id": "sam"})
        assert (added.status_code, deleted.status_code, forgotten.status_code) == (200, 200, 200)
        assert forgotten.json()["erased_ids"] == [two]
        assert forgotten.json()["signed_receipts"] == []
        for answer in (added, deleted, forgotten):
            assert "signed_receipt" not in json.dumps(answer.json()).replace("signed_receipts", "")
            assert "signed_closure_receipt" not in answer.json()
        signer = unsigned.call("GET", "/v1/signer", key=unsigned.data)
        assert (signer.status_code, signer.json()["code"]) == (501, "unsupported")


def test_the_signer_is_the_one_on_receipts(house: House) -> None:
    signer = conform(house, "GET", "/v1/signer", house.call("GET", "/v1/signer", key=house.data))
    envelope = add(house, messages="signed")["signed_receipt"]
    assert (envelope["signer_id"], envelope["public_key_hex"]) == (
        signer["signer_id"],
        signer["public_key_hex"],
    )
