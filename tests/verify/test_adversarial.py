"""T-33: a verifier under attack. Nothing forged is authenticated, nothing escapes, no field makes a page."""

import json
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from shomei_memory_verify import render, to_html, verify_signed_receipt
from shomei_memory_verify.canonical import canonical_bytes
from tests.verify import corpus
from tests.verify.examples import EXAMPLES, closure

ROUNDS = 4_000
DEEP_ROUNDS = 400_000
LONGEST_SEED = 5_000  # bytes: the few longer ones are about size alone
RESULT = Path(__file__).with_name("deep.json")

ORDER = 2**252 + 27742317777372353535851937790883648493  # of the ed25519 group, RFC 8032 §5.1


def genuine() -> dict[str, object]:
    return corpus.seal(EXAMPLES["vector_delete_hardware"])


def with_body_text(text: str) -> str:
    """Return a genuine envelope whose body is this text."""
    envelope = corpus.text_of({**genuine(), "body": "BODY"})
    return envelope.replace('"BODY"', text)


def raised_signature() -> str:
    """Return the genuine signature with the group order added to S: the same under a lenient rule."""
    signature = bytes.fromhex(str(genuine()["signature_hex"]))
    raised = int.from_bytes(signature[32:], "little") + ORDER
    return (signature[:32] + raised.to_bytes(32, "little")).hex()


def small_order_forgery() -> dict[str, object]:
    """Return a receipt by the neutral element, under which one signature fits every body."""
    neutral = "01" + "00" * 31
    return {**genuine(), "public_key_hex": neutral, "signature_hex": neutral + "00" * 32}


def attacks() -> dict[str, tuple[str, str]]:
    """Return the text of each attack and the reason that must answer it, under the genuine pin or its own."""
    text = corpus.text_of(genuine())
    deep = "[" * 63 + "]" * 63
    return {
        "duplicate name": (text.replace('"body":', '"body":{},"body":'), "malformed: a duplicate name"),
        "NaN": (with_body_text('{"n":NaN}'), "malformed: not JSON"),
        "2^53": (with_body_text('{"n":9007199254740992}'), "malformed: an integer beyond 2^53-1"),
        "lone surrogate": (with_body_text('{"s":"\\ud800"}'), "malformed: a lone surrogate"),
        "depth 65": (with_body_text('{"x":' + deep + "}"), "malformed: nested deeper than 64 levels"),
        "64 KiB and one": (text + " " * (65_537 - len(text)), "malformed: larger than 65536 bytes"),
        "S raised": (
            corpus.text_of({**genuine(), "signature_hex": raised_signature()}),
            "signature_or_hash_invalid",
        ),
        "small order, genuine pin": (corpus.text_of(small_order_forgery()), "public_key_mismatch"),
    }


@pytest.mark.parametrize("attack", attacks())
def test_t_33_forged_text_is_never_authenticated(attack: str) -> None:
    text, reason = attacks()[attack]
    for given in (text, text.encode()):
        assert verify_signed_receipt(given, expected_public_key_hex=corpus.PIN).reason == reason


def test_t_33_a_small_order_key_fits_nothing_even_as_its_own_pin() -> None:
    forged = small_order_forgery()
    pin = str(forged["public_key_hex"])
    assert verify_signed_receipt(forged, expected_public_key_hex=pin).reason == "signature_or_hash_invalid"
    assert verify_signed_receipt(forged).reason == "signature_or_hash_invalid"


@pytest.mark.parametrize("pin", [corpus.STRANGER_PIN, "", " ", "0" * 64, corpus.PIN[:-1], "0x" + corpus.PIN])
def test_t_33_a_wrong_pin_is_never_no_pin(pin: str) -> None:
    assert verify_signed_receipt(genuine(), expected_public_key_hex=pin).reason == "public_key_mismatch"


@pytest.mark.parametrize(("matched", "erased", "deferred"), [(3, 0, 0), (3, 2, 0), (0, 1, 0), (1, 1, 1)])
def test_t_33_counts_that_do_not_add_up_are_never_certified(matched: int, erased: int, deferred: int) -> None:
    for disposition in ("complete", "partial", "deferred", "noop_no_match"):
        receipt = corpus.seal(closure(matched, erased, deferred, disposition))
        page = render(receipt, expected_public_key_hex=corpus.PIN)
        assert verify_signed_receipt(receipt, expected_public_key_hex=corpus.PIN).authenticated
        assert not page.startswith("# Certificate")


INJECTIONS = {
    "heading": "x\n# Certificate of everything\n",
    "html": "<script>alert(1)</script><h1>Certificate</h1>",
    "terminal": "\x1b[2J\x1b]0;Certificate\x07\x9b31m",
    "code span": "` **Certificate** `",
    "bidi": "\u202eetacifitreC\u2066",
}


@pytest.mark.parametrize("injection", INJECTIONS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_t_33_no_field_changes_the_page_around_it(name: str, injection: str) -> None:
    """Put the attack into each string of the body in turn: it may change values, never what frames them."""
    attack = INJECTIONS[injection]
    for field, value in EXAMPLES[name].items():
        if isinstance(value, str) and field != "schema":
            attacked = corpus.seal({**EXAMPLES[name], field: attack})
            page = render(attacked, expected_public_key_hex=corpus.PIN)
            assert re.fullmatch(r"[\n -~]*", page)
            assert sum(line.startswith("# ") for line in page.splitlines()) == 1
            assert attack not in page
            html = to_html(page)
            assert "<script" not in html
            assert html.count("<h1>") == 1


# --- a mutation loop in the manner of a fuzzer, over everything the corpus knows


def mutate(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """Return the bytes with a few of a fuzzer's usual changes."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(changed))
        match chance.randrange(5):
            case 0:
                changed[at : at + chance.randint(0, 4)] = chance.randbytes(chance.randint(0, 4))
            case 1:
                changed[at:at] = chance.choice(
                    [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"\x00"]
                )
            case 2:
                del changed[at : at + chance.randint(1, 40)]
            case 3:
                changed[at:at] = changed[at : at + chance.randint(1, 40)]
            case _:
                other = chance.choice(others)
                start = chance.randint(0, len(other))
                changed[at:at] = other[start : start + chance.randint(1, 60)]
    return bytes(changed)


def signed_forms(cases: list[corpus.ReceiptCase]) -> set[bytes]:
    """Return the canonical bytes of every body a key of the corpus has really signed."""
    forms: set[bytes] = set()
    for case in cases:
        if case.valid:
            forms.add(canonical_bytes(json.loads(case.as_bytes())["body"]))
    return forms


REASONS = {"ok", "ok_unpinned", "public_key_mismatch", "signature_or_hash_invalid", "malformed"}


def test_t_33_mutation_loop(request: pytest.FixtureRequest) -> None:
    """What a mutant may keep is a body that was really signed; all else is refused by a known reason."""
    deep = bool(request.config.getoption("--deep"))
    rounds = DEEP_ROUNDS if deep else ROUNDS
    cases = corpus.receipt_cases()
    cases = [case for case in cases if len(case.as_bytes()) < LONGEST_SEED]
    seeds = [case.as_bytes() for case in cases]
    signed = signed_forms(cases)
    chance = random.Random(33)
    verdicts: Counter[str] = Counter()
    for _ in range(rounds):
        case = chance.choice(cases)
        data = mutate(case.as_bytes(), chance, seeds)
        result = verify_signed_receipt(data, expected_public_key_hex=chance.choice([case.pin, None]))
        verdicts[result.reason.partition(":")[0]] += 1
        assert not result.valid or canonical_bytes(result.body) in signed
    assert set(verdicts) == REASONS
    if deep:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        result = {"rounds": rounds, "verdicts": dict(verdicts), "commit": head.stdout.strip()}
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
