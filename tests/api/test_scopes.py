"""T-35: every route against every kind of caller, from the route table itself."""

import pytest

from shomei_service.api.doors import Door
from shomei_service.api.exchange import AnyOperation, Exchange
from shomei_service.api.public import Public
from shomei_service.api.routes import OPERATIONS
from shomei_service.engine.model import Scope
from tests.api.house import UNKNOWN, House

ADMIN_SENTENCE = "this action requires an admin-scoped key"
PUBLIC_PATHS = {"/healthz", "/readyz", "/openapi.json"}

# CONTRACT.md §1, written out by hand: a route that is not here, or here with another scope, fails.
CONTRACT = {
    "POST /v1/memories data",
    "POST /v1/memories/batch data",
    "GET /v1/memories data",
    "GET /v1/memories/{memory_id} data",
    "PUT /v1/memories/{memory_id} admin",
    "DELETE /v1/memories/{memory_id} admin",
    "POST /v1/search data",
    "POST /v1/forget admin",
    "POST /v1/memories/{memory_id}/restrict admin",
    "DELETE /v1/memories/{memory_id}/restrict admin",
    "GET /v1/memories/{memory_id}/verify data",
    "GET /v1/memories/{memory_id}/lineage/neighbors data",
    "GET /v1/memories/{memory_id}/lineage/graph data",
    "POST /v1/export admin",
    "GET /v1/export admin",
    "POST /v1/holds admin",
    "GET /v1/holds admin",
    "DELETE /v1/holds/{hold_id} admin",
    "POST /v1/consent admin",
    "GET /v1/consent admin",
    "POST /v1/artifacts data",
    "POST /v1/artifacts/{artifact_id}/ack data",
    "POST /v1/memories/{memory_id}/disclose admin",
    "GET /v1/obligations admin",
    "POST /v1/obligations/{obligation_id}/cancel admin",
    "GET /v1/receipts admin",
    "GET /v1/tombstones admin",
    "GET /v1/audit admin",
    "GET /v1/signer data",
    "GET /metrics admin",
}


def target(operation: AnyOperation) -> str:
    parts = [UNKNOWN if part.startswith("{") else part for part in operation.path.split("/")]
    return "/".join(parts)


def named(operation: AnyOperation) -> str:
    return f"{operation.method} {operation.path}"


every_route = pytest.mark.parametrize("operation", OPERATIONS, ids=named)


def test_the_table_is_the_contract() -> None:
    assert {f"{named(operation)} {operation.scope.value}" for operation in OPERATIONS} == CONTRACT


def test_the_application_serves_the_table_and_three_public_doors(house: House) -> None:
    served = {(route.path, type(route.app)) for route in house.app.routes if isinstance(route, Door)}
    assert len(house.app.routes) == len(OPERATIONS) + len(PUBLIC_PATHS)
    assert {path for path, kind in served if kind is Public} == PUBLIC_PATHS
    assert {path for path, kind in served if kind is Exchange} == {each.path for each in OPERATIONS}


@every_route
def test_without_a_genuine_key_it_is_401(house: House, operation: AnyOperation) -> None:
    forged = house.admin[:-1] + ("A" if house.admin[-1] != "A" else "B")
    answers = [
        house.call(operation.method, target(operation), key=key, content=b"not json at all")
        for key in (None, "nonsense", "shm_" + 16 * "0" + "_" + 43 * "A", house.revoked, forged)
    ]
    assert [answer.status_code for answer in answers] == [401] * 5
    assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
    assert {answer.json()["code"] for answer in answers} == {"unauthenticated"}


@every_route
def test_a_data_key_reaches_data_routes_only(house: House, operation: AnyOperation) -> None:
    answer = house.call(operation.method, target(operation), key=house.data, content=b"not json at all")
    if operation.scope is Scope.ADMIN:
        body = answer.json()
        assert answer.status_code == 403
        assert (body.pop("code"), body.pop("detail")) == ("forbidden_scope", ADMIN_SENTENCE)
        assert body.keys() == {"request_id"}
    else:
        assert answer.status_code not in {401, 403}


@every_route
def test_an_admin_key_reaches_every_route(house: House, operation: AnyOperation) -> None:
    answer = house.call(operation.method, target(operation), key=house.admin, content=b"not json at all")
    assert answer.status_code in {200, 404, 422, 501}


def test_403_is_the_same_for_existing_and_unknown_ids(house: House) -> None:
    existing = house.add("scopes keep this")
    answers = [house.call("DELETE", f"/v1/memories/{each}", key=house.data) for each in (existing, UNKNOWN)]
    bodies = [{**answer.json(), "request_id": ""} for answer in answers]
    assert bodies[0] == bodies[1]
    assert house.call("GET", f"/v1/memories/{existing}", key=house.data).status_code == 200


def test_an_unscoped_caller_causes_no_reading(house: House) -> None:
    taken = 0

    async def chunks():
        nonlocal taken
        for _ in range(10):
            taken += 1
            yield b" " * 1024

    answer = house.call("POST", "/v1/forget", key=house.data, content=chunks())
    assert (answer.status_code, taken) == (403, 0)
