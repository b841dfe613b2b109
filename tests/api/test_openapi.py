"""The published description is current, complete and true of the answers."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shomei_service.api import openapi
from shomei_service.api.errors import STATUS
from shomei_service.api.routes import OPERATIONS
from shomei_service.api.shapes import Nothing
from tests.api.house import UNKNOWN, House, Live

COMMITTED = Path(__file__).parents[2] / "docs" / "spec" / "openapi.json"

Document = dict[str, Any]


@pytest.fixture(scope="module")
def document(house: House) -> Document:
    return json.loads(openapi.render(house.app.routes))


def test_the_committed_description_is_current(house: House) -> None:
    rendered = openapi.render(house.app.routes)
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        COMMITTED.parent.mkdir(parents=True, exist_ok=True)
        COMMITTED.write_text(rendered)
    assert COMMITTED.read_text() == rendered, "run with UPDATE_SNAPSHOTS=1 and review the difference"


def test_the_served_description_is_the_committed_one(live: Live) -> None:
    for _ in range(2):
        answer = live.ask("GET", "/openapi.json")
        assert (answer.status, answer.body.decode()) == (200, COMMITTED.read_text())
        assert answer.headers["content-type"] == "application/json"


def test_every_route_is_described_once(document: Document) -> None:
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(each.method, each.path) for each in OPERATIONS} | {
        ("GET", "/healthz"),
        ("GET", "/readyz"),
    }
    names = [method["operationId"] for methods in document["paths"].values() for method in methods.values()]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere(document: Document) -> None:

    def references(value: object) -> list[str]:
        if isinstance(value, dict):
            here = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return here + [each for item in value.values() for each in references(item)]
        return [each for item in value for each in references(item)] if isinstance(value, list) else []

    found = references(document)
    assert found
    for reference in found:
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_the_frameworks_own_answers_are_not_described(document: Document) -> None:
    text = json.dumps(document)
    assert "ValidationError" not in text
    assert "Successful Response" not in text


def test_a_described_operation_says_what_it_takes(document: Document) -> None:
    for each in OPERATIONS:
        described = document["paths"][each.path][each.method.lower()]
        assert described["security"] == [{"key": []}]
        taken = {(one["in"], one["name"]) for one in described.get("parameters", [])}
        named = {("query", name) for name in each.query.model_fields}
        if each.method in {"POST", "PUT", "DELETE"}:
            named.add(("header", "Idempotency-Key"))
        assert taken == named | {
            ("path", part.strip("{}")) for part in each.path.split("/") if part.startswith("{")
        }
        assert ("requestBody" in described) == (each.body is not Nothing)
    for path in ("/healthz", "/readyz"):
        assert "security" not in document["paths"][path]["get"]
    assert document["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}


def test_the_statuses_described_are_ones_we_send(document: Document) -> None:
    refusals = {str(status) for status in STATUS.values()}
    for each in OPERATIONS:
        described = set(document["paths"][each.path][each.method.lower()]["responses"])
        assert described - refusals == {str(each.success)}
    assert {each.path for each in OPERATIONS if each.success != 200} == {"/v1/holds"}


def test_an_answer_has_a_described_status(house: House, document: Document) -> None:
    for operation in OPERATIONS:
        target = operation.path.replace("{memory_id}", "x").replace("{hold_id}", "x")
        target = target.replace("{artifact_id}", "x").replace("{obligation_id}", "x")
        described = document["paths"][operation.path][operation.method.lower()]["responses"]
        for key in (None, house.data, house.admin):
            answer = house.call(operation.method, target, key=key, content=b"{")
            assert str(answer.status_code) in described


def schema_of(document: Document, path: str, method: str, status: int) -> dict[str, object]:
    described = document["paths"][path][method.lower()]["responses"][str(status)]
    if "$ref" in described:
        described = document["components"]["responses"][str(status)]
    return {**described["content"]["application/json"]["schema"], "components": document["components"]}


def test_answers_are_as_described(house: House, document: Document) -> None:
    memory_id = house.add("described", "described")
    spare = house.add("described too", "described")
    memory = "/v1/memories/{memory_id}"
    for method, path, target, body, status in (
        ("POST", "/v1/memories", "/v1/memories", {"messages": "x", "metadata": {"a": [1, None]}}, 200),
        ("POST", "/v1/memories/batch", "/v1/memories/batch", {"memories": [{"messages": "x"}]}, 200),
        ("GET", "/v1/memories", "/v1/memories?limit=1", None, 200),
        ("GET", memory, f"/v1/memories/{memory_id}", None, 200),
        ("GET", memory, f"/v1/memories/{UNKNOWN}", None, 404),
        ("POST", "/v1/search", "/v1/search?explain=true", {"query": "described"}, 200),
        ("POST", "/v1/search", "/v1/search", {"query": ""}, 422),
        ("GET", f"{memory}/verify", f"/v1/memories/{memory_id}/verify", None, 200),
        ("GET", f"{memory}/verify", f"/v1/memories/{UNKNOWN}/verify", None, 200),
        ("DELETE", memory, f"/v1/memories/{spare}", None, 200),
        ("DELETE", memory, f"/v1/memories/{spare}", None, 404),
        ("POST", "/v1/forget", "/v1/forget", {"user_id": "described"}, 200),
        ("GET", "/v1/signer", "/v1/signer", None, 200),
        ("GET", "/v1/audit", "/v1/audit", None, 200),
        ("GET", "/healthz", "/healthz", None, 200),
    ):
        answer = house.call(method, target, key=house.admin, body=body)
        assert answer.status_code == status, target
        Draft202012Validator(schema_of(document, path, method, status)).validate(answer.json())


@pytest.mark.parametrize(
    "body", [{"messages": ""}, {"messages": "x", "extra": 1}, {"messages": "x", "expires_at": 0}]
)
def test_bodies_that_are_refused_are_described_as_wrong(
    house: House, document: Document, body: dict[str, object]
) -> None:
    schema = {**document["components"]["schemas"]["NewMemoryBody"], "components": document["components"]}
    assert not Draft202012Validator(schema).is_valid(body)
    assert house.call("POST", "/v1/memories", key=house.data, body=body).status_code == 422
