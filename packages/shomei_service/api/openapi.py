"""The service in OpenAPI 3.1, from the table that serves it. Committed as docs/spec/openapi.json."""

import json
from collections.abc import Mapping
from typing import Final, cast

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from ..engine.errors import Unsupported
from ..engine.model import Scope
from .answers import ErrorAnswer, HealthAnswer
from .errors import STATUS
from .exchange import AnyOperation
from .routes import OPERATIONS
from .routes.unbuilt import not_built
from .schemas import Nothing

PATH: Final = "/openapi.json"

Document = dict[str, object]

_REF: Final = "#/components/schemas/{model}"
_DESCRIPTIONS: Final = {
    401: "No key, an unknown key or a revoked one.",
    403: "The key's scope does not reach this action.",
    404: "Unknown, another tenant's or already erased: one answer for the three.",
    408: "The body did not arrive in time.",
    413: "Larger than this route takes.",
    422: "The request breaks a rule of shape; the detail names fields and rules, never what was sent.",
    423: "A legal hold forbids destruction.",
    500: "The service failed; its log has the request id.",
    501: "Not built yet, or not configured here.",
    503: "Busy, or custody or storage does not answer; try again.",
}


def render() -> str:
    """Return the document as it is committed and served."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def document() -> Document:
    """Describe every route."""
    paths: dict[str, Document] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    for path, name in (("/healthz", "health"), ("/readyz", "readiness")):
        paths[path] = {"get": _public(name)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Shomei governed memory",
            "version": "1",
            "description": "Agent memory with provable erasure. Memory text is data, never instructions.",
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "responses": {str(status): _response(status) for status in sorted(_DESCRIPTIONS)},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _is_built(operation: AnyOperation) -> bool:
    return operation.act is not not_built


def _operation(operation: AnyOperation) -> Document:
    described: Document = {
        "operationId": operation.act.__name__ if _is_built(operation) else _unbuilt_name(operation),
        "summary": (operation.act.__doc__ or "").partition("\n")[0],
        "description": "Needs an admin key." if operation.scope is Scope.ADMIN else "Needs any key.",
    }
    parameters = [*_path_parameters(operation.path), *_query_parameters(operation)]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not Nothing:
        described["requestBody"] = {"required": True, "content": _json(_ref(operation.body))}
    described["responses"] = _responses(operation)
    return described


def _unbuilt_name(operation: AnyOperation) -> str:
    words = [word for word in operation.path.split("/") if word and not word.startswith("{") and word != "v1"]
    return "_".join([operation.method.lower(), *words])


def _responses(operation: AnyOperation) -> Document:
    answers: Document = {}
    if _is_built(operation):
        answers["200"] = {"description": "Done.", "content": _json(_ref(operation.answer))}
    for status in sorted(_refusals(operation)):
        fields = next((own for kind, own in operation.refused.items() if STATUS[kind] == status), None)
        answers[str(status)] = _response(status, fields) if fields else _shared(status)
    return answers


def _refusals(operation: AnyOperation) -> set[int]:
    statuses = {401, 500, 503} | {STATUS[kind] for kind in operation.refused}
    if operation.scope is Scope.ADMIN:
        statuses.add(403)
    if "{memory_id}" in operation.path:
        statuses.add(404)
    if operation.body is not Nothing:
        statuses |= {408, 413, 422}
    if operation.query is not Nothing:
        statuses.add(422)
    if not _is_built(operation) or operation.act.__name__ in _PARTLY_BUILT:
        statuses.add(STATUS[Unsupported])
    return statuses


_PARTLY_BUILT: Final = frozenset(
    {"add_memory", "add_memories", "search_memories", "delete_memory", "show_signer"}
)


def _response(status: int, fields: Mapping[str, object] | None = None) -> Document:
    schema: Document = _ref(ErrorAnswer)
    if fields:
        own: Document = {name: {"const": value} for name, value in fields.items()}
        schema = Document(allOf=[schema, {"type": "object", "properties": own, "required": list(own)}])
    return {"description": _DESCRIPTIONS[status], "content": _json(schema)}


def _shared(status: int) -> Document:
    return {"$ref": f"#/components/responses/{status}"}


def _public(name: str) -> Document:
    answers: Document = {"200": {"description": "Yes.", "content": _json(_ref(HealthAnswer))}}
    if name == "readiness":
        answers["503"] = _shared(503)
    return {"operationId": name, "summary": f"Public {name} check.", "security": [], "responses": answers}


def _path_parameters(path: str) -> list[Document]:
    names = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(operation: AnyOperation) -> list[Document]:
    properties = cast(Mapping[str, object], _schema(operation.query).get("properties", {}))
    return [
        {"name": name, "in": "query", "required": False, "schema": each} for name, each in properties.items()
    ]


def _json(schema: Document) -> Document:
    return {"application/json": {"schema": schema}}


def _ref(model: type) -> Document:
    return {"$ref": _REF.format(model=model.__name__)}


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that only repeat the fields' names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Say no."""
        return False


def _schema(model: type) -> Document:
    return cast(Document, TypeAdapter(model).json_schema(ref_template=_REF, schema_generator=_Untitled))


def _schemas() -> Document:
    """Collect every model's schema under its own name."""
    models: dict[str, type] = {"ErrorAnswer": ErrorAnswer, "HealthAnswer": HealthAnswer}
    for operation in filter(_is_built, OPERATIONS):
        for model in (operation.body, operation.query, operation.answer):
            if model is not Nothing:
                models[model.__name__] = model
    schemas: Document = {}
    for name, model in models.items():
        schema = _schema(model)
        schemas.update(cast(Document, schema.pop("$defs", {})))
        schemas[name] = schema
    return dict(sorted(schemas.items()))
