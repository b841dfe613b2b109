"""The last gate before a signature lets only known fields in content-free forms through."""

from collections.abc import Callable
from functools import partial
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shomei_memory_verify.canonical import canonical_bytes
from shomei_service.engine.errors import EgressFault
from shomei_service.engine.model import Json
from shomei_service.engine.receipts import content_free
from shomei_service.engine.receipts.content_free import Screen, require_content_free

LOG: dict[str, Json] = {"origin": "shomei/" + "0" * 32, "seq": 7, "issued_at": 1}
GOOD: dict[str, Json] = {
    "schema": "shomei.memory_add.v1",
    "memory_id": "lm_" + "0" * 32,
    "subject_pseudonym": None,
    "retirement_hashes": ["hmac-sha256:" + "a" * 64],
    "log": {"origin": "shomei/" + "0" * 32, "seq": 0, "issued_at": 1},
    "matched_count": 2**53 - 1,
}


def test_a_content_free_body_passes() -> None:
    require_content_free(GOOD)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("note", "x"),
        ("memory_id", "alice"),
        ("memory_id", "lm_" + "0" * 31 + "A"),
        ("memory_id", "lm_" + "0" * 32 + "\n"),
        ("subject_pseudonym", "alice@example.com"),
        ("subject_pseudonym", "sha256:" + "a" * 64),
        ("semantic_type", "HEALTH"),
        ("cause", "because"),
        ("matched_count", 1.0),
        ("matched_count", True),
        ("matched_count", 2**53),
        ("matched_count", "1"),
        ("embedding_retired", False),
        ("retirement_hashes", ["x"]),
        ("retirement_hashes", "hmac-sha256:" + "a" * 64),
        ("log", {"origin": "shomei/" + "0" * 32, "seq": 0}),
        ("log", {"origin": "shomei/" + "0" * 32, "seq": 0, "issued_at": 1, "note": "x"}),
        ("log", None),
    ],
)
def test_anything_else_is_held_back(field: str, value: Json) -> None:
    with pytest.raises(EgressFault):
        require_content_free(GOOD | {field: value})


# Values of every kind, those that pass under a field and a few under each that do not.
_VALUES: list[Json] = [
    *(
        None,
        True,
        False,
        0,
        5,
        -5,
        2**53 - 1,
        2**53,
        1.0,
        "",
        "alice",
        '\u00e4"\\',
        "system",
        "GENERIC",
        "HEALTH",
    ),
    *("hmac-sha256:" + "a" * 64, "sha256:" + "b" * 64, "lm_" + "c" * 32, "obl_" + "d" * 32, "ts_" + "e" * 32),
    *(["hmac-sha256:" + "a" * 64], ["hmac-sha256:" + "a" * 64] * 2, [], ["x"], LOG, {**LOG, "note": "x"}, {}),
    [{"id": "artifact:" + "f" * 32, "recallable": False}],
]
_MEMBERS = [(name, value) for name in (*content_free._FIELDS, "note") for value in _VALUES]
_GOOD = [one for one in _MEMBERS if (rule := content_free._FIELDS.get(one[0])) and rule(one[1])]
_BODIES = st.lists(st.lists(st.sampled_from(_GOOD), max_size=12).map(dict[str, Json]), max_size=4)
_CHANGES = st.lists(st.sampled_from(_MEMBERS), max_size=1).map(dict[str, Json])


def _is_refused(gate: Callable[[], object]) -> bool:
    try:
        gate()
    except EgressFault:
        return True
    return False


@given(_BODIES, _CHANGES)
def test_a_screen_lets_through_what_the_gate_does_and_writes_it_as_rfc_8785_has_it(
    bodies: list[dict[str, Json]], change: dict[str, Json]
) -> None:
    screen = Screen()
    for body in (*bodies, *bodies, *(body | change for body in bodies)):  # by then most of it is known
        refused = _is_refused(partial(require_content_free, body))
        assert _is_refused(partial(screen.written, body)) is refused
        if not refused:
            ordered, text = screen.written(body)
            assert text.encode() == canonical_bytes(body)
            assert (ordered, list(ordered)) == (body, sorted(body))


def test_a_list_that_changes_is_looked_at_again() -> None:
    screen, hashes = Screen(), ["hmac-sha256:" + "a" * 64]
    body: dict[str, Json] = {"retirement_hashes": [*hashes], "log": dict[str, Json](LOG)}
    screen.written(body)
    cast("list[Json]", body["retirement_hashes"]).append("alice")
    with pytest.raises(EgressFault):
        screen.written(body)
    body["retirement_hashes"] = [*hashes]
    cast("dict[str, Json]", body["log"])["seq"] = 8
    assert '"seq":8' in screen.written(body)[1]
    cast("dict[str, Json]", body["log"])["seq"] = "alice"
    with pytest.raises(EgressFault):
        screen.written(body)


def test_a_screen_knows_the_registered_semantic_types() -> None:
    assert Screen({"HEALTH"}).written({"semantic_type": "HEALTH"})[1] == '{"semantic_type":"HEALTH"}'
    with pytest.raises(EgressFault):
        Screen().written({"semantic_type": "HEALTH"})
