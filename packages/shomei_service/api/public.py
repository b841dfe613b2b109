"""The three doors that need no key: alive, ready, and the description of all the others. CONTRACT.md §1."""

import time
from collections.abc import Awaitable, Callable, Sequence
from inspect import Signature
from typing import Final, cast

from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from ..engine.errors import EngineError, SigningFault, StorageUnavailable
from ..engine.parts import Engine
from ..engine.upkeep import embedding_backlog
from . import errors, openapi
from .answers import HealthAnswer, ReadyAnswer
from .doors import Door, Signed
from .journal import REQUEST_ID
from .lanes import Lane, Lanes
from .replies import Reply, reply
from .upkeep import Upkeep

_JSON: Final = (b"content-type", b"application/json")
_ALIVE: Final = reply({"status": "ok"})
_ASKED_EVERY_S: Final = 1.0


Answer = Callable[[], Awaitable[Reply]]


class Public:
    """An answer as an ASGI application; it reads nothing of the request."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        try:
            answer = await self._answer()
        except EngineError as error:
            answer = errors.refuse(error, cast(str, scope[REQUEST_ID]))
        await answer.send(send)


class Readiness:
    """Whether background work goes on, and how much of it waits."""

    def __init__(self, engine: Engine, lanes: Lanes, upkeep: Upkeep) -> None:
        self._engine = engine
        self._lanes = lanes
        self._upkeep = upkeep
        self._answered = (float("-inf"), 0)

    async def __call__(self) -> Reply:
        """Return the answer. Raises StorageUnavailable when nobody tends the engine, Busy under a flood.

        The upkeep writes to database and custody, so its failures are theirs. Signer and database are asked
        here, at most once a second: whoever may knock without a key must not be able to make a signer work.
        """
        if not self._upkeep.is_well:
            raise StorageUnavailable("the service is not ready")
        at, backlog = self._answered
        if time.monotonic() - at > _ASKED_EVERY_S:
            backlog = await self._lanes.run(Lane.PROBE, self._look)
            self._answered = (time.monotonic(), backlog)
        return reply(ReadyAnswer(status="ok", embedding_backlog=backlog))

    def _look(self) -> int:
        try:
            self._engine.probe_signer()
        except SigningFault:
            raise StorageUnavailable("the service is not ready") from None
        return embedding_backlog(self._engine)


class Description:
    """The OpenAPI document, written when it is first asked for."""

    def __init__(self, routes: Sequence[BaseRoute], lanes: Lanes) -> None:
        self._routes = routes
        self._lanes = lanes
        self._written: Reply | None = None

    async def __call__(self) -> Reply:
        """Return the answer."""
        if self._written is None:
            self._written = await self._lanes.run(Lane.PROBE, self._write)
        return self._written

    def _write(self) -> Reply:
        body = openapi.render(self._routes).encode()
        return Reply(200, (_JSON, (b"content-length", str(len(body)).encode())), body)


async def alive() -> Reply:
    """Return the answer of whoever can answer at all."""
    return _ALIVE


def checks(engine: Engine, lanes: Lanes, upkeep: Upkeep) -> list[Door]:
    """Return the routes that say the service answers, and that it is ready."""
    return [
        _door("/healthz", alive, HealthAnswer, "health"),
        _door("/readyz", Readiness(engine, lanes, upkeep), ReadyAnswer, "readiness", 503),
    ]


def description(routes: Sequence[BaseRoute], lanes: Lanes) -> Door:
    """Return the route that describes the others."""
    route = Door(openapi.PATH, Signed(Signature()), name="description", include_in_schema=False)
    return route.answered_by(Public(Description(routes, lanes)))


def _door(path: str, answer: Answer, shape: type, name: str, *refuses: int) -> Door:
    return Door(
        path,
        Signed(Signature(return_annotation=shape)),
        name=name,
        operation_id=name,
        summary=f"Public {name} check.",
        description="Needs no key.",
        response_description="Yes.",
        responses={status: openapi.shared(status) for status in refuses},
    ).answered_by(Public(answer))
