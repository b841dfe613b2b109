"""The application: the route table behind the raw path, in one layer that seals every answer."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Final, cast

import anyio.to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from ..engine.errors import NotFound
from ..engine.parts import Engine
from . import errors
from .errors import NoSuchMethod
from .exchange import AnyOperation, Exchange
from .gate import Gate
from .journal import REQUEST_ID
from .lanes import Lanes
from .paths import RawPath
from .public import doors
from .replies import Reply
from .routes import OPERATIONS
from .upkeep import Upkeep


def create_app(engine: Engine, operations: Iterable[AnyOperation] = OPERATIONS) -> Starlette:
    """Return the service over an open engine; whoever opened the engine closes it, after the application."""
    upkeep = Upkeep(engine)
    lanes = Lanes()

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None, None]:
        upkeep.start()
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(lanes.drain)
            await anyio.to_thread.run_sync(upkeep.stop)

    app = Starlette(
        routes=[
            *(Route(path, door, methods=["GET"]) for path, door in doors(upkeep).items()),
            *(
                Route(operation.path, Exchange(operation, engine, lanes), methods=[operation.method])
                for operation in operations
            ),
        ],
        middleware=[Middleware(Gate), Middleware(RawPath)],
        exception_handlers={404: _no_route, 405: _no_method},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


_NO_ROUTE: Final = NotFound("there is nothing here")
_NO_METHOD: Final = NoSuchMethod("there is no such action here")


async def _no_route(request: Request, _error: Exception) -> Response:
    return _response(errors.refuse(_NO_ROUTE, _request_id(request)))


async def _no_method(request: Request, _error: Exception) -> Response:
    refused = _response(errors.refuse(_NO_METHOD, _request_id(request)))
    app = cast(Starlette, request.app)
    offered = {
        method
        for route in app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    refused.headers["allow"] = ", ".join(sorted(offered))
    return refused


def _response(answer: Reply) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = list(answer.headers)
    return response


def _request_id(request: Request) -> str:
    return cast(str, request.scope[REQUEST_ID])
