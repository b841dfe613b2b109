"""Whatever the input, a verdict: no exception leaves the verifier, and nothing odd is authenticated."""

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shomei_memory_verify import SignedReceipt, VerifyResult, render, verify_signed_receipt
from tests.verify import corpus

REASONS = {"ok", "ok_unpinned", "public_key_mismatch", "signature_or_hash_invalid"}


def verdict(receipt: object, pin: object = corpus.PIN) -> VerifyResult:
    result = verify_signed_receipt(receipt, expected_public_key_hex=pin)  # type: ignore[arg-type]
    assert type(result) is VerifyResult
    assert result.reason in REASONS or result.reason.startswith("malformed: ")
    assert result.valid is (result.reason in {"ok", "ok_unpinned"})
    assert result.authenticated is (result.reason == "ok")
    assert render(receipt, expected_public_key_hex=pin)  # type: ignore[arg-type]
    return result


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.binary()
    | st.text(st.characters())
    | st.dates()
    | st.just(object()),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.none(), inner)
        | st.frozensets(st.integers())
    ),
    max_leaves=15,
)
FIELDS = ("schema", "receipt_hash", "signer_id", "public_key_hex", "signature_hex", "body")


@settings(max_examples=300, deadline=None)
@given(ANYTHING, ANYTHING)
def test_any_value_and_any_pin(receipt: object, pin: object) -> None:
    assert not verdict(receipt, pin).valid


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FIELDS), ANYTHING, ANYTHING)
def test_any_value_in_any_field(name: str, value: object, pin: object) -> None:
    result = verdict({**corpus.seal({"schema": "s"}), name: value}, pin)
    assert not result.authenticated


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(st.characters(), max_size=200))
def test_any_text(text: str | bytes) -> None:
    assert not verdict(text).valid


class Trouble(Exception):
    """Something a stranger's object may raise."""


def trouble(*_: object, **__: object) -> NoReturn:
    raise Trouble("personal data")


class Liar:
    __class__ = property(trouble)  # type: ignore[assignment]


class EvilText(str):
    encode = isascii = strip = lower = count = trouble  # type: ignore[assignment]
    __len__ = __str__ = __repr__ = __eq__ = trouble  # type: ignore[assignment]
    __hash__ = str.__hash__


class EvilBytes(bytes):
    decode = __len__ = __bytes__ = __iter__ = __repr__ = trouble  # type: ignore[assignment]


class EvilInteger(int):
    __index__ = __int__ = __repr__ = __str__ = __abs__ = __le__ = trouble  # type: ignore[assignment]


class EvilFloat(float):
    __float__ = __repr__ = __abs__ = __eq__ = __lt__ = trouble  # type: ignore[assignment]
    __hash__ = float.__hash__


class EvilDict(dict[str, object]):
    items = keys = values = get = __getitem__ = __iter__ = __len__ = trouble  # type: ignore[assignment]


class Endless(Mapping[str, object]):
    def __getitem__(self, name: str) -> object:
        return name

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield str(number)


class Repeating(dict[str, object]):
    def items(self) -> list[tuple[str, object]]:  # type: ignore[override]
        return [*super().items(), *super().items()]


def deep() -> object:
    value: object = {}
    for _ in range(100_000):
        value = [value]
    return value


def cycle() -> dict[str, object]:
    loop: dict[str, object] = {}
    loop.update(a=loop, b=[loop, loop])
    return loop


def bush() -> object:
    """A value of a few objects whose text would have 2^60 characters."""
    value: object = "leaf"
    for _ in range(60):
        value = [value, value]
    return value


HOSTILE: dict[str, Callable[[], object]] = {
    "liar": Liar,
    "evil dict": lambda: EvilDict(corpus.seal({"schema": "s"})),
    "evil bytes": lambda: EvilBytes(b"{}"),
    "endless": Endless,
    "repeating": lambda: Repeating(corpus.seal({"schema": "s"})),
    "deep": deep,
    "cycle": cycle,
    "bush": bush,
    "one string often": lambda: ["a" * 60_000] * 60_000,
    "huge integer": lambda: 10**100_000,
    "text": lambda: EvilText("{}"),
    "receipt of nonsense": lambda: SignedReceipt(1, 2, 3, 4, 5, 6),  # type: ignore[arg-type]
    "receipt class": lambda: SignedReceipt,
    "released memory": lambda: memoryview(b""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects(name: str) -> None:
    result = verdict(HOSTILE[name]())
    assert result.reason.startswith("malformed: ")
    assert "personal" not in result.reason


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_and_pins(name: str) -> None:
    assert not verdict({**corpus.seal({"schema": "s"}), "body": HOSTILE[name]()}).valid
    assert not verdict({**corpus.seal({"schema": "s"}), "body": {"x": HOSTILE[name]()}}).valid
    assert verdict(corpus.seal({"schema": "s"}), HOSTILE[name]()).reason == "public_key_mismatch"


def test_subclasses_that_misbehave_are_read_by_their_true_value() -> None:
    envelope = corpus.seal({"schema": "s", "t": "é", "n": 7, "f": 1.5, "l": (1, 2)})
    odd = {
        EvilText(name) if name != "body" else name: EvilText(value) if isinstance(value, str) else value
        for name, value in envelope.items()
    }
    odd["body"] = MappingProxyType(
        {"schema": EvilText("s"), "t": EvilText("é"), "n": EvilInteger(7), "f": EvilFloat(1.5), "l": (1, 2)}
    )
    result = verdict(odd, EvilText(corpus.PIN))
    assert result.reason == "ok"
    assert result.body == {"schema": "s", "t": "é", "n": 7, "f": 1.5, "l": [1, 2]}


def test_an_interrupt_is_not_swallowed() -> None:
    class Interrupting(dict[str, object]):
        def items(self) -> NoReturn:  # type: ignore[override]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify_signed_receipt(Interrupting())


def test_a_deep_stack_gives_a_verdict() -> None:
    """Called with little stack left, the verifier says so instead of failing in the middle."""
    body: object = {"schema": "s", "é": 1}
    for _ in range(50):
        body = {"é": body}
    text = corpus.text_of(corpus.seal({"é": body}))

    def at(frames: int) -> VerifyResult:
        return at(frames - 1) if frames else verify_signed_receipt(text, expected_public_key_hex=corpus.PIN)

    used = len(list(frames_above()))
    reasons = {at(sys.getrecursionlimit() - used - left).reason for left in range(20, 400, 7)}
    assert reasons <= {"ok", "malformed: nested deeper than the stack allows here"}
    assert "ok" in reasons


def frames_above() -> Iterator[object]:
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
