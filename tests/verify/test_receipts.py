"""All of receipts.jsonl: the first answer, through every door."""

import json

import pytest

from shomei_memory_verify import SignedReceipt, VerifyResult, verify_signed_receipt
from tests.verify import corpus
from tests.verify.corpus import ReceiptCase

CASES = corpus.receipt_cases()


def assert_answer(case: ReceiptCase, result: VerifyResult) -> None:
    assert (result.valid, result.authenticated) == (case.valid, case.authenticated)
    if case.reason == "malformed":
        assert result.reason.startswith("malformed: ")
        assert (result.public_key_hex, result.schema, result.signer_id, result.body) == ("", "", "", {})
    else:
        assert result.reason == case.reason
    if case.valid:
        assert result.schema == case.schema
        assert len(result.public_key_hex) == 64
        assert result.public_key_hex == result.public_key_hex.lower()
    assert bool(result) is case.authenticated


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == 356
    assert len({case.id for case in CASES}) == 356


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_as_text_and_as_bytes(case: ReceiptCase) -> None:
    assert_answer(case, verify_signed_receipt(case.as_bytes(), expected_public_key_hex=case.pin))
    if isinstance(case.raw, str):
        assert_answer(case, verify_signed_receipt(case.raw, expected_public_key_hex=case.pin))


# What only the text shows: a parser before the mapping door has already decided these.
TEXT_ONLY = {"limit/size-65537-whitespace", "number/int-5000-digits"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_as_a_mapping(case: ReceiptCase) -> None:
    try:
        parsed = json.loads(case.as_bytes().decode())
    except (ValueError, RecursionError):
        assert case.reason == "malformed"
        return
    if not isinstance(parsed, dict):
        with pytest.raises(ValueError, match=r"^not an object$|^a lone surrogate$"):
            SignedReceipt.from_dict(parsed)
        return
    result = verify_signed_receipt(parsed, expected_public_key_hex=case.pin)
    if case.id in TEXT_ONLY or case.id.startswith("dup/"):
        assert result.reason.partition(":")[0] in {"ok", "signature_or_hash_invalid", "malformed"}
    else:
        assert_answer(case, result)


def test_golden_receipt() -> None:
    golden = corpus.load("upstream_golden_receipt.json")
    assert isinstance(golden, dict)
    key = golden["public_key_hex"]
    assert verify_signed_receipt(golden).reason == "ok_unpinned"
    result = verify_signed_receipt(golden, expected_public_key_hex=key)
    assert result == VerifyResult(
        valid=True,
        authenticated=True,
        reason="ok",
        public_key_hex=key,
        schema="shomei.governed_delete.example.v1",
        signer_id="shomei-example-signer",
        body=golden["body"],
    )
    receipt = SignedReceipt.from_dict(golden)
    assert receipt.hash_matches()
    assert receipt.signature_valid()
    assert receipt.signature_valid(expected_public_key_hex=key.upper())
    assert not receipt.signature_valid(expected_public_key_hex=corpus.PIN)
    assert not receipt.signature_valid(expected_public_key_hex="")


def test_a_receipt_object_is_verified_like_its_mapping() -> None:
    envelope = corpus.seal({"schema": "shomei.memory_add.v1", "n": 1})
    receipt = SignedReceipt.from_dict(envelope)
    assert verify_signed_receipt(receipt, expected_public_key_hex=corpus.PIN).authenticated
    receipt.body["n"] = 2
    assert not receipt.hash_matches()
    assert not receipt.signature_valid()
    receipt.body["n"] = float("nan")
    assert not receipt.hash_matches()
    assert not receipt.signature_valid()
    assert verify_signed_receipt(receipt).reason == "malformed: a number that is not finite"


def test_from_dict_refuses_with_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"^body is missing or not an object$"):
        SignedReceipt.from_dict({**corpus.seal({}), "body": []})


def test_the_result_is_out_of_reach_of_the_caller() -> None:
    envelope = corpus.seal({"schema": "x", "list": [1]})
    result = verify_signed_receipt(envelope, expected_public_key_hex=corpus.PIN)
    body = envelope["body"]
    assert isinstance(body, dict)
    body["schema"] = "y"
    body["list"].append(2)
    assert result.body == {"schema": "x", "list": [1]}
