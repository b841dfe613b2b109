"""Forget over HTTP: every field of SEMANTICS.md §8, and no oracle."""

from typing import Any

import pytest

from shomei_memory_verify import verify_signed_receipt
from tests.api.house import House
from tests.api.test_memories import conform


def forget(house: House, user_id: str) -> dict[str, Any]:
    answer = house.call("POST", "/v1/forget", key=house.admin, body={"user_id": user_id})
    return conform(house, "POST", "/v1/forget", answer)


def test_a_subject_is_forgotten_whole(house: House) -> None:
    ids = [house.add(f"about ada {index}", "ada") for index in range(3)]
    kept = house.add("about grace", "grace")
    forgotten = forget(house, " ada ")
    assert sorted(forgotten["erased_ids"]) == sorted(ids)
    assert [forgotten[f"{name}_count"] for name in ("matched", "erased", "deferred")] == [3, 3, 0]
    assert forgotten["subject"] == "ada"
    assert forgotten["closure_receipt"]["disposition"] == "complete"
    assert forgotten["closure_receipt_hash"] == forgotten["signed_closure_receipt"]["receipt_hash"]
    assert verify_signed_receipt(forgotten["signed_closure_receipt"]).valid
    assert sorted(proof["id"] for proof in forgotten["signed_receipts"]) == sorted(ids)
    assert all(verify_signed_receipt(proof["signed_receipt"]).valid for proof in forgotten["signed_receipts"])
    assert house.call("GET", f"/v1/memories/{kept}", key=house.data).status_code == 200
    again = forget(house, "ada")
    assert (again["matched_count"], again["already_erased_count"]) == (0, 3)
    assert (
        again["closure_receipt"]["closed_set_commitment"]
        == forgotten["closure_receipt"]["closed_set_commitment"]
    )


def test_an_unknown_subject_is_no_error(house: House) -> None:
    nobody = forget(house, "never seen")
    assert nobody["matched_count"] == 0
    assert nobody["closure_receipt"]["disposition"] == "noop_no_match"


def test_a_subject_of_another_tenant_is_untouched(house: House) -> None:
    theirs = house.add("same name, other house", "twin", key=house.other)
    assert forget(house, "twin")["matched_count"] == 0
    assert house.call("GET", f"/v1/memories/{theirs}", key=house.other).status_code == 200


def test_composed_and_decomposed_names_are_two_subjects(house: House) -> None:
    composed, decomposed = house.add("nfc", "Jos\u00e9"), house.add("nfd", "Jose\u0301")
    assert forget(house, "Jos\u00e9")["erased_ids"] == [composed]
    assert house.call("GET", f"/v1/memories/{decomposed}", key=house.data).status_code == 200


@pytest.mark.parametrize("user_id", [None, "", "  ", "a\0b", 5, ["a"], "x" * 257])
def test_refused_subjects(house: House, user_id: object) -> None:
    answer = house.call("POST", "/v1/forget", key=house.admin, body={"user_id": user_id})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("user_id: ")
