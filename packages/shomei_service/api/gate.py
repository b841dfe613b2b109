"""What holds for every answer: a request id, headers, one log line, and no stranger's error page."""

import time
from typing import Final, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..engine.model import new_id
from . import errors
from .journal import REQUEST_ID, log_access, log_fault
from .metrics import Meters

_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_HUNG_UP: Final = 499  # for the log only: no answer was begun


class Gate:
    """The outermost layer: nothing of a failure inside gets past it but its name in the log."""

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self._app = app
        self._meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_id("req_")
        scope[REQUEST_ID] = request_id
        began = time.perf_counter()
        status = _HUNG_UP

        async def sealed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = cast(int, message["status"])
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            await self._app(scope, receive, sealed)
        except Exception as fault:  # noqa: BLE001  # the last place before the framework prints it
            log_fault(fault, request_id)
            if status == _HUNG_UP:
                await errors.crash(request_id).send(sealed)
        finally:
            self._take_down(scope, status, time.perf_counter() - began, request_id)

    def _take_down(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        method = cast(str, scope["method"])
        template = cast("str | None", getattr(scope.get("route"), "path", None))
        self._meters.count(method, template, status=status, seconds=seconds)
        log_access(method, template, status=status, milliseconds=round(1000 * seconds), request_id=request_id)
