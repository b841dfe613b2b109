"""RFC 8785: published vectors, and agreement with the rfc8785 package."""

import json
import shutil
import struct
import subprocess
from collections import UserDict
from collections.abc import Callable, Iterator
from enum import IntEnum, StrEnum
from typing import cast

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from shomei_memory_verify.canonical import NotCanonical, canonical_bytes, plain_bytes
from tests.verify import corpus


def test_published_documents() -> None:
    cases = cast("list[dict[str, str]]", corpus.load("jcs_cyberphone.json"))
    assert len(cases) == 6
    for case in cases:
        assert canonical_bytes(json.loads(case["input"])) == bytes.fromhex(case["canonical_hex"]), case[
            "name"
        ]


def test_ten_thousand_numbers() -> None:
    lines = (corpus.VECTORS / "es6_10k.txt").read_text("ascii").split()
    assert len(lines) == 10_000
    for line in lines:
        bits, _, expected = line.partition(",")
        (number,) = struct.unpack(">d", bytes.fromhex(bits.zfill(16)))
        assert canonical_bytes(number) == expected.encode()


SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | SAFE | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(ANY_TEXT, inner, max_size=6),
    max_leaves=40,
)


@settings(max_examples=400, deadline=None)
@given(JSON)
def test_agrees_with_rfc8785(value: object) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        SCALARS | st.integers() | st.floats() | st.text(st.characters(categories=["L", "Cs"])) | st.binary(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.tuples(inner)
            | st.dictionaries(
                st.text(st.characters(categories=["Lu", "Cs"])) | st.integers(0, 3), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_refuses_what_rfc8785_refuses(value: object) -> None:
    assert form_or_none(canonical_bytes, value) == form_or_none(rfc8785.dumps, value)


NODE = """
const form = value => Array.isArray(value) ? "[" + value.map(form).join(",") + "]"
  : value && typeof value === "object"
    ? "{" + Object.keys(value).sort().map(name => form(name) + ":" + form(value[name])).join(",") + "}"
    : JSON.stringify(value);
require("readline").createInterface({input: process.stdin})
  .on("line", line => console.log(Buffer.from(form(JSON.parse(line))).toString("hex")));
"""


@pytest.fixture(scope="module")
def node() -> Iterator[subprocess.Popen[str]]:
    """Another runtime's own number and string writing, a line in and a line out."""
    if shutil.which("node") is None:
        pytest.skip("must: node is not on this machine")
    command = ["node", "-e", NODE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        yield running
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(timeout=10) == 0


@settings(max_examples=400, deadline=None)
@given(JSON)
def test_agrees_with_node(node: subprocess.Popen[str], value: object) -> None:
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(json.dumps(value) + "\n")
    node.stdin.flush()
    assert bytes.fromhex(node.stdout.readline()) == canonical_bytes(value)


def form_or_none(write: Callable[[object], bytes], value: object) -> bytes | None:
    try:
        return write(value)
    except (ValueError, RecursionError):  # rfc8785 leaks UnicodeEncodeError, a ValueError, and RecursionError
        return None


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | SAFE | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=6)
            | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner, max_size=6)
        ),
    )
)
def test_the_fast_path_is_the_slow_path(value: object) -> None:
    assert plain_bytes(value) == canonical_bytes(value) == rfc8785.dumps(value)


def test_a_canonical_form_is_its_own_canonical_form() -> None:
    for case in corpus.receipt_cases():
        if case.valid:
            canonical = canonical_bytes(json.loads(case.as_bytes()))
            assert canonical_bytes(json.loads(canonical)) == canonical


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 7


def test_subclasses_of_json_types_count_as_those() -> None:
    assert (
        canonical_bytes({Colour.RED: [Colour.RED, Size.BIG, True, (1, 2.0)]})
        == b'{"red":["red",7,true,[1,2]]}'
    )


def cycle() -> object:
    loop: list[object] = []
    loop.extend([loop, loop])
    return loop


def deep() -> object:
    value: object = 0
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        2**53,
        -(2**53),
        10**5000,
        "\ud800",
        {"\udfff": 1},
        {"é\ud800": 1.5},
        {1: 2},
        {"a": 1, 2: 3},
        {None: 1},
        {1.5: 1},
        {("a",): 1},
        b"bytes",
        {1, 2},
        object(),
        1j,
        cycle(),
        deep(),
        UserDict({"a": 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused_without_quoting(value: object) -> None:
    with pytest.raises(NotCanonical, match=r"^[a-zA-Z0-9^ -]+$"):
        canonical_bytes(value)
    with pytest.raises(ValueError):
        canonical_bytes([value, 1.5])
