"""Whatever is sent, the answer is one the contract knows: never a crash, never a redirect (T-28, T-29)."""

import json
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shomei_service.api import openapi
from shomei_service.api.errors import STATUS
from shomei_service.api.exchange import AnyOperation
from shomei_service.api.routes import OPERATIONS
from shomei_service.api.shapes import Nothing
from tests.api.house import House

quick = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WITH_BODY = [each for each in OPERATIONS if each.body is not Nothing]
FIELDS = sorted({name for each in WITH_BODY for name in each.body.model_fields})
likely = st.fixed_dictionaries(
    {}, optional={name: st.text(min_size=1, max_size=20) | values for name in FIELDS}
)


def send(house: House, operation: AnyOperation, body: bytes) -> Any:
    answer = house.call(operation.method, operation.path, key=house.admin, content=body)
    described = openapi.refusals(operation)
    assert answer.status_code == operation.success or answer.status_code in described
    assert answer.status_code not in {401, 403, 408, 429, 500, 503}
    if answer.status_code != operation.success:
        own = next(
            (each for kind, each in operation.refused.items() if STATUS[kind] == answer.status_code), {}
        )
        assert answer.json().keys() == {"code", "detail", "request_id"} | own.keys()
        assert len(answer.json()["detail"]) <= 200
    return answer


@quick
@given(operation=st.sampled_from(WITH_BODY), body=likely | values)
@example(operation=WITH_BODY[0], body={"messages": "\ud800"})
@example(operation=WITH_BODY[0], body={"messages": "x", "metadata": {"k": float("inf")}})
@example(operation=WITH_BODY[0], body={"messages": "x", "metadata": {"k": 10**400}})
def test_any_json(house: House, operation: AnyOperation, body: Any) -> None:
    send(house, operation, json.dumps(body).encode())


@quick
@given(operation=st.sampled_from(WITH_BODY), body=st.binary(max_size=60))
def test_any_bytes(house: House, operation: AnyOperation, body: bytes) -> None:
    assert send(house, operation, body).status_code == 422


@quick
@given(
    operation=st.sampled_from([each for each in OPERATIONS if each.query is not Nothing]),
    query=st.dictionaries(
        st.sampled_from(["user_id", "cursor", "limit", "basis", "derived", "explain", "x"]),
        st.text(max_size=12),
        max_size=3,
    ),
)
def test_any_query(house: House, operation: AnyOperation, query: dict[str, str]) -> None:
    written = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    target = operation.path.replace("{memory_id}", "lm_none")
    body = {"query": "x"} if operation.body is not Nothing else None
    answer = house.call(operation.method, f"{target}?{written}", key=house.admin, body=body)
    assert answer.status_code in {200, 404, 422, 501}


@quick
@given(segment=st.text(min_size=1, max_size=30), method=st.sampled_from(["GET", "DELETE"]))
def test_any_id(house: House, segment: str, method: str) -> None:
    escaped = quote(segment, safe="").replace(".", "%2E")
    answer = house.call(method, f"/v1/memories/{escaped}", key=house.admin)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
