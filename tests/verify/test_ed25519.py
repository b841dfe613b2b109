"""Public ed25519 vectors: the strict rule, with no exception."""

from typing import cast

import pytest
from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from shomei_memory_verify.signature import signature_fits
from tests.verify import corpus


def fits(key: str, message: bytes, signature: str) -> bool:
    """Ask the verifier, and hold it to PyNaCl's public interface on well-formed input."""
    answer = signature_fits(message, signature_hex=signature, public_key_hex=key)
    if len(signature) == 128 and len(key) == 64:
        assert answer is opens(bytes.fromhex(key), bytes.fromhex(signature) + message)
    return answer


def opens(key: bytes, signed: bytes) -> bool:
    try:
        crypto_sign_open(signed, key)
    except BadSignatureError:
        return False
    return True


def test_wycheproof() -> None:
    suite = cast("dict[str, list[dict[str, object]]]", corpus.load("wycheproof_ed25519_test.json"))
    wrong: list[object] = []
    seen = 0
    for group in suite["testGroups"]:
        key = cast("dict[str, str]", group["publicKey"])["pk"]
        for case in cast("list[dict[str, str]]", group["tests"]):
            seen += 1
            if fits(key, bytes.fromhex(case["msg"]), case["sig"]) is not (case["result"] == "valid"):
                wrong.append(case["tcId"])
    assert (seen, wrong) == (151, [])


def test_cctv_accepts_exactly_the_listed() -> None:
    cases = cast("list[dict[str, str]]", corpus.load("cctv_ed25519vectors.json"))
    accepted = [case["number"] for case in cases if fits(case["key"], case["msg"].encode(), case["sig"])]
    listed = cast("dict[str, list[str]]", corpus.load("ed25519_strict_expected.json"))
    assert len(cases) == 914
    assert len(accepted) == 43
    assert accepted == listed["cctv_ed25519vectors.json accepted numbers"]


def test_speccheck_accepts_row_three_alone() -> None:
    cases = cast("list[dict[str, str]]", corpus.load("speccheck_cases.json"))
    accepted = [
        row
        for row, case in enumerate(cases)
        if fits(case["pub_key"], bytes.fromhex(case["message"]), case["signature"])
    ]
    assert (len(cases), accepted) == (12, [3])


def test_rfc_8032() -> None:
    cases = cast("list[dict[str, str]]", corpus.load("rfc8032_ed25519.json"))
    assert len(cases) == 133
    for case in cases:
        message = bytes.fromhex(case["message"])
        assert fits(case["public_key"], message, case["signature"]), case["name"]
        assert not fits(case["public_key"], message + b"\0", case["signature"]), case["name"]


def test_no_small_order_key_signs_anything() -> None:
    listed = cast("dict[str, list[str]]", corpus.load("ed25519_strict_expected.json"))
    keys = listed["small_order_encodings"]
    assert len(keys) == 14
    for key in keys:
        for point in keys:
            assert not fits(key, b"any body", point + "00" * 32)


@pytest.mark.parametrize(
    "key", ["", "0" * 63, "0" * 65, "0" * 62, "g" * 64, "０" * 64, " " + "0" * 63, "0" * 63 + "\n"]
)
def test_a_key_is_64_hex_digits(key: str) -> None:
    assert not signature_fits(b"", signature_hex="0" * 128, public_key_hex=key)


def test_a_longer_signature_cannot_bring_a_piece_of_message_along() -> None:
    longer = corpus.SIGNER.sign(b"x" + b"body").signature + b"x"
    assert not signature_fits(b"body", signature_hex=longer.hex(), public_key_hex=corpus.PIN)


@pytest.mark.parametrize("signature", ["", "0" * 127, "0" * 129, "g" * 128, "０" * 128, "0" * 127 + "\n"])
def test_a_signature_is_128_hex_digits(signature: str) -> None:
    assert not signature_fits(b"", signature_hex=signature, public_key_hex=corpus.PIN)
