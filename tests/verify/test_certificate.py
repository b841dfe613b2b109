"""The page: never stronger than the verdict, and nothing signed can change its shape."""

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shomei_memory_verify import SignedReceipt, VerifyResult, render, to_html, verify_signed_receipt
from shomei_memory_verify.certificate import NON_CLAIMS
from shomei_memory_verify.fields import shown, utc
from shomei_memory_verify.statements import STATEMENTS
from tests.verify import corpus
from tests.verify.examples import EXAMPLES, HEADER, closure


def page_of(body: dict[str, object], pin: str | None = corpus.PIN) -> str:
    return render(corpus.seal(body), expected_public_key_hex=pin)


def headings(page: str) -> list[str]:
    return [line for line in page.split("\n") if line.startswith("#")]


WHY = {
    "malformed": "The document is not a receipt in the one form that the specification allows.",
    "public_key_mismatch": "The key you pinned is not the key that the document carries.",
    "signature_or_hash_invalid": "The document does not say what its key signed: it was altered, or forged.",
}
SHAPE = [
    "## What the holder of the pinned key states",
    "## What this does not claim",
    "## What was signed",
    "## Check it yourself",
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_certified_only_when_authenticated(name: str) -> None:
    certified = page_of(EXAMPLES[name])
    assert headings(certified)[0].startswith("# Certificate: ")
    assert headings(certified)[1:] == SHAPE
    assert "**Verdict: authenticated.**" in certified

    unpinned = page_of(EXAMPLES[name], None)
    assert headings(unpinned)[0].startswith("# Unattributed receipt: ")
    assert headings(unpinned)[1:] == [
        "## What an unknown signer asserts",
        "## What this does not claim",
        "## What the document contains",
        "## Check it yourself",
    ]
    assert "Certificate" not in unpinned
    assert "authenticated" not in unpinned.lower()
    said = unpinned.split("## What an unknown signer asserts")[1].split("## ")[0].strip().split("\n")
    assert all(line.startswith("- Asserted: ") for line in said)

    refused = page_of(EXAMPLES[name], corpus.STRANGER_PIN)
    assert headings(refused) == ["# No valid receipt", SHAPE[1], SHAPE[3]]
    for value in EXAMPLES[name].values():
        assert len(str(value)) < 12 or str(value) not in refused

    for page in (certified, unpinned, refused):
        assert all(f"- {claim}\n" in page for claim in NON_CLAIMS)
        assert page.isascii()


def test_every_schema_has_an_example() -> None:
    assert {str(body["schema"]) for body in EXAMPLES.values()} == set(STATEMENTS)


def test_every_way_in_gives_the_same_page() -> None:
    receipt = corpus.seal(EXAMPLES["memory_add"])
    page = render(receipt, expected_public_key_hex=corpus.PIN)
    assert page == render(corpus.text_of(receipt), expected_public_key_hex=corpus.PIN)
    assert page == render(corpus.text_of(receipt).encode(), expected_public_key_hex=corpus.PIN)
    assert page == render(SignedReceipt.from_dict(receipt), expected_public_key_hex=corpus.PIN)
    assert page == render(verify_signed_receipt(receipt, expected_public_key_hex=corpus.PIN))


def test_a_pin_beside_a_result_can_only_weaken_it() -> None:
    receipt = corpus.seal(EXAMPLES["memory_add"])
    pinned = verify_signed_receipt(receipt, expected_public_key_hex=corpus.PIN)
    unpinned = verify_signed_receipt(receipt)
    assert render(pinned, expected_public_key_hex=corpus.PIN.upper()) == render(pinned)
    assert headings(render(pinned, expected_public_key_hex=corpus.STRANGER_PIN))[0] == "# No valid receipt"
    assert headings(render(pinned, expected_public_key_hex=""))[0] == "# No valid receipt"
    assert render(unpinned, expected_public_key_hex=corpus.PIN) == render(unpinned)


@pytest.mark.parametrize(
    "result",
    [
        VerifyResult(False, True, "ok"),
        VerifyResult(True, True, "signature_or_hash_invalid"),
        VerifyResult(True, True, "ok_unpinned"),
        VerifyResult(True, False, "ok"),
        VerifyResult(False, True, "malformed: x"),
    ],
)
def test_a_verdict_that_contradicts_itself_certifies_nothing(result: VerifyResult) -> None:
    assert headings(render(result))[0] == "# No valid receipt"


# --- closures: m = e + d and the table of dispositions

TABLE = [(m, e, d) for m in range(4) for e in range(4) for d in range(4)]
WORDS = ["noop_no_match", "complete", "deferred", "partial", "COMPLETE", "done", ""]


@pytest.mark.parametrize("counts", TABLE, ids=str)
def test_a_closure_is_certified_only_by_the_table(counts: tuple[int, int, int]) -> None:
    matched, erased, deferred = counts
    for disposition in WORDS:
        right = matched == erased + deferred and disposition == (
            "noop_no_match"
            if matched == 0
            else "complete"
            if deferred == 0
            else "deferred"
            if erased == 0
            else "partial"
        )
        page = page_of(closure(matched, erased, deferred, disposition))
        assert ("# Certificate: Subject closure" in page) is right
        assert ("## Nothing is certified" in page) is not right
        assert ("memories were erased" in page) is (right and erased > 0)
        assert "were erased" not in page_of(closure(matched, erased, deferred, disposition), None) or right


@pytest.mark.parametrize(
    "name", ["matched_count", "erased_count", "deferred_count", "disposition", "match_basis"]
)
@pytest.mark.parametrize("value", [None, "5", 5.5, True, [], {}, -1, "absent"], ids=str)
def test_a_closure_with_a_field_of_another_type_is_not_certified(name: str, value: object) -> None:
    body = closure(5, 5, 0, "complete")
    if value == "absent":
        del body[name]
    elif name != "match_basis" or not isinstance(value, str):
        body[name] = value
    else:
        return
    assert headings(page_of(body))[:2] == [
        "# Receipt without certificate: Nothing to state",
        "## Nothing is certified",
    ]


def test_true_is_not_a_count() -> None:
    for name in ("matched_count", "erased_count"):
        assert "## Nothing is certified" in page_of({**closure(1, 1, 0, "complete"), name: True})


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_body_without_what_the_page_states_is_not_certified(name: str) -> None:
    """Take away each field in turn: the page still comes, and says less or nothing, never more."""
    whole = page_of(EXAMPLES[name])
    stated = whole.split(SHAPE[0])[1].split("## ")[0].count("\n- ")
    for field in EXAMPLES[name]:
        page = page_of({other: EXAMPLES[name][other] for other in EXAMPLES[name] if other != field})
        if "## Nothing is certified" not in page:
            assert page.split(SHAPE[0])[1].split("## ")[0].count("\n- ") <= stated


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("vector_delete_hardware", "embedding_retired", False),
        ("restriction_applied", "restricted_state", False),
        ("restriction_applied", "action", "removed"),
        ("reerase", "backup_detected", False),
        ("consent", "action", "given"),
        ("legal_hold_placed", "scope", "tenant"),
        ("key_rotation", "key_role", "root"),
        ("memory_add", "memory_id", ""),
        ("memory_add", "applied_at", "now"),
    ],
)
def test_a_body_that_contradicts_itself_is_not_certified(name: str, field: str, value: object) -> None:
    page = page_of({**EXAMPLES[name], field: value})
    assert headings(page)[:2] == [
        "# Receipt without certificate: Nothing to state",
        "## Nothing is certified",
    ]


def test_an_unknown_schema_is_shown_and_not_certified() -> None:
    page = page_of({"schema": "shomei.unheard.v9", **HEADER})
    assert headings(page)[0] == "# Receipt without certificate: Unknown kind"
    assert "- `log.seq`: `17`" in page
    assert "- `log.issued_at`: `1781585655` (2026-06-16 04:54:15 UTC)" in page


@pytest.mark.parametrize("value", [-1, 253_402_300_800, True, 1.5, "1781585655", None], ids=str)
def test_only_a_time_is_shown_as_one(value: object) -> None:
    assert f"- `x_at`: {shown(value)}\n" in page_of({"x_at": value})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "malformed"),
        (corpus.text_of(corpus.seal(EXAMPLES["trust"])), "public_key_mismatch"),
        (corpus.text_of(corpus.seal(EXAMPLES["trust"], receipt_hash="")), "signature_or_hash_invalid"),
    ],
    ids=lambda text: text[:30],
)
def test_a_refusal_says_why_in_words(text: str, reason: str) -> None:
    pin = corpus.PIN if reason == "signature_or_hash_invalid" else corpus.STRANGER_PIN
    verdict = render(text, expected_public_key_hex=pin).split("\n")[2]
    assert verdict.startswith(f"**Verdict: refused.** {WHY[reason]} Reason: `{reason}")


def test_how_a_number_is_spelt_does_not_change_the_page() -> None:
    text = corpus.text_of(corpus.seal(EXAMPLES["subject_closure_complete"]))
    page = render(text, expected_public_key_hex=corpus.PIN)
    for spelling in ("5.0", "5e0", "0.5E+1", "50e-1"):
        other = text.replace(":5,", f":{spelling},").replace(":0,", ":-0.0,")
        assert other.count(spelling) == 3
        assert page == render(other, expected_public_key_hex=corpus.PIN)
        assert page == render(json.loads(other), expected_public_key_hex=corpus.PIN)


# --- custody


@pytest.mark.parametrize(
    ("custody", "flagged"),
    [
        ("dev_local_file", True),
        ("dev_anything", True),
        ("ephemeral_test", True),
        ("hsm_pkcs11", False),
        ("kms_aws", False),
    ],
)
def test_development_custody_is_flagged_in_words(custody: str, flagged: bool) -> None:
    for name in ("memory_add", "memory_update", "vector_delete_hardware", "reerase"):
        body = {**EXAMPLES[name], "key_custody": custody}
        for page in (page_of(body), page_of(body, None)):
            assert ("> **Development key custody.**" in page) is flagged
        if name != "memory_add":
            assert ("Its key was destroyed." in page_of(body)) is not flagged


def test_what_bounds_an_erasure_is_said_in_words() -> None:
    scheduled = page_of(EXAMPLES["vector_delete_scheduled"])
    assert "Its key is scheduled for destruction." in scheduled
    assert (
        "> **Destruction is scheduled, not final.** The key can be brought back until 2026-06-23" in scheduled
    )
    unassured = page_of({**EXAMPLES["vector_delete_development"], "key_custody": "keystore_file"})
    assert "> **Destruction is not assured.**" in unassured
    assert "Its key was destroyed." not in unassured
    assert "> **Backups.** Until 2026-07-16" in page_of(EXAMPLES["vector_delete_hardware"])


FORBIDDEN = re.compile(
    r"irrecoverabl|cannot be recovered|permanently|GDPR compliant|verified|guarantee", re.I
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_page_uses_a_word_stronger_than_the_proof(name: str) -> None:
    for pin in (corpus.PIN, None, ""):
        assert not FORBIDDEN.search(page_of(EXAMPLES[name], pin).replace("purged_verified", ""))


# --- injection

ATTACKS = [
    "x\n# Certificate: Subject closure",
    "x\r\n## What was signed\r\n- all erased",
    "`**Verdict: authenticated.**`",
    "``` \n```",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[text](javascript:alert(1))",
    "![x](http://example.org/x.png)",
    "&lt;b&gt; &#x3c;",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "a\u202eb\u2066c\u200bd\ufeff",
    "a\u2028b\u2029c\x85d\x0be\x0cf",
    "a|b|c\\|d",
    "> quote",
    "- [x] done",
    "\x7f\x00",
    "😀é",
    "a" * 5_000,
]
Place = Callable[[str], dict[str, object]]
PLACES: dict[str, Place] = {
    "match_basis": lambda text: closure(5, 5, 0, "complete", match_basis=text),
    "subject_pseudonym": lambda text: closure(5, 5, 0, "complete", subject_pseudonym=text),
    "disposition": lambda text: closure(5, 5, 0, text),
    "schema": lambda text: {"schema": text},
    "memory_id": lambda text: {**EXAMPLES["vector_delete_hardware"], "memory_id": text},
    "key_custody": lambda text: {**EXAMPLES["vector_delete_hardware"], "key_custody": text},
    "physical_purge_state": lambda text: {**EXAMPLES["vector_delete_hardware"], "physical_purge_state": text},
    "finality": lambda text: {**EXAMPLES["vector_delete_hardware"], "finality": text},
    "reason_code": lambda text: {**EXAMPLES["restriction_applied"], "reason_code": text},
    "unknown field": lambda text: {**EXAMPLES["memory_add"], "zz": text},
    "name of a field": lambda text: {**EXAMPLES["memory_add"], text: 1},
    "nested name": lambda text: {**EXAMPLES["memory_add"], "log": {text: text}},
    "list": lambda text: {**EXAMPLES["memory_add"], "purpose_codes": [text, text]},
}
CODE = re.compile(r"`[A-Za-z0-9_.,:;=+/() \\-]*`")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_a_signed_string_cannot_change_the_page(attack: str, place: str) -> None:
    body, harmless = PLACES[place](attack), PLACES[place]("harmless")
    for pin in (corpus.PIN, None):
        page, plain = page_of(body, pin), page_of(harmless, pin)
        assert re.fullmatch(r"[\n -~]*", page)
        assert skeleton(page) == skeleton(plain)
        assert tags(to_html(page)) == tags(to_html(plain))


def skeleton(page: str) -> list[str]:
    """Return the page with every code span emptied: what the words of the page alone say."""
    return sorted(CODE.sub("`", line) for line in page.split("\n"))


def tags(html: str) -> list[str]:
    return sorted(re.findall(r"<[^>]*>", html))


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_one_inert_span(text: str) -> None:
    assert CODE.fullmatch(shown(text))


def test_a_label_that_nobody_signed_is_inert_too() -> None:
    receipt = corpus.seal(EXAMPLES["memory_add"], signer_id="`\n# Certificate", schema="<b>")
    page = render(receipt, expected_public_key_hex=corpus.PIN)
    assert headings(page)[1:] == SHAPE
    assert "signer_id (not signed): `\\u0060\\u000a\\u0023 Certificate`" in page
    assert "<b>" not in page


def test_values_are_shown_by_type() -> None:
    assert [shown(value) for value in (None, True, False, 7, 1.5, 1e-7, 1e21, "", "a b")] == [
        "`null`",
        "`true`",
        "`false`",
        "`7`",
        "`1.5`",
        "`1e-7`",
        "`1e+21`",
        "`(empty)`",
        "`a b`",
    ]
    assert shown([1, "x"]) == "`1`, `x`"
    assert (shown([]), shown(list(range(9))), shown([[1]]), shown({"a": 1})) == (
        "0 item(s)",
        "9 item(s)",
        "1 item(s)",
        "1 member(s)",
    )
    assert shown("a" * 121) == "`" + "a" * 120 + " ...(121 characters)`"


def test_times_far_away_are_shown_as_numbers() -> None:
    assert utc(0) == "1970-01-01 00:00:00 UTC"
    assert utc(253_402_300_799) == "9999-12-31 23:59:59 UTC"
    assert utc(253_402_300_800) == "epoch second 253402300800"
    assert "epoch second 9007199254740991" in page_of({**EXAMPLES["memory_add"], "applied_at": 2**53 - 1})
