"""The published description is current, complete and true of the answers."""

import json
import os
from pathlib import Path

from shomei_service.api import openapi
from shomei_service.api.errors import STATUS
from shomei_service.api.routes import OPERATIONS
from tests.api.house import House, Live

COMMITTED = Path(__file__).parents[2] / "docs" / "spec" / "openapi.json"


def test_the_committed_description_is_current() -> None:
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        COMMITTED.parent.mkdir(parents=True, exist_ok=True)
        COMMITTED.write_text(openapi.render())
    assert COMMITTED.read_text() == openapi.render(), "run with UPDATE_SNAPSHOTS=1 and review the difference"


def test_the_served_description_is_the_committed_one(live: Live) -> None:
    answer = live.ask("GET", "/openapi.json")
    assert (answer.status, answer.body.decode()) == (200, openapi.render())


def test_every_route_is_described_once() -> None:
    document = json.loads(openapi.render())
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(each.method, each.path) for each in OPERATIONS} | {
        ("GET", "/healthz"),
        ("GET", "/readyz"),
    }
    names = [method["operationId"] for methods in document["paths"].values() for method in methods.values()]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere() -> None:
    document = json.loads(openapi.render())

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


def test_the_statuses_described_are_ones_we_send() -> None:
    document = json.loads(openapi.render())
    described = {
        status
        for methods in document["paths"].values()
        for operation in methods.values()
        for status in operation["responses"]
    }
    assert described <= {"200"} | {str(status) for status in STATUS.values()}


def test_an_answer_has_a_described_status(house: House) -> None:
    document = json.loads(openapi.render())
    for operation in OPERATIONS:
        target = operation.path.replace("{memory_id}", "x").replace("{hold_id}", "x")
        target = target.replace("{artifact_id}", "x").replace("{obligation_id}", "x")
        described = document["paths"][operation.path][operation.method.lower()]["responses"]
        for key in (None, house.data, house.admin):
            answer = house.call(operation.method, target, key=key, content=b"{")
            assert str(answer.status_code) in described
