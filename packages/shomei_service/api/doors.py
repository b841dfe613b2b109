"""Routes that FastAPI reads and describes, and that our own applications answer."""

from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature
from typing import Annotated, Final, Self

from fastapi import Header, Query, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from . import openapi
from .exchange import AnyOperation, Exchange
from .retries import REPEATABLE
from .shapes import Nothing

_KEY: Final = Security(HTTPBearer(scheme_name="key", auto_error=False))
_CALL: Final = Parameter(
    "call",
    Parameter.KEYWORD_ONLY,
    annotation=Annotated[str, Header(alias="Idempotency-Key", min_length=1, max_length=255)],
    default=None,
)


@dataclass(frozen=True)
class Signed:
    """An endpoint in name: FastAPI analyses its signature, and nobody calls it."""

    __signature__: Signature

    def __call__(self) -> None:
        """Do nothing."""


class Door(APIRoute):
    """A route answered by an application of ours: FastAPI parses no body and solves no dependency for it."""

    def answered_by(self, app: ASGIApp) -> Self:
        """Put the application in the place of FastAPI's."""
        self.app = app
        return self

    @cached_property
    def offered(self) -> frozenset[str]:
        """The methods that may be used: whoever answers GET answers HEAD. RFC 9110 §9.3.2."""
        methods = self.methods or set[str]()
        return frozenset(methods | {"HEAD"} if "GET" in methods else methods)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Compare the path as it was sent, and the method."""
        found = self.path_regex.match(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            return Match.NONE, {}
        match = Match.FULL if scope["method"] in self.offered else Match.PARTIAL
        return match, {"route": self, "endpoint": self.endpoint, "path_params": found.groupdict()}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises HTTPException for a method that is not offered."""
        if scope["method"] not in self.offered:
            raise HTTPException(405)
        await self.app(scope, receive, send)


def signature(operation: AnyOperation) -> Signature:
    """Return the signature an endpoint for FastAPI would have: key, path, query, headers and body."""
    taken: dict[str, object] = {"key": Annotated[object, _KEY]}
    taken |= {part.strip("{}"): str for part in operation.path.split("/") if part.startswith("{")}
    if operation.query is not Nothing:
        taken["query"] = Annotated[operation.query, Query()]
    if operation.body is not Nothing:
        taken["body"] = operation.body
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in taken.items()]
    if operation.method in REPEATABLE:
        parameters.append(_CALL)
    return Signature(parameters, return_annotation=operation.answer)


def governed(operation: AnyOperation, exchange: Exchange) -> Door:
    """Return the route of an operation."""
    name = operation.act.__name__
    return Door(
        operation.path,
        Signed(signature(operation)),
        methods=[operation.method],
        name=name,
        operation_id=name,
        summary=(operation.act.__doc__ or "").partition("\n")[0],
        description=f"Needs a key of scope {operation.scope}.",
        response_class=PlainTextResponse if operation.media_type == "text/plain" else JSONResponse,
        status_code=operation.success,
        response_description="Done.",
        responses=openapi.refusals(operation) | openapi.other_forms(operation),
    ).answered_by(exchange)
