"""The text door: JSONTestSuite, the caps, and what a lenient parser would let through."""

import base64
import json
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shomei_memory_verify import verify_signed_receipt
from shomei_memory_verify.envelope import read
from shomei_memory_verify.text import MAX_BYTES, MAX_DEPTH, Malformed, parse
from tests.verify import corpus

# Legal JSON, refused by RFC 7493 §2.3.
DUPLICATES = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}

SUITE = corpus.lines("jsontestsuite_parsing.jsonl")


def suite_bytes(case: dict[str, object]) -> bytes:
    if case["b64"] is not None:
        return base64.b64decode(cast("str", case["b64"]))
    text, times = cast("tuple[str, int]", case["repeat"])
    return (text * times + cast("str", case.get("suffix", ""))).encode()


def refusal_of(data: bytes) -> str | None:
    try:
        parse(data.decode())
    except (Malformed, UnicodeDecodeError) as exc:
        return str(exc)
    return None


def test_the_suite_is_whole() -> None:
    assert len(SUITE) == 318


@pytest.mark.parametrize("case", SUITE, ids=lambda case: case["name"])
def test_json_test_suite(case: dict[str, object]) -> None:
    data = suite_bytes(case)
    refusal = refusal_of(data)
    if case["expect"] == "n":
        assert refusal is not None
    elif case["expect"] == "y":
        assert refusal == ("a duplicate name" if case["name"] in DUPLICATES else None)
    # None of them is a receipt, nor does one become a receipt's unknown field unless it is strict JSON.
    assert verify_signed_receipt(data).reason.startswith("malformed: ")
    carried = corpus.text_of(corpus.seal({"n": 1})).encode()[:-1] + b',"x":' + data + b"}"
    answer = verify_signed_receipt(carried, expected_public_key_hex=corpus.PIN)
    assert answer.authenticated is (refusal is None)


# What the transform cases become: a value, or a refusal; none is changed in silence.
TRANSFORMED: dict[str, object] = {
    "number_1.0.json": [1],
    "number_1.000000000000000005.json": [1],
    "number_1000000000000000.json": [10**15],
    "number_1e-999.json": [0],
    "number_1e6.json": [10**6],
    "object_key_nfc_nfd.json": {"\u00e9": "NFC", "e\u0301": "NFD"},
    "object_key_nfd_nfc.json": {"e\u0301": "NFD", "\u00e9": "NFC"},
    "string_with_escaped_NULL.json": ["A\0B"],
}


def test_json_test_suite_transforms() -> None:
    cases = corpus.lines("jsontestsuite_transform.jsonl")
    assert len(cases) == 22
    read_as: dict[str, object] = {}
    for case in cases:
        try:
            read_as[str(case["name"])], _ = parse(suite_bytes(case).decode())
        except (Malformed, UnicodeDecodeError):
            continue
    assert read_as == TRANSFORMED


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH])
def test_depth_within_the_cap(depth: int) -> None:
    assert parse(nested(depth)) == (json.loads(nested(depth)), True)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000, 30_000])
def test_depth_beyond_the_cap(depth: int) -> None:
    with pytest.raises(Malformed, match=r"^nested deeper than 64 levels$"):
        parse(nested(depth))


JUNK = st.text(st.sampled_from('[]{}"\\:,a/é'), max_size=6)
TREES = st.recursive(
    JUNK | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(JUNK, inner, max_size=3),
    max_leaves=10,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@settings(max_examples=300, deadline=None)
@given(TREES, st.integers(50, 66), st.booleans())
def test_depth_is_counted_outside_strings(tree: object, levels: int, ascii_only: bool) -> None:
    # The wide sibling makes the bracket count useless as a shortcut.
    value: object = [tree, *[[] for _ in range(MAX_DEPTH)]]
    for level in range(levels):
        value = {"]}\\": value} if level % 2 else [value]
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert (refusal_of(text.encode()) is None) is (depth_of(value) <= MAX_DEPTH)


def test_size_counts_utf8_bytes() -> None:
    envelope = corpus.text_of(corpus.seal({"n": 1}))
    room = MAX_BYTES - len(envelope.encode()) - len(',"x":""')
    for filling, size in (("a" * room, 0), ("a" * (room - 1) + "é", 1), ("é" * (room // 2 + 1), 2)):
        text = envelope[:-1] + ',"x":"' + filling + '"}'
        assert len(text) <= MAX_BYTES
        fits = len(text.encode()) <= MAX_BYTES
        assert fits is (size == 0)
        for given_as in (text, text.encode(), bytearray(text.encode())):
            assert (verify_signed_receipt(given_as).reason == "ok_unpinned") is fits


def test_bytes_beyond_the_cap_are_not_decoded() -> None:
    assert verify_signed_receipt(b"\xff" * MAX_BYTES).reason == "malformed: not UTF-8"
    assert verify_signed_receipt(b"\xff" * (MAX_BYTES + 1)).reason == "malformed: larger than 65536 bytes"


@pytest.mark.parametrize("escape", [True, False])
def test_names_sort_by_utf16_however_they_are_spelt(escape: bool) -> None:
    receipt = corpus.seal({"\ue000": 1, "\U00010000": 2, "schema": "s"})
    text = json.dumps(receipt, ensure_ascii=escape)
    assert verify_signed_receipt(text, expected_public_key_hex=corpus.PIN).reason == "ok"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_only_members_and_spelling_may_change(data: st.DataObject) -> None:
    """However a text is damaged, what authenticates still says what was signed."""
    body = {"schema": "shomei.memory_add.v1", "n": 10, "t": "a b", "l": [1, {"k": None}], "f": True}
    genuine = corpus.text_of(corpus.seal(body)).encode()
    at = data.draw(st.integers(0, len(genuine)))
    cut = data.draw(st.integers(0, 3))
    insert = data.draw(
        st.binary(max_size=3) | st.sampled_from([b'"', b"\\", b"{", b"}", b",", b" ", b"1", b"0"])
    )
    damaged = genuine[:at] + insert + genuine[at + cut :]
    result = verify_signed_receipt(damaged, expected_public_key_hex=corpus.PIN)
    assert not result.authenticated or result.body == body


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text() | st.floats(-1e15, 1e15),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    ),
    st.sampled_from([None, 0, 3]),
    st.booleans(),
    st.booleans(),
)
def test_every_spelling_has_one_verdict(tree: object, indent: int | None, escape: bool, sort: bool) -> None:
    envelope = corpus.seal({"schema": "s", "tree": tree})
    text = json.dumps(envelope, indent=indent, ensure_ascii=escape, sort_keys=sort)
    from_text = verify_signed_receipt(text, expected_public_key_hex=corpus.PIN)
    assert from_text == verify_signed_receipt(envelope, expected_public_key_hex=corpus.PIN)
    assert from_text.reason == "ok"


def test_text_and_mapping_reading_agree_on_canonical_bytes() -> None:
    for case in corpus.receipt_cases():
        if case.valid:
            assert read(case.as_bytes()).canonical == read(json.loads(case.as_bytes())).canonical
