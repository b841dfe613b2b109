"""What a caller sends never comes back in an error, and never reaches a log (DEV-29)."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from opentelemetry import trace

from shomei_service.api.app import create_app
from shomei_service.api.exchange import AnyOperation
from shomei_service.api.journal import log_access
from shomei_service.api.routes import OPERATIONS
from shomei_service.engine.errors import CustodyUnavailable, ErasurePending, IntegrityFault
from tests.api.house import UNKNOWN, House, Live, call, serve

MARK = "ZQ7-6f1c9b1e"
LOGGERS = (
    "",
    "shomei",
    "shomei.access",
    "shomei.fault",
    "uvicorn",
    "uvicorn.error",
    "uvicorn.access",
    "asyncio",
)


@contextmanager
def everything_logged() -> Iterator[io.StringIO]:
    """Collect every record of every logger, at the lowest level, with tracebacks."""
    written = io.StringIO()
    listener = logging.StreamHandler(written)
    listener.addFilter(
        lambda record: not record.name.startswith("http")
    )  # the tests' own client logs its URLs
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(listener)
        logger.setLevel(1)
    try:
        yield written
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = propagate


def bodies() -> list[bytes]:
    marked: list[Any] = [
        {"mesages": MARK},
        {MARK: "x"},
        {"user_id": MARK},
        {"messages": [MARK]},
        {"messages": {MARK: MARK}},
        {"messages": MARK, MARK: 1},
        {"messages": MARK, "metadata": MARK},
        {"messages": MARK, "semantic_type": MARK * 9},
        {"messages": MARK, "lawful_basis": MARK},
        {"messages": MARK, "purposes": [MARK]},
        {"messages": MARK, "expires_at": MARK},
        {"memories": [{"messages": MARK, MARK: MARK}]},
        {"memories": [{MARK: {"deep": MARK}}]},
        {"memories": {MARK: 1}},
        {"query": MARK, "limit": MARK},
        {"query": MARK, "min_score": MARK},
        {"query": [MARK]},
        {"query": MARK, "filters": {MARK: 1}},
        {"user_id": MARK + "\0"},
        {"user_id": MARK * 60},
        {"data": MARK, "extra": MARK},
        [MARK],
        MARK,
    ]
    raw = [
        b'{"messages": "' + MARK.encode(),
        b'{"messages": "' + MARK.encode() + b'", "n": NaN}',
        b'{"messages": "' + MARK.encode() + b'", "messages": "' + MARK.encode() + b'"}',
        b'{"messages": "' + MARK.encode() + b'\\ud800"}',
        b'{"messages": "' + MARK.encode() + b'\xff"}',
        MARK.encode(),
        b"[" * 5000 + MARK.encode(),
    ]
    return [json.dumps(body).encode() for body in marked] + raw


ROUTES = [each for each in OPERATIONS if each.method != "GET"]


@pytest.mark.parametrize("operation", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_a_refusal_never_repeats_what_was_sent(house: House, operation: AnyOperation) -> None:
    with everything_logged() as log:
        for body in bodies():
            target = (
                operation.path.replace("{memory_id}", UNKNOWN) + f"?{MARK}={MARK}&basis={MARK}&explain={MARK}"
            )
            taken = operation.path in {"/v1/forget", "/v1/export"}
            if taken and body == b'{"user_id": "' + MARK.encode() + b'"}':
                continue  # the one body of these that a route takes
            answer = house.call(operation.method, target, key=house.admin, content=body)
            assert answer.status_code in {404, 413, 422, 501}, (body, answer.text)
            assert MARK not in answer.text
            assert len(answer.json()["detail"]) <= 200
            assert "pydantic" not in answer.text.lower()
    assert MARK not in log.getvalue()
    assert "request_id=req_" in log.getvalue()


def test_wrong_media_types_repeat_nothing(house: House) -> None:
    for media_type in ("text/plain", f"application/{MARK}", f"application/json; charset={MARK}"):
        answer = house.call(
            "POST",
            "/v1/memories",
            key=house.data,
            content=MARK.encode(),
            headers={"content-type": media_type},
        )
        assert answer.status_code == 422
        assert MARK not in answer.text


def test_queries_paths_and_keys_are_not_logged(house: House) -> None:
    with serve(house) as live, everything_logged() as log:
        forged = f"shm_{16 * '0'}_{MARK}" + "A" * 31
        for method, target, key in (
            ("GET", f"/v1/memories?user_id={MARK}", house.data),
            ("GET", f"/v1/memories/{MARK}", house.data),
            ("DELETE", f"/v1/memories/{MARK}?basis={MARK}", house.admin),
            ("GET", f"/{MARK}", house.data),
            ("GET", f"/v1/signer?token={MARK}", forged),
            ("PROPFIND", f"/{MARK}", None),
        ):
            assert MARK not in live.ask(method, target, key=key).body.decode()
        named = live.ask("GET", f"/v1/export?user_id={MARK}", key=house.admin)
        assert MARK in named.body.decode()  # an export says whose it is
        assert live.raw(f"{MARK} / HTTP/9\r\n\r\n".encode()).status == 400
    assert MARK not in log.getvalue()
    assert house.data not in log.getvalue()
    assert "route=/v1/memories/{memory_id}" in log.getvalue()
    assert UNKNOWN not in log.getvalue()


class Recorder(trace.TracerProvider):
    """Says that somebody listens, as an operator's instrumentation would, and keeps what is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def get_tracer(self, *names: Any, **more: Any) -> trace.Tracer:
        self.told.append(repr((names, more)))
        return trace.NoOpTracer()


def test_the_framework_tells_no_telemetry(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI's spans hold paths and queries, and export them where an environment variable says so."""
    recorder = Recorder()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: recorder)
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    app = create_app(house.engine)
    answer = call(app, house.portal, "GET", f"/v1/memories/{MARK}?user_id={MARK}", key=house.data)
    assert answer.status_code == 404
    assert recorder.told == []
    call(FastAPI(), house.portal, "GET", f"/{MARK}")
    assert recorder.told != []


def test_the_main_job_logs_neither_text_nor_subject_nor_id(house: House) -> None:
    with everything_logged() as log:
        memory_id = house.add(f"{MARK} is what I remember", MARK)
        found = house.call("POST", "/v1/search", key=house.data, body={"query": MARK, "user_id": MARK})
        assert [result["id"] for result in found.json()["results"]] == [memory_id]
        assert house.call("DELETE", f"/v1/memories/{memory_id}", key=house.admin).status_code == 200
        house.add(MARK, MARK)
        assert house.call("POST", "/v1/forget", key=house.admin, body={"user_id": MARK}).status_code == 200
    assert MARK not in log.getvalue()
    assert memory_id not in log.getvalue()


def test_a_strange_method_is_not_copied_into_the_log() -> None:
    with everything_logged() as log:
        log_access(MARK, None, status=405, milliseconds=1, request_id="req_1")
    assert log.getvalue().startswith("method=OTHER route=- status=405")


def crashing(error: BaseException) -> list[AnyOperation]:
    def act(_ask: object) -> dict[str, object]:
        try:
            raise ValueError(f"inner {MARK}")
        except ValueError as inner:
            raise error from inner

    return [replace(OPERATIONS[0], act=act)]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError(f"outer {MARK}"), 500, "internal"),
        (RecursionError(), 500, "internal"),
        (MemoryError(), 500, "internal"),
        (HTTPException(418, MARK), 500, "internal"),
        (RequestValidationError([{"input": MARK}], body=MARK), 500, "internal"),
        (IntegrityFault("stored bytes are not what was sealed"), 500, "internal"),
        (CustodyUnavailable("custody does not answer"), 503, "custody_unavailable"),
        (ErasurePending("the erasure will finish by itself"), 503, "erasure_pending"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_crash_is_told_by_its_request_id(
    house: House, error: BaseException, status: int, code: str
) -> None:
    app = create_app(house.engine, crashing(error))
    with everything_logged() as log:
        answer = call(app, house.portal, "POST", "/v1/memories", key=house.data, body={"messages": MARK})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (status == 503) == ("retry-after" in answer.headers)
    assert answer.headers["cache-control"] == "no-store"
    lines = [line for line in log.getvalue().splitlines() if answer.json()["request_id"] in line]
    assert any(f"fault={type(error).__name__}<ValueError at=" in line and ".act:" in line for line in lines)
    assert any(f"status={status}" in line for line in lines)
    assert MARK not in log.getvalue() + answer.text


def test_a_crash_leaves_the_server_running(house: House) -> None:
    app = create_app(house.engine, crashing(RuntimeError(MARK)))
    with serve(house, app=app) as live, everything_logged() as log:
        for _ in range(2):
            answer = live.ask("POST", "/v1/memories", key=house.data, body=b'{"messages":"x"}')
            assert (answer.status, answer.json["code"]) == (500, "internal")
        assert live.ask("GET", "/healthz").status == 200
    assert "Traceback" not in log.getvalue()
    assert MARK not in log.getvalue()


def test_every_answer_forbids_storing_and_guessing(house: House, live: Live) -> None:
    memory_id = house.add("headers")
    for method, target, key in (
        ("GET", "/healthz", None),
        ("GET", "/nowhere", None),
        ("GET", "/v1/signer", None),
        ("GET", f"/v1/memories/{memory_id}", house.data),
        ("DELETE", f"/v1/memories/{memory_id}", house.data),
        ("DELETE", f"/v1/memories/{memory_id}", house.admin),
    ):
        answer = live.ask(method, target, key=key)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
