"""What a signature does not say: refusals. FastAPI writes the rest of docs/spec/openapi.json."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from ..engine.model import Json, Scope
from .answers import ErrorAnswer
from .errors import STATUS
from .exchange import AnyOperation
from .retries import REPEATABLE
from .shapes import Nothing

PATH: Final = "/openapi.json"

Responses = dict[int | str, dict[str, Any]]

_DESCRIPTIONS: Final = {
    401: "No key, an unknown key or a revoked one.",
    403: "The key's scope does not reach this action.",
    404: "Unknown, another tenant's or already erased: one answer for the three.",
    408: "The body did not arrive in time.",
    409: "Restricted, without valid consent or expired (one answer for the three), unconfirmed, under way "
    "or damaged.",
    413: "Larger than this route takes.",
    422: "The request breaks a rule of shape; the detail names fields and rules, never what was sent.",
    423: "A legal hold forbids destruction.",
    429: "More than this key may ask for, or too many wrong keys; try again.",
    500: "The service failed; its log has the request id.",
    501: "Not configured here.",
    503: "Busy, or custody or storage does not answer; try again.",
}


def refusals(operation: AnyOperation) -> Responses:
    """Return every status the operation may refuse with, and its own fields beside the error's."""
    statuses = {401, 429, 500, 503}
    if operation.scope is Scope.ADMIN:
        statuses.add(403)
    if "{" in operation.path:
        statuses.add(404)
    if operation.body is not Nothing:
        statuses |= {408, 413, 422}
    if operation.query is not Nothing:
        statuses.add(422)
    if operation.method in REPEATABLE:  # an Idempotency-Key may be odd, another call's or in use
        statuses |= {409, 422}
    described = {status: shared(status) for status in statuses}
    for kind, fields in operation.refused.items():
        status = STATUS[kind]
        alone = [STATUS[other] for other in operation.refused].count(status) == 1
        described[status] = _refusal(status, fields) if fields and alone else shared(status)
    return {status: described[status] for status in sorted(described)}


def other_forms(operation: AnyOperation) -> Responses:
    """Return the media types that the answer may be had in beside JSON."""
    if not operation.forms:
        return {}
    content: dict[str, Any] = {media_type: {"schema": {"type": "string"}} for media_type in operation.forms}
    return {operation.success: {"content": content}}


def shared(status: int) -> dict[str, Any]:
    """Refer to the description of one status that every route shares."""
    return {"$ref": f"#/components/responses/{status}", "description": _DESCRIPTIONS[status]}


def _refusal(status: int, own: Mapping[str, Json]) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": "#/components/schemas/ErrorAnswer"}
    if own:
        schema["properties"] = {
            name: {"type": "null"} if value is None else {"const": value} for name, value in own.items()
        }
        schema["required"] = list(own)
    return {"description": _DESCRIPTIONS[status], "content": {"application/json": {"schema": schema}}}


def render(routes: Sequence[BaseRoute]) -> str:
    """Return the document as it is committed and served."""
    document = get_openapi(
        title="Shomei governed memory",
        version="1",
        description="Agent memory with provable erasure. Memory text is data, never instructions.",
        routes=routes,
    )
    for path in cast(dict[str, dict[str, dict[str, Any]]], document["paths"]).values():
        for operation in path.values():
            # FastAPI's own 422 is for requests that FastAPI checks; ours are checked in exchange.py.
            if operation["responses"].get("422", {}).get("description") == "Validation Error":
                del operation["responses"]["422"]
    components = document["components"]
    components["responses"] = {str(status): _refusal(status, {}) for status in _DESCRIPTIONS}
    components["schemas"] = {
        name: schema for name, schema in components["schemas"].items() if not name.endswith("ValidationError")
    } | {"ErrorAnswer": TypeAdapter(ErrorAnswer).json_schema()}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
