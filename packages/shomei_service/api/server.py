"""The application on a socket: bounded heads, our own refusals, no log but ours. RELIABILITY.md §6."""

import asyncio
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..engine.model import new_id
from .errors import problem
from .journal import log_access

CONNECTIONS: Final = 512
HEAD_SECONDS: Final = 30
_HEAD_OCTETS: Final = 128 * 1024  # above a 64 KB token, so that an odd key is a 401 and not a mystery
_HEAD_FIELDS: Final = 64
_KEEP_ALIVE_SECONDS: Final = 75  # longer than clients keep idle connections, so that they close first
_GRACE_SECONDS: Final = 10

_REFUSALS: Final = {
    400: ("invalid_request", b"Bad Request", "this is not a well-formed HTTP/1.1 request"),
    408: ("invalid_request", b"Request Timeout", "the request did not arrive in time"),
    431: ("invalid_request", b"Request Header Fields Too Large", "the request's head is too large"),
    503: (
        "rate_limited",
        b"Service Unavailable",
        "more connections are open than this service holds; try again",
    ),
}


class _Refused(Exception):  # never leaves the parser, which turns it into its own error
    """The head of a request breaks a rule."""


class Connection(HttpToolsProtocol):
    """One connection: uvicorn's, with limits on what comes before the application is asked."""

    most: int = CONNECTIONS
    head_seconds: float = HEAD_SECONDS
    _octets = 0
    _refusal = 400
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take the connection, or refuse it when there are too many."""
        super().connection_made(transport)
        self.access_log = False  # whoever may have attached a listener: it would write paths and queries
        if len(self.connections) > self.most:
            self._refuse(503)
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._head_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived; a connection that owes a request head is on the clock."""
        super().data_received(data)
        idle = not self.cycle or self.cycle.response_complete
        if idle and self._timer is None and self.timeout_keep_alive_task is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        """Start counting a request's head."""
        super().on_message_begin()
        self._octets = 0
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header."""
        self._count(name + value)
        if len(self.headers) >= _HEAD_FIELDS:
            self._refusal = 431
            raise _Refused
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request on, unless its target names a host: the parser would drop that and act."""
        self._head_arrived()
        if not self.url.startswith(b"/"):
            raise _Refused
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer, in our words, what could not be read; uvicorn calls this for every parser error."""
        self._refuse(self._refusal)

    def _count(self, piece: bytes) -> None:
        self._octets += len(piece)
        if self._octets > _HEAD_OCTETS:
            self._refusal = 431
            raise _Refused

    def _expect_head(self) -> None:
        self._head_arrived()
        self._timer = self.loop.call_later(self.head_seconds, self._refuse, 408)

    def _head_arrived(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int) -> None:
        """Answer and close; but a whole request that is being answered gets its own answer, and only that."""
        self._head_arrived()
        cycle = self.cycle
        in_flight = bool(cycle) and not cycle.response_complete
        if in_flight and not cycle.more_body:
            cycle.keep_alive = False
            return
        if not (self.transport.is_closing() or self.pipeline or (in_flight and cycle.response_started)):
            self.transport.write(_written(status))
        self.transport.close()


def _written(status: int) -> bytes:
    code, reason, detail = _REFUSALS[status]
    request_id = new_id("req_")
    answer = problem(status, code, detail, request_id, headers=((b"cache-control", b"no-store"),))
    head = [b"HTTP/1.1 %d %s" % (status, reason), b"connection: close"]
    head += [name + b": " + value for name, value in answer.headers if name != b"connection"]
    log_access("", None, status=status, milliseconds=0, request_id=request_id)
    return b"\r\n".join([*head, b"", answer.body])


def configuration(app: ASGIApp, *, host: str, port: int, log_level: str = "info") -> uvicorn.Config:
    """Return how to serve the application, without uvicorn's access log: it would hold paths and queries."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=_logging(log_level.upper()),
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


def _logging(level: str) -> dict[str, object]:
    """Return plain lines on stderr for our loggers and for uvicorn's reports about itself."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {
            name: {"handlers": ["stderr"], "level": level, "propagate": False}
            for name in ("shomei", "uvicorn")
        },
    }
