"""The page's verdicts are the Python verifier's, on every vector and on damaged receipts."""

from __future__ import annotations

import json
import math
import random
import struct
from typing import cast

from tests.verify import corpus
from tests.verify.examples import EXAMPLES, closure
from tests.verify.test_text import DUPLICATES, suite_bytes
from tests.webpage.answers import Question, of_page, of_python
from tests.webpage.chromium import Chromium

_DAMAGED = 3_000


def test_every_receipt_vector_as_text_and_as_bytes(page: Chromium) -> None:
    cases = corpus.receipt_cases()
    assert len(cases) == 356
    as_given: list[Question] = [(case.raw, case.pin) for case in cases]
    as_bytes: list[Question] = [(case.as_bytes(), case.pin) for case in cases]
    for questions in (as_given, as_bytes):
        answers = of_page(page, questions)
        assert answers == of_python(questions)  # to the last word of a malformed receipt's detail
        for case, answer in zip(cases, answers, strict=True):
            assert (answer.valid, answer.authenticated) == (case.valid, case.authenticated), case.id
            assert answer.kind == case.reason.rstrip(": "), case.id


def fits(page: Chromium, cases: list[tuple[str, bytes, str]]) -> list[bool]:
    """Return the page's answer on keys, messages and signatures."""
    asked = json.dumps([(key, list(message), signature) for key, message, signature in cases])
    ask = f"Promise.all({asked}.map(([key, said, by]) => signature_fits(Uint8Array.from(said), by, key)))"
    return cast("list[bool]", page.run(ask))


def test_wycheproof(page: Chromium) -> None:
    suite = cast("dict[str, list[dict[str, object]]]", corpus.load("wycheproof_ed25519_test.json"))
    cases: list[tuple[str, bytes, str]] = []
    right: list[bool] = []
    for group in suite["testGroups"]:
        key = cast("dict[str, str]", group["publicKey"])["pk"]
        for case in cast("list[dict[str, str]]", group["tests"]):
            cases.append((key, bytes.fromhex(case["msg"]), case["sig"]))
            right.append(case["result"] == "valid")
    assert len(cases) == 151
    assert fits(page, cases) == right


def test_cctv_accepts_exactly_the_listed(page: Chromium) -> None:
    cases = cast("list[dict[str, str]]", corpus.load("cctv_ed25519vectors.json"))
    listed = cast("dict[str, list[str]]", corpus.load("ed25519_strict_expected.json"))
    answers = fits(page, [(case["key"], case["msg"].encode(), case["sig"]) for case in cases])
    accepted = [case["number"] for case, answer in zip(cases, answers, strict=True) if answer]
    assert (len(cases), len(accepted)) == (914, 43)
    assert accepted == listed["cctv_ed25519vectors.json accepted numbers"]


def test_speccheck_accepts_row_three_alone(page: Chromium) -> None:
    cases = cast("list[dict[str, str]]", corpus.load("speccheck_cases.json"))
    answers = fits(
        page, [(case["pub_key"], bytes.fromhex(case["message"]), case["signature"]) for case in cases]
    )
    assert answers == [row == 3 for row in range(12)]


def test_rfc_8032(page: Chromium) -> None:
    cases = cast("list[dict[str, str]]", corpus.load("rfc8032_ed25519.json"))
    right = [(case["public_key"], bytes.fromhex(case["message"]), case["signature"]) for case in cases]
    wrong = [(key, message + b"\0", signature) for key, message, signature in right]
    assert fits(page, right) == [True] * 133
    assert fits(page, wrong) == [False] * 133


def test_no_small_order_key_signs_anything(page: Chromium) -> None:
    listed = cast("dict[str, list[str]]", corpus.load("ed25519_strict_expected.json"))
    keys = listed["small_order_encodings"]
    assert len(keys) == 14
    answers = fits(page, [(key, b"any body", point + "00" * 32) for key in keys for point in keys])
    assert answers == [False] * 196
    assert page.run(f"{json.dumps(keys)}.some((key) => is_strict_point(unhex(key, 32)))") is False


def test_a_signature_is_below_the_order_of_the_group_whatever_the_browser_thinks(page: Chromium) -> None:
    order = 2**252 + 27742317777372353535851937790883648493
    scalars = [0, 1, order - 1, order, order + 1, 2**253, 2**255 - 1, 2**256 - 1]
    point = corpus.SIGNER.verify_key.encode().hex()
    spelt = [point + scalar.to_bytes(32, "little").hex() for scalar in scalars]
    answers = page.run(f"{json.dumps(spelt)}.map((text) => is_strict_signature(unhex(text, 64)))")
    assert answers == [scalar < order for scalar in scalars]


def test_numbers_are_written_as_rfc_8785_writes_them(page: Chromium) -> None:
    lines = (corpus.VECTORS / "es6_10k.txt").read_text("utf-8").splitlines()
    doubles = [struct.unpack(">d", bytes.fromhex(line.partition(",")[0].zfill(16)))[0] for line in lines]
    assert len(lines) == 10_000
    spelt = [repr(double) for double in doubles if math.isfinite(double)]
    written = page.run(f"{json.dumps(spelt)}.map((text) => canonical(Number(text)))")
    assert written == [line.partition(",")[2] for line in lines]


def test_canonical_form(page: Chromium) -> None:
    for case in cast("list[dict[str, str]]", corpus.load("jcs_cyberphone.json")):
        written = str(page.run(f"canonical(parse({json.dumps(case['input'])}))"))
        assert written.encode().hex() == case["canonical_hex"], case["name"]


def test_json_test_suite(page: Chromium) -> None:
    """Carried in a member that verifiers ignore, each text is read all the same."""
    suite = corpus.lines("jsontestsuite_parsing.jsonl")
    head = corpus.text_of(corpus.seal({"n": 1})).encode()[:-1] + b',"x":'
    questions: list[Question] = [(head + suite_bytes(case) + b"}", corpus.PIN) for case in suite]
    answers = of_page(page, questions)
    assert answers == of_python(questions)
    for case, answer in zip(suite, answers, strict=True):
        if case["expect"] != "i":
            right = case["expect"] == "y" and case["name"] not in DUPLICATES
            assert answer.authenticated is right, case["name"]


def test_damaged_receipts(page: Chromium) -> None:
    """However a text is damaged, both verifiers agree, and what both accept says the same."""
    chance = random.Random(8785)
    pieces = [*map(str.encode, ('"', "\\", *"{}[],: 10-.", "e9", "\\u00e9")), b"\xc3"]
    bodies: list[dict[str, object]] = [
        *EXAMPLES.values(),
        {"schema": "x", "é\ue000": [1.5, {"\U00010000": None}], "a": [True, -0.0]},
    ]
    questions: list[Question] = []
    for _ in range(_DAMAGED):
        text = json.dumps(corpus.seal(chance.choice(bodies)), ensure_ascii=chance.random() < 0.5).encode()
        at = chance.randrange(len(text))
        insert = chance.choice([*pieces, *(chance.randbytes(size) for size in range(3) for _ in pieces)])
        text = text[:at] + insert + text[at + chance.choice((0, 1, len(insert))) :]
        questions.append((text, chance.choice((corpus.PIN, corpus.PIN, None))))
    kinds: set[str] = set()
    for theirs, ours in zip(of_page(page, questions), of_python(questions), strict=True):
        assert theirs.kind == ours.kind
        assert theirs == ours or ours.kind == "malformed"  # one that has two faults may name either
        kinds.add(ours.kind)
    assert kinds == {"ok", "ok_unpinned", "malformed", "signature_or_hash_invalid", "public_key_mismatch"}


def test_half_a_pair_is_refused_wherever_it_stands(page: Chromium) -> None:
    text = corpus.text_of(corpus.seal({"n": "x"}))
    halves = ["\ud83d", "\ude00", "\ude00\ud83d", "\\ud83d", "\\ude00", "\\ude00\\ud83d", "\\ud83d\\n\\ude00"]
    whole = ["\U0001f600", "\\ud83d\\ude00", "\\uD83D\\uDE00"]
    places = [',"x":"%s"}', ',"%s":1}', ',"x":[{"%s":"%s"}]}']
    for pieces, reason in ((halves, "malformed: a lone surrogate"), (whole, "ok")):
        texts = [text[:-1] + place.replace("%s", piece) for piece in pieces for place in places]
        questions: list[Question] = [(text, corpus.PIN) for text in texts]
        answers = of_page(page, questions)
        assert answers == of_python(questions)
        assert {answer.reason for answer in answers} == {reason}


def test_pins(page: Chromium) -> None:
    text = corpus.text_of(corpus.seal(EXAMPLES["consent"]))
    spaces = ["\x1c", "\x85", "\xa0", "\u2003", "\u2028", "\u3000", "\ufeff", "\u200b", "\x00", "\n\t "]
    pins = [corpus.PIN.upper(), "", " ", *(f"{space}{corpus.PIN}{space}" for space in spaces)]
    pins += [corpus.PIN[:-1], corpus.PIN + "0", "0x" + corpus.PIN, ":".join(corpus.PIN), "ﬀ" * 32]
    questions: list[Question] = [(text, pin) for pin in pins]
    keyless = corpus.text_of(corpus.seal(EXAMPLES["consent"], public_key_hex=""))
    questions += [(keyless, ""), (keyless, " "), (keyless, None)]
    assert of_page(page, questions) == of_python(questions)


def test_the_worst_input_is_answered_within_a_second(page: Chromium) -> None:
    size = 65_536
    sealed = corpus.text_of(corpus.seal(closure(5, 5, 0, "complete")))[:-1] + ',"x":'
    room = size - len(sealed) - 1
    names = ",".join(f'"{"a" * 40}{number:05}":0' for number in range(room // 50))
    wide = corpus.text_of(corpus.seal({f"{'a' * 40}{number:05}": number for number in range(1_200)}))
    texts = [
        *("[" * size, "{" * size, "9" * size, '{"a":' * (size // 5), " " * size, "\\" * size, '"' * size),
        sealed + "9" * room + "}",
        sealed + "0." + "9" * (room - 2) + "}",
        sealed + '"' + "\\u0000" * (room // 6 - 1) + '"}',
        sealed + "[" + "[]," * (room // 3 - 2) + "0]}",
        sealed + "{" + names + "}}",
        wide,
    ]
    slowest = page.run(
        "(async () => {"
        "  let slowest = 0;"
        f"  for (const text of [...{json.dumps(texts)}, '['.repeat(5e7)]) {{"
        "    const start = performance.now();"
        "    render(await verify(text, null));"
        "    slowest = Math.max(slowest, performance.now() - start);"
        "  }"
        "  return slowest;"
        "})()"
    )
    assert 0 < cast("float", slowest) < 1_000
