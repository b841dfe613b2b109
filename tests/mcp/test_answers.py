"""What is relayed: whole, under 64 KiB, screened, free of the key; an applied write is never an error."""

import json
from typing import Any

import pytest

from shomei_memory_mcp import answers, screen
from shomei_memory_mcp.refusals import Withheld
from tests.mcp.calls import VALID, WRITES, call
from tests.mcp.host import KEY
from tests.mcp.stub import Stub

RECEIPT = {"schema": "shomei.memory_add.v1", "public_key_hex": "ab" * 32, "body": {"commit_key_id": "ck_1"}}


def relay(body: Any, name: str, **settings: Any) -> answers.Answer:
    with Stub(lambda exchange: exchange.answer(200, body)) as stub:
        return call(stub.url, name, **settings)


@pytest.mark.parametrize("name", VALID)
def test_answers_arrive_as_text_and_structure(name: str) -> None:
    body = {
        "results": [
            {
                "id": "lm_1",
                "memory": "za\u017c\u00f3\u0142\u0107 \U0001f9d1\u200d\U0001f680",
                "score": 0.92,
                "none": None,
            }
        ]
    }
    answer = relay(body, name)
    assert not answer.is_error
    assert json.loads(answer.text) == answer.structured
    assert len(answer.text.encode()) <= answers.MAX_TEXT_BYTES
    if name != "verify_receipt":
        assert answer.structured == body


def test_search_keeps_whole_results_in_rank_order() -> None:
    results = [
        {"id": f"lm_{number}", "memory": "\u0142" * 4_000, "score": 1 - number / 100} for number in range(100)
    ]
    answer = relay({"results": results, "degraded": True}, "search_memory")
    assert answer.structured is not None
    kept: Any = answer.structured["results"]
    assert kept == results[: len(kept)]
    assert (len(kept), answer.structured["omitted"], answer.structured["degraded"]) == (8, 92, True)
    assert len(answer.text.encode()) <= answers.MAX_TEXT_BYTES


def test_a_result_too_large_for_itself_does_not_hide_the_others() -> None:
    results = [{"id": "lm_0", "memory": "a" * 70_000}, {"id": "lm_1", "memory": "b"}]
    answer = relay({"results": results}, "search_memory")
    assert answer.structured == {"results": results[1:], "omitted": 1}


def test_the_bound_is_exact() -> None:
    room = answers.MAX_TEXT_BYTES - answers.size({"results": [{"memory": ""}]})
    fits = {"results": [{"memory": "a" * room}]}
    assert relay(fits, "search_memory").structured == fits
    over = {"results": [{"memory": "a" * (room + 1)}]}
    assert relay(over, "search_memory").structured == {"results": [], "omitted": 1}


def test_add_drops_the_echo_and_keeps_the_proof() -> None:
    result = {"id": "lm_1", "memory": "\n" * 65_000, "event": "ADD", "signed_receipt": RECEIPT}
    answer = relay({"results": [result]}, "add_memory")
    shown = {"id": "lm_1", "event": "ADD", "signed_receipt": RECEIPT, "memory_omitted": True}
    assert (answer.is_error, answer.structured) == (False, {"results": [shown]})


def test_forget_drops_the_proofs_and_says_where_they_are() -> None:
    ids = [f"lm_{number}" for number in range(500)]
    body = {
        "subject": "alice",
        "erased_count": 500,
        "deferred_count": 0,
        "erased_ids": ids,
        "signed_receipts": [{"id": each, "signed_receipt": RECEIPT} for each in ids],
        "signed_closure_receipt": RECEIPT,
    }
    answer = relay(body, "forget_subject")
    assert (answer.is_error, answer.structured) == (
        False,
        {
            "subject": "alice",
            "erased_count": 500,
            "deferred_count": 0,
            "signed_closure_receipt": RECEIPT,
            "signed_receipts_omitted": 500,
            "signed_receipts_at": "GET /v1/receipts",
        },
    )


@pytest.mark.parametrize("name", WRITES)
def test_an_applied_write_is_never_an_error_for_its_size(name: str) -> None:
    body = {"deleted": True, "many": ["x" * 100] * 1_000, "text": "y" * 70_000, "note": "kept"}
    answer = relay(body, name)
    assert not answer.is_error
    assert answer.structured is not None
    assert (answer.structured["deleted"], answer.structured["note"]) == (True, "kept")
    assert (answer.structured["many_omitted"], answer.structured["text_omitted"]) == (1_000, True)
    assert answer.structured["fields_omitted"] == 2


@pytest.mark.parametrize(("name", "count"), [("x", 20_000), ("\u0142" * 1_000, 4_000)])
def test_a_write_with_very_many_fields_is_cut_in_one_go(name: str, count: int) -> None:
    answer = relay({"deleted": True} | {f"{name}{number}": 1 for number in range(count)}, "delete_memory")
    assert not answer.is_error
    assert answer.structured is not None
    assert answer.structured["deleted"] is True
    assert len(answer.text.encode()) <= answers.MAX_TEXT_BYTES


@pytest.mark.parametrize("name", ["get_receipt", "lineage_graph", "lineage_neighbors"])
def test_a_read_that_cannot_be_cut_says_so(name: str) -> None:
    answer = relay({"nodes": ["x" * 100] * 1_000}, name)
    assert (answer.is_error, answer.text) == (
        True,
        "bad answer: the answer is larger than 64 KiB; ask for less.",
    )


def test_search_without_a_list_to_cut_is_refused() -> None:
    assert relay({"results": "x" * 70_000}, "search_memory").is_error
    assert relay({"results": [{"id": "a"}], "more": "x" * 70_000}, "search_memory").is_error


@pytest.mark.parametrize("name", [name for name in VALID if name != "verify_receipt"])
def test_secret_names_withhold_the_whole_body(name: str) -> None:
    answer = relay({"results": [{"id": "lm_1", "body": {"wrappedDEK": "c2VjcmV0"}}]}, name)
    assert answer.is_error
    assert answer.text.startswith("bad answer: the body is withheld: a field is named like key material.")
    assert "c2VjcmV0" not in answer.text
    assert answer.structured is None
    assert answer.text.endswith("The operation may have been applied.") == (name in WRITES)


def test_memory_text_may_say_what_it_likes() -> None:
    body = {"results": [{"memory": 'private_key: "dek" api_key password', "id": "secret_key"}]}
    assert relay(body, "search_memory").structured == body


@pytest.mark.parametrize(
    "secret",
    [
        *("dek", "kek", "DEK", "row_dek", "wrappedDek", "wrapped-kek", "kekVersion", "dek1", "deks"),
        *(
            "private_key",
            "privateKey",
            "PrivateKeyPem",
            "private key",
            "privatekey",
            "PRIVATE_KEYS",
            "private.key",
        ),
        *(
            "secret_key",
            "secret",
            "client_secret",
            "wrapped_key",
            "commitment_key",
            "api_key",
            "apiKey",
            "APIKey",
        ),
        *("commit_key", "master_key", "signing_key", "password", "passphrase", "authorization", "bearer"),
        *("\uff44\uff45\uff4b", "d\u200bek", "private\u00adkey", "Private\u2010Key"),
    ],
)
def test_names_that_do_not_pass(secret: str) -> None:
    assert screen.is_secret(secret)
    with pytest.raises(Withheld):
        screen.admit({"a": [{"b": {secret: 1}}]})


@pytest.mark.parametrize(
    "public",
    [
        *(
            "key_custody",
            "public_key_hex",
            "retirement_hashes",
            "closed_set_commitment",
            "commit_key_id",
            "id",
        ),
        *(
            "memory",
            "receipt_hash",
            "signer_id",
            "signature_hex",
            "tenant_id_hash",
            "old_key_id",
            "new_key_id",
        ),
        *(
            "key_role",
            "epoch_before",
            "destroy_method",
            "key_final_at",
            "subject_pseudonym",
            "matter_ref_hmac",
        ),
        *("closed_set_size", "evidence_ref_hmac", "dekker", "kekule", "monkey", "keyboard", "secretary", ""),
    ],
)
def test_names_that_pass(public: str) -> None:
    assert not screen.is_secret(public)
    screen.admit({"a": [{"b": {public: 1}}]})


def test_depth_and_nodes_are_bounded() -> None:
    deep: Any = {}
    for _ in range(screen.MAX_DEPTH - 1):
        deep = {"a": deep}
    screen.admit(deep)
    with pytest.raises(Withheld, match="nested"):
        screen.admit({"a": deep})
    with pytest.raises(Withheld, match="parts"):
        screen.admit({"a": [0] * screen.MAX_NODES})


@pytest.mark.parametrize(
    "body",
    [
        b'{"results": [], "results": []}',
        b'{"results": [{"id": 1, "id": 2}]}',
        b'{"score": NaN}',
        b'{"score": Infinity}',
        b'{"score": 1e400}',
        b"[]",
        b"7",
        b"null",
        b"",
        b"{",
        b'{"a": 1} x',
        b'\xff\xfe{"a": 1}',
        b'{"a": "\xff"}',
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"a":' * 200 + b"1" + b"}" * 200,
        b'{"a": ' + b"9" * 5_000 + b"}",
    ],
)
@pytest.mark.parametrize("name", ["add_memory", "search_memory"])
def test_a_body_two_readers_could_read_differently_is_withheld(body: bytes, name: str) -> None:
    answer = relay(body, name)
    assert answer.is_error
    assert answer.text.startswith("bad answer: ")
    assert answer.text.endswith("The operation may have been applied.") == (name == "add_memory")


def test_the_key_is_cut_out_of_whatever_is_relayed() -> None:
    answer = relay({"results": [{"memory": f"my key is {KEY}", KEY: 1}]}, "search_memory")
    assert answer.structured == {"results": [{"memory": "my key is [redacted]", "[redacted]": 1}]}
    assert KEY not in answer.text


def test_a_short_key_mangles_no_text() -> None:
    body = {"results": [{"memory": "text", "id": "lm_1"}]}
    assert relay(body, "search_memory", api_key="e").structured == body


def test_lone_surrogates_are_replaced() -> None:
    answer = relay(b'{"results": [{"memory": "a\\ud800b\\udc00c\\ud83d\\ude80"}]}', "search_memory")
    assert answer.structured == {"results": [{"memory": "a\ufffdb\ufffdc\U0001f680"}]}
    assert json.loads(answer.text) == answer.structured


def test_delete_keeps_the_json_of_a_refusal() -> None:
    for status, body in (
        (423, {"code": "held", "deleted": False, "held": True, "detail": "a legal hold forbids this"}),
        (404, {"code": "not_found", "deleted": False, "detail": "not found"}),
    ):
        with Stub(lambda exchange, status=status, body=body: exchange.answer(status, body)) as stub:
            answer = call(stub.url, "delete_memory")
        assert (answer.is_error, answer.structured, json.loads(answer.text)) == (True, body, body)


def test_a_kept_refusal_is_cleaned_all_the_same() -> None:
    body = {"deleted": False, "detail": f"Traceback: {KEY}" + "x" * 5_000}
    with Stub(lambda exchange: exchange.answer(404, body)) as stub:
        assert call(stub.url, "delete_memory").structured == {"deleted": False, "detail": ""}
    with Stub(lambda exchange: exchange.send(404, b"<html>no</html>", Content_Type="text/html")) as stub:
        answer = call(stub.url, "delete_memory")
    assert (answer.structured, answer.text) == (None, "refused (404): no such memory, or already erased")
