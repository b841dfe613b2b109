"""What hosts send: tolerated spellings, refused values (DEV-07, DEV-08, T-41)."""

import json
from typing import Any

import pytest

from shomei_memory_mcp import inputs
from shomei_memory_mcp.refusals import InputRefused
from tests.mcp.calls import BY_NAME, VALID, arguments, call
from tests.mcp.stub import Stub

MARK = "ZQ7-8c1f"


@pytest.fixture(scope="module")
def stub() -> Any:
    with Stub(lambda exchange: exchange.answer(200, {"ok": True})) as listener:
        yield listener


@pytest.mark.parametrize("name", VALID)
def test_params_as_json_text_means_the_object(stub: Stub, name: str) -> None:
    as_text = arguments(stub.url, name, {"params": json.dumps(VALID[name]), "wait_for_previous": True})
    assert as_text == arguments(stub.url, name, {"params": VALID[name]})
    assert not as_text.is_error


@pytest.mark.parametrize("name", VALID)
@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        {"params": None},
        {"params": "not json " + MARK},
        {"params": "[]"},
        {"params": [MARK]},
        {"params": "[" * 100_000},
        {"messages": MARK, "query": MARK, "receipt": {"a": MARK}},
    ],
)
def test_arguments_not_under_params_are_told_where_to_go(stub: Stub, name: str, given: Any) -> None:
    before = len(stub.requests)
    answer = arguments(stub.url, name, given)
    assert answer.is_error
    assert answer.text.startswith('refused: put the arguments in one object under "params"')
    assert MARK not in answer.text
    assert len(stub.requests) == before


def test_null_means_not_given(stub: Stub) -> None:
    nulls = {"user_id": None, "semantic_type": None, "limit": None}
    call(stub.url, "add_memory", {"messages": "a", "user_id": None, "semantic_type": None})
    call(stub.url, "search_memory", {"query": "a", "user_id": None, "limit": None})
    call(stub.url, "restrict_memory", {"memory_id": "lm_1", "restricted": None, "reason": None})
    call(stub.url, "lineage_graph", {"memory_id": "lm_1", "direction": None, "limit": None})
    sent = [request.json() if request.body else request.target for request in stub.requests[-4:]]
    assert nulls  # the fields that hosts fill with null
    assert sent == [
        {"messages": "a", "semantic_type": "GENERIC"},
        {"query": "a", "limit": 10},
        {"reason": "art18_request"},
        "/v1/memories/lm_1/lineage/graph?direction=out&limit=50",
    ]
    pinned = {"receipt": {"schema": "x"}, "expected_public_key_hex": None}
    assert call(stub.url, "verify_receipt", pinned) == call(
        stub.url, "verify_receipt", {"receipt": {"schema": "x"}}
    )


@pytest.mark.parametrize("limit", [5, "5", " 5 ", 5.0])
def test_five_is_five(limit: Any) -> None:
    assert inputs.SearchMemory.read({"params": {"query": "a", "limit": limit}}).limit == 5
    assert inputs.Lineage.read({"params": {"memory_id": "a", "limit": limit}}).limit == 5


@pytest.mark.parametrize("limit", [5.5, "abc", True, False, 0, 101, -1, 1e30, "", [5], {}, float("inf")])
def test_what_is_no_limit_is_refused_by_name(stub: Stub, limit: Any) -> None:
    before = len(stub.requests)
    answer = call(stub.url, "search_memory", {"query": "a", "limit": limit})
    assert (answer.is_error, answer.text) == (
        True,
        "refused: limit: Whole number 1 to 100, default 10.",
    )
    assert len(stub.requests) == before


def test_lineage_limits() -> None:
    for limit in (0, 100):
        assert inputs.Lineage.read({"params": {"memory_id": "a", "limit": limit}}).limit == limit
    for limit in (101, -1, True):
        with pytest.raises(InputRefused, match=r"^limit: "):
            inputs.Lineage.read({"params": {"memory_id": "a", "limit": limit}})


@pytest.mark.parametrize(
    ("given", "meant"), [(True, True), ("true", True), (" False ", False), (False, False)]
)
def test_spellings_of_truth(given: Any, meant: bool) -> None:
    assert inputs.RestrictMemory.read({"params": {"memory_id": "a", "restricted": given}}).restricted is meant


@pytest.mark.parametrize("given", [0, 1, "no", "1", "", [], 1.0])
def test_other_spellings_of_truth_are_refused(given: Any) -> None:
    with pytest.raises(InputRefused, match=r"^restricted: "):
        inputs.RestrictMemory.read({"params": {"memory_id": "a", "restricted": given}})


@pytest.mark.parametrize("name", VALID)
def test_unknown_fields_are_refused_and_values_never_repeated(stub: Stub, name: str) -> None:
    answer = call(stub.url, name, VALID[name] | {"min_score": MARK, f"x {MARK}": MARK})
    assert answer.is_error
    assert "no field of this tool: min_score (it has " in answer.text
    assert MARK not in answer.text


@pytest.mark.parametrize("name", [name for name in VALID if name != "verify_receipt"])
@pytest.mark.parametrize("wrong", ["", " \t\n\u3000", 7, True, ["a"], {"a": "b"}, MARK + "\ud800"])
def test_every_text_field_refuses_what_is_no_text(name: str, wrong: Any) -> None:
    model = BY_NAME[name].params
    for field, valid in model.published()["properties"]["params"]["properties"].items():
        if valid["type"] != "string":
            continue
        with pytest.raises(InputRefused) as refused:
            model.read({"params": VALID[name] | {field: wrong}})
        assert str(refused.value) == f"{field}: {valid['description']}"


def test_strings_are_stripped_by_the_unicode_rule() -> None:
    given = {"messages": "\u00a0\u2003 a \u3000b \u0085", "user_id": "\x1falice\x1f", "semantic_type": " X\t"}
    assert inputs.AddMemory.read({"params": given}).body() == {
        "messages": "a \u3000b",
        "user_id": "\x1falice\x1f",
        "semantic_type": "X",
    }


def test_lengths_in_characters() -> None:
    longest = inputs.AddMemory.read({"params": {"messages": "a", "semantic_type": "\u00e9" * 64}})
    assert longest.semantic_type == "\u00e9" * 64
    with pytest.raises(InputRefused):
        inputs.AddMemory.read({"params": {"messages": "a", "semantic_type": "\u00e9" * 65}})


@pytest.mark.parametrize(
    "refused", [".", "..", " .. ", "\n.\n", "a" * 513, "\u00e9" * 257, "\ud800", "", None]
)
def test_ids_that_would_reach_another_verb_are_refused(refused: Any) -> None:
    with pytest.raises(InputRefused, match=r"^memory_id"):
        inputs.DeleteMemory.read({"params": {"memory_id": refused}})


def test_receipt_as_text_keeps_its_bytes() -> None:
    text = '{"schema": "x", "schema": "x"}'
    assert inputs.VerifyReceipt.read({"params": {"receipt": text}}).receipt == text
    with pytest.raises(InputRefused, match=r"^receipt: "):
        inputs.VerifyReceipt.read({"params": {"receipt": 7}})


def test_a_refusal_stays_short() -> None:
    with pytest.raises(InputRefused) as refused:
        inputs.DeleteMemory.read({"params": {f"field_{number}": 1 for number in range(50)}})
    assert str(refused.value) == (
        "memory_id is required; "
        "no field of this tool: field_0, field_1, field_2, field_3, field_4 (it has memory_id)"
    )
