"""Receipts and callers of the published package 0.0.2, both ways."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable

import pytest

import shomei_memory_verify as ours
from shomei_memory_verify import verify_signed_receipt
from tests.published import Published
from tests.verify import corpus
from tests.verify.examples import EXAMPLES

SIGNATURES = """
import inspect, json, sys
sys.path.insert(0, sys.argv[1])
import shomei_memory_verify as package
def shape(function):
    parameters = inspect.signature(function).parameters.values()
    return [[p.name, p.kind.name, p.default is not p.empty] for p in parameters]
print(json.dumps({
    "names": sorted(package.__all__),
    "verify": shape(package.verify_signed_receipt),
    "render": shape(package.render),
    "to_html": shape(package.to_html),
    "from_dict": shape(package.SignedReceipt.from_dict),
    "hash_matches": shape(package.SignedReceipt.hash_matches),
    "signature_valid": shape(package.SignedReceipt.signature_valid),
    "receipt": shape(package.SignedReceipt),
    "result": shape(package.VerifyResult),
}))
"""


def shape(function: Callable[..., object]) -> list[list[object]]:
    parameters = inspect.signature(function).parameters.values()
    return [[p.name, p.kind.name, p.default is not p.empty] for p in parameters]


def test_the_public_names_take_the_same_calls(published: Published) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNATURES, str(published.folder)], capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout)
    assert set(theirs["names"]) <= set(ours.__all__)
    assert theirs["verify"] == shape(ours.verify_signed_receipt)
    assert theirs["render"] == shape(ours.render)
    assert theirs["to_html"] == shape(ours.to_html)
    assert theirs["from_dict"] == shape(ours.SignedReceipt.from_dict)
    assert theirs["hash_matches"] == shape(ours.SignedReceipt.hash_matches)
    assert theirs["signature_valid"] == shape(ours.SignedReceipt.signature_valid)
    assert theirs["receipt"] == shape(ours.SignedReceipt)
    assert theirs["result"] == shape(ours.VerifyResult)


def test_the_published_verifier_authenticates_and_renders_every_schema(published: Published) -> None:
    receipts = [corpus.seal(body) for body in EXAMPLES.values()]
    answers = published.ask([(receipt, corpus.PIN) for receipt in receipts], is_rendered=True)
    for receipt, answer in zip(receipts, answers, strict=True):
        result = verify_signed_receipt(receipt, expected_public_key_hex=corpus.PIN)
        for name in ("valid", "authenticated", "reason", "public_key_hex", "schema", "signer_id", "body"):
            assert answer[name] == getattr(result, name), name
        assert answer["authenticated"] is True
        assert answer["same_page"] is True
        assert str(answer["page"]).startswith("# ")
        assert "</html>" in str(answer["html"])


@pytest.mark.parametrize("extra", [{"log_proof": "c2sp.org/tlog-proof@v1\n"}, {"x": [1, {"y": None}]}])
def test_the_published_verifier_ignores_other_fields(published: Published, extra: dict[str, object]) -> None:
    receipt = corpus.seal(EXAMPLES["memory_add"], **extra)
    assert verify_signed_receipt(receipt, expected_public_key_hex=corpus.PIN).reason == "ok"
    assert published.ask([(receipt, corpus.PIN)])[0]["reason"] == "ok"


def test_the_published_answers_are_as_recorded(published: Published) -> None:
    """Every case the published verifier can parse: its answer is the recorded one, and ours the first."""
    asked: list[tuple[object, str | None]] = []
    recorded: list[dict[str, object]] = []
    for case in corpus.receipt_cases():
        if "crash" not in case.upstream:
            asked.append((json.loads(case.as_bytes()), case.pin))
            recorded.append(case.upstream)
    answers = published.ask(asked)
    assert len(answers) > 250
    for answer, record in zip(answers, recorded, strict=True):
        assert {name: answer[name] for name in record} == record


def test_a_caller_of_the_published_package_finds_its_way(published: Published) -> None:
    golden = corpus.load("upstream_golden_receipt.json")
    assert isinstance(golden, dict)
    pin = golden["public_key_hex"]
    theirs = published.ask([(golden, pin), (golden, None), (golden, corpus.PIN)])
    for answer, given in zip(theirs, (pin, None, corpus.PIN), strict=True):
        result = verify_signed_receipt(golden, expected_public_key_hex=given)
        receipt = ours.SignedReceipt.from_dict(golden)
        assert bool(result) is answer["authenticated"]
        assert result == ours.VerifyResult(
            **{name: answer[name] for name in ours.VerifyResult.__dataclass_fields__}  # type: ignore[arg-type]
        )
        assert ours.render(golden, expected_public_key_hex=given) == ours.render(result)
        assert ours.render(receipt, expected_public_key_hex=given) == ours.render(result)
