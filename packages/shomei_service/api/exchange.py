"""One request and its answer: every route takes these steps, in the contract's order. CONTRACT.md §2."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar, cast

from starlette.types import Receive, Send
from starlette.types import Scope as Request

from ..engine.errors import EngineError, Fault, Unauthenticated
from ..engine.model import Call, Caller, Json, Scope
from ..engine.parts import Engine
from . import auth, bodies, errors, forms, paths, reading, retries, streams
from .bodies import SINGLE, Allowance, ClientGone
from .gathering import Gathering
from .journal import REQUEST_ID, log_fault
from .lanes import Lane, Lanes
from .metrics import Meters
from .rates import Rates
from .replies import Reply, Streamed, reply
from .shapes import Nothing, Shape
from .streams import Stream

B = TypeVar("B", bound=Shape)
Q = TypeVar("Q", bound=Shape)

_NO_FIELDS: Final[Mapping[type[EngineError], Mapping[str, Json]]] = {}
_NO_FORMS: Final[Mapping[str, Any]] = {}


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
    meters: Meters


Outcome = Mapping[str, object] | Reply | Streamed
Act = Callable[[Ask[B, Q]], Outcome]
Together = Callable[[Sequence[Ask[B, Q]]], Sequence[Outcome | Exception]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[B, Q]):
    """One line of CONTRACT.md §1: what a route needs, what it reads and what it does."""

    method: str
    path: str
    scope: Scope
    act: Act[B, Q]
    answer: type
    body: type[B]
    query: type[Q]
    lane: Lane
    success: int = 200
    allowance: Allowance = SINGLE
    weigh: Callable[[B], int] = _one
    refused: Mapping[type[EngineError], Mapping[str, Json]] = field(default_factory=lambda: _NO_FIELDS)
    forms: Mapping[str, Act[B, Q]] = field(default_factory=lambda: _NO_FORMS)  # by media type, beside JSON
    media_type: str = "application/json"
    together: Together[B, Q] | None = None  # what `act` does, for several of one tenant at once
    streams: bool = False  # whether JSON is sent while it is made, as the other forms are


AnyOperation = Operation[Shape, Shape]
Callers = Gathering[str, Caller]  # from a token to who holds it


@dataclass(frozen=True, slots=True)
class _Read:
    """A request whose caller may ask, with its body as it arrived."""

    request: Request
    caller: Caller
    raw: bytes


class Exchange:
    """An operation as an ASGI application."""

    def __init__(
        self,
        operation: AnyOperation,
        engine: Engine,
        lanes: Lanes,
        rates: Rates,
        meters: Meters,
        callers: Callers,
    ) -> None:
        self.operation = operation
        self._engine = engine
        self._lanes = lanes
        self._rates = rates
        self._meters = meters
        self._callers = callers
        self._gathering = Gathering(lanes, operation.lane, self._work_together)

    async def __call__(self, request: Request, receive: Receive, send: Send) -> None:
        """Answer the request, or say nothing to a client that is gone."""
        try:
            with ExitStack() as places:
                answer = await self._answer(request, receive, places)
                if isinstance(answer, Stream):
                    await answer.send(receive, send)
                    return
        except ClientGone:
            return
        except EngineError as error:
            answer = self._refuse(error, cast(str, request[REQUEST_ID]))
        await answer.send(send)

    @contextmanager
    def _place(self, form: str | None) -> Generator[None]:
        """Hold one of the places for answers in pieces, if this is to be one."""
        if form is None and not self.operation.streams:
            yield
            return
        holder = object()
        streams.take_place(self._lanes, holder)
        try:
            yield
        finally:
            self._lanes.streams.release_on_behalf_of(holder)

    async def _answer(self, request: Request, receive: Receive, places: ExitStack) -> Reply | Stream:
        operation = self.operation
        began = time.perf_counter()
        # 1. 401, 403, 429: nothing of the request is read for a caller who may not ask.
        caller = await self._authenticate(request)
        caller.require(operation.scope)
        self._rates.admit(caller.actor, operation.lane)
        # 2. Large bodies wait outside until there is room for them; large answers are refused.
        form = forms.chosen(request, operation.forms)
        places.enter_context(self._place(form))
        async with self._lanes.large_bodies if operation.lane is Lane.BATCH else nullcontext():
            # 3. 413, then 422 as far as headers tell.
            raw = b""
            if operation.body is not Nothing:
                raw = await bodies.take(request, receive, operation.allowance)
                bodies.require_json(request)
            # 4. The rest is work, and leaves the event loop.
            call = Call(cast(str, request[REQUEST_ID]), began, self._status_of)
            asking = replace(caller, call=call)
            if operation.together is not None:
                return await self._gathering.ask(caller.tenant, _Read(request, asking, raw))
            return await self._lanes.run(operation.lane, self._work, _Read(request, asking, raw), form)

    async def _authenticate(self, request: Request) -> Caller:
        try:
            return await self._callers.ask(None, auth.bearer(request))
        except Unauthenticated:
            self._rates.fail(auth.suspects(request))
            raise

    def _status_of(self, error: EngineError | None) -> int:
        return self.operation.success if error is None else errors.status_of(error)

    def _work(self, read: _Read, form: str | None = None) -> Reply | Stream:
        ask = self._ask(read)
        return self._written((self.operation.forms[form] if form is not None else self.operation.act)(ask))

    def _work_together(self, several: Sequence[_Read]) -> Sequence[Reply | Stream | Exception]:
        """Do what `_work` does for each; what one's request is refused for is that one's answer."""
        together = self.operation.together
        if together is None or len(several) == 1:
            return [self._work(read) for read in several]
        answers: dict[int, Reply | Stream | Exception] = {}
        asks: dict[int, Ask[Shape, Shape]] = {}
        for at, read in enumerate(several):
            try:
                asks[at] = self._ask(read)
            except Exception as exc:  # noqa: BLE001 - whatever it is, it is nobody else's answer
                answers[at] = exc
        for at, outcome in zip(asks, together([*asks.values()]) if asks else (), strict=True):
            answers[at] = outcome if isinstance(outcome, Exception) else self._written(outcome)
        return [answers[at] for at in range(len(several))]

    def _ask(self, read: _Read) -> Ask[Shape, Shape]:
        """Return a well-formed request. Raises 422's, then 404 for an id that names nothing."""
        operation, request, caller, raw = self.operation, read.request, read.caller, read.raw
        ask = Ask(
            engine=self._engine,
            caller=replace(caller, retry=retries.read(operation, request, raw)),
            body=reading.read_body(operation.body, raw, operation.allowance)
            if operation.body is not Nothing
            else Nothing(),
            query=reading.read_query(operation.query, cast(bytes, request["query_string"])),
            path_id=paths.decode(next(iter(cast(Mapping[str, str], request["path_params"]).values()), "")),
            meters=self._meters,
        )
        self._rates.charge(caller.actor, operation.lane, operation.weigh(ask.body) - 1)
        return ask

    def _written(self, answer: Outcome) -> Reply | Stream:
        operation = self.operation
        if isinstance(answer, Streamed):
            return Stream(operation.success, answer, self._lanes)
        if isinstance(answer, Reply):
            return answer
        return reply(answer, status=operation.success)

    def _refuse(self, error: EngineError, request_id: str) -> Reply:
        if isinstance(error, Fault):
            log_fault(error, request_id)
        return errors.refuse(error, request_id, self.operation.refused.get(type(error)))
