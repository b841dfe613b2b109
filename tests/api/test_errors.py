"""The one table of statuses, and the one form of every error."""

import json
from collections.abc import Iterator

import pytest

from shomei_service.api import errors
from shomei_service.engine.errors import (
    ConfirmRequired,
    EngineError,
    Fault,
    Held,
    Invalid,
    NotFound,
    Refusal,
    RowDamaged,
)

# SEMANTICS.md §20: the whole vocabulary, stable for ever.
CODES = {
    "unauthenticated",
    "forbidden_scope",
    "invalid_request",
    "payload_too_large",
    "too_deep",
    "rate_limited",
    "quota_exceeded",
    "not_found",
    "held",
    "blocked",
    "integrity_error",
    "confirm_required",
    "erasure_in_progress",
    "erasure_pending",
    "idempotency_in_flight",
    "idempotency_mismatch",
    "custody_unavailable",
    "audit_unavailable",
    "storage_unavailable",
    "lineage_unsupported",
    "unsupported",
    "internal",
}


def descendants(kind: type[EngineError]) -> Iterator[type[EngineError]]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


OURS = [
    kind
    for kind in descendants(EngineError)
    if kind not in {Refusal, Fault} and kind.__module__.startswith("shomei_service.")
]


def instance(kind: type[EngineError]) -> EngineError:
    if kind is errors.Malformed:
        return errors.malformed("limit", "must be a whole number")
    if kind is ConfirmRequired:
        return ConfirmRequired("one fixed sentence", pending_erasures=2)
    return kind("one fixed sentence")


def test_there_are_errors_to_walk() -> None:
    assert {NotFound, Held, errors.Malformed} <= set(OURS)


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_status(kind: type[EngineError]) -> None:
    if issubclass(kind, Refusal):
        assert kind in errors.STATUS  # a new refusal is a new line in the contract
    else:
        # What is damaged is one memory: it answers for itself, like any state that forbids reading it.
        assert errors.status_of(instance(kind)) in ({409} if kind is RowDamaged else {500, 503})


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_error_speaks_the_vocabulary(kind: type[EngineError]) -> None:
    answer = errors.refuse(instance(kind), "req_1")
    body = json.loads(answer.body)
    own = {"pending_erasures"} if kind is ConfirmRequired else set()
    assert body.keys() == {"code", "detail", "request_id"} | own
    assert body["code"] in CODES
    assert answer.status == errors.status_of(instance(kind))
    assert (body["code"] == "internal") == (answer.status == 500)


def test_an_unlisted_child_takes_its_parents_status() -> None:
    class Rare(Held):
        pass

    assert errors.status_of(Rare("x")) == 423


def test_an_error_outside_the_table_is_internal() -> None:
    class Strange(Fault):
        code = "strange_detail"

    body = json.loads(errors.refuse(Strange("inner words"), "req_1").body)
    assert body["code"] == "internal"
    assert "inner" not in body["detail"]


def test_details_are_short_however_much_is_wrong() -> None:
    problems = [
        errors.Problem(f"memories[{index}].semantic_type", "must be a string") for index in range(900)
    ]
    detail = json.loads(errors.refuse(errors.Malformed(problems), "req_1").body)["detail"]
    assert len(detail) <= 200
    assert detail.endswith("and 897 more")


def test_headers_that_come_with_a_status() -> None:
    def names(error: EngineError) -> dict[bytes, bytes]:
        return dict(errors.refuse(error, "req_1").headers)

    assert names(errors.TooOften("x", 2.1))[b"retry-after"] == b"3"
    assert names(errors.TooOften("x", 0.0))[b"retry-after"] == b"1"
    assert names(instance(errors.Busy))[b"retry-after"].isdigit()
    assert b"retry-after" not in names(Invalid("x"))
