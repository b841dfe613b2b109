"""The application: FastAPI over the one table of routes, in one layer that seals every answer."""

import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NoReturn, cast

import anyio.to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from ..engine.errors import NotFound
from ..engine.parts import Engine
from ..engine.upkeep import embed
from ..engine.verbs import access
from ..settings import Settings, read_settings
from . import errors, public
from .doors import Door, governed
from .errors import NoSuchMethod
from .exchange import AnyOperation, Exchange
from .gate import Gate
from .gathering import Gathering
from .journal import REQUEST_ID
from .lanes import Lane, Lanes
from .metrics import Meters
from .paths import RawPath
from .rates import Rates
from .replies import Reply
from .routes import OPERATIONS
from .upkeep import Upkeep

# FastAPI's spans would carry paths, queries and exceptions' own words. SEMANTICS.md §14.
_NO_TELEMETRY: Final = TelemetryConfig(
    tracing=False, metrics=False, logs=False, operation_spans=False, auto_configure=False
)


def create_app(
    engine: Engine,
    operations: Iterable[AnyOperation] = OPERATIONS,
    settings: Settings | None = None,
    on_broken: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
) -> FastAPI:
    """Return the service over an open engine; whoever opened the engine closes it, after the application.

    `on_broken` is called once a disk has failed to keep what was written: the process has to end.
    `clock` says how often somebody asks.
    Raises StartRefused when no settings are given and the environment's are not valid.
    """
    upkeep = Upkeep(engine, on_broken=on_broken)
    embedding = Upkeep(engine, embed, wake=engine.embed_now)
    lanes = Lanes()
    rates = Rates(settings or read_settings(), clock)
    meters = Meters(engine, lanes, upkeep)
    callers = Gathering(lanes, Lane.ADMIT, partial(access.authenticate_each, engine))
    described = [
        *public.checks(engine, lanes, upkeep),
        *(
            governed(operation, Exchange(operation, engine, lanes, rates, meters, callers))
            for operation in operations
        ),
    ]

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
        upkeep.start()
        embedding.start()
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(lanes.drain)
            if engine.embedder is not None:
                engine.embedder.stop()
            await anyio.to_thread.run_sync(embedding.stop)
            await anyio.to_thread.run_sync(upkeep.stop)

    return FastAPI(
        routes=[*described, public.description(described, lanes)],
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        middleware=[Middleware(Gate, meters), Middleware(RawPath)],
        exception_handlers={
            404: _no_route,
            405: _no_method,
            HTTPException: _unforeseen,
            RequestValidationError: _unforeseen,
        },
        lifespan=lifespan,
    )


_NO_ROUTE: Final = NotFound("there is nothing here")
_NO_METHOD: Final = NoSuchMethod("there is no such action here")


async def _no_route(request: Request, _error: Exception) -> Response:
    return _response(errors.refuse(_NO_ROUTE, _request_id(request)))


async def _no_method(request: Request, _error: Exception) -> Response:
    refused = _response(errors.refuse(_NO_METHOD, _request_id(request)))
    app = cast(FastAPI, request.app)
    doors = [route for route in app.routes if isinstance(route, Door)]
    met = [door for door in doors if door.matches(request.scope)[0] is not Match.NONE]
    # A path without a parameter is the more exact one: OpenAPI 3.1 §4.8.8.
    exact = [door for door in met if "{" not in door.path] or met
    offered = {method for door in exact for method in door.offered}
    refused.headers["allow"] = ", ".join(sorted(offered))
    return refused


async def _unforeseen(_request: Request, error: Exception) -> NoReturn:
    """Leave it to the gate: FastAPI's own answers echo what was sent."""
    raise error


def _response(answer: Reply) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = list(answer.headers)
    return response


def _request_id(request: Request) -> str:
    return cast(str, request.scope[REQUEST_ID])
