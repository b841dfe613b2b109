"""One request and its answer: every route takes these steps, in the contract's order. CONTRACT.md §2."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar, cast

from starlette.types import Receive, Send
from starlette.types import Scope as Request

from ..engine.errors import EngineError, Fault, Unauthenticated
from ..engine.model import Caller, Json, Scope
from ..engine.parts import Engine
from ..engine.verbs import access
from . import auth, bodies, errors, paths, reading, retries
from .bodies import SINGLE, Allowance, ClientGone
from .journal import REQUEST_ID, log_fault
from .lanes import Lane, Lanes
from .rates import Rates
from .replies import Reply, reply
from .schemas import Nothing, Shape

B = TypeVar("B", bound=Shape)
Q = TypeVar("Q", bound=Shape)

_NO_FIELDS: Final[Mapping[type[EngineError], Mapping[str, Json]]] = {}


def _one(_body: Shape) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Ask(Generic[B, Q]):
    """A request that is authenticated, in scope and well formed; path_id is the id in its path, if any."""

    engine: Engine
    caller: Caller
    path_id: str
    body: B
    query: Q


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[B, Q]):
    """One line of CONTRACT.md §1: what a route needs, what it reads and what it does."""

    method: str
    path: str
    scope: Scope
    act: Callable[[Ask[B, Q]], Mapping[str, object]]
    answer: type
    body: type[B]
    query: type[Q]
    lane: Lane
    success: int = 200
    allowance: Allowance = SINGLE
    weigh: Callable[[B], int] = _one
    refused: Mapping[type[EngineError], Mapping[str, Json]] = field(default_factory=lambda: _NO_FIELDS)


AnyOperation = Operation[Shape, Shape]


class Exchange:
    """An operation as an ASGI application."""

    def __init__(self, operation: AnyOperation, engine: Engine, lanes: Lanes, rates: Rates) -> None:
        self.operation = operation
        self._engine = engine
        self._lanes = lanes
        self._rates = rates

    async def __call__(self, request: Request, receive: Receive, send: Send) -> None:
        """Answer the request, or say nothing to a client that is gone."""
        try:
            answer = await self._answer(request, receive)
        except ClientGone:
            return
        except EngineError as error:
            answer = self._refuse(error, cast(str, request[REQUEST_ID]))
        await answer.send(send)

    async def _answer(self, request: Request, receive: Receive) -> Reply:
        operation = self.operation
        # 1. 401, 403, 429: nothing of the request is read for a caller who may not ask.
        caller = await self._authenticate(request)
        caller.require(operation.scope)
        self._rates.admit(caller.actor, operation.lane)
        # 2. Large bodies wait outside until there is room for them.
        async with self._lanes.large_bodies if operation.lane is Lane.BATCH else nullcontext():
            # 3. 413, then 422 as far as headers tell.
            raw = b""
            if operation.body is not Nothing:
                raw = await bodies.take(request, receive, operation.allowance)
                bodies.require_json(request)
            # 4. The rest is work, and leaves the event loop.
            return await self._lanes.run(operation.lane, self._work, request, caller, raw)

    async def _authenticate(self, request: Request) -> Caller:
        try:
            return await self._lanes.run(Lane.ADMIT, access.authenticate, self._engine, auth.bearer(request))
        except Unauthenticated:
            self._rates.fail(auth.suspects(request))
            raise

    def _work(self, request: Request, caller: Caller, raw: bytes) -> Reply:
        operation = self.operation
        # 422, then 404 for an id that names nothing, then whatever the verb says.
        ask = Ask(
            engine=self._engine,
            caller=replace(caller, retry=retries.read(operation, request, raw)),
            body=reading.read_body(operation.body, raw, operation.allowance)
            if operation.body is not Nothing
            else Nothing(),
            query=reading.read_query(operation.query, cast(bytes, request["query_string"])),
            path_id=paths.decode(next(iter(cast(Mapping[str, str], request["path_params"]).values()), "")),
        )
        self._rates.charge(caller.actor, operation.lane, operation.weigh(ask.body) - 1)
        return reply(operation.act(ask), status=operation.success)

    def _refuse(self, error: EngineError, request_id: str) -> Reply:
        if isinstance(error, Fault):
            log_fault(error, request_id)
        return errors.refuse(error, request_id, self.operation.refused.get(type(error)))
