"""One connection: bounded heads, our own refusals, no patience with clients that stop. RELIABILITY.md §6."""

import asyncio
import fcntl
import sys
import termios
from typing import Final, cast

from httptools import HttpRequestParser
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ..engine.model import new_id
from .errors import problem
from .journal import log_access

CONNECTIONS: Final = 512
HEAD_SECONDS: Final = 30
WRITE_SECONDS: Final = 30
_VERSIONS: Final = ("1.0", "1.1")
_HEAD_OCTETS: Final = 16 * 1024
_HEAD_FIELDS: Final = 64
_KEY_OCTETS: Final = 64 * 1024 + 64  # of Authorization alone, so that an odd key is a 401 and not a mystery
_SILENT_OCTETS: Final = 128 * 1024  # more than a whole head: what may arrive without becoming head or body
_UNREAD_OCTETS: Final = 16 * 1024 * 1024  # who sends the largest body first and reads then sees its refusal
_READ_OCTETS: Final = 16 * 1024  # what a client takes of an answer in WRITE_SECONDS, or the rest of it

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
    write_seconds: float = WRITE_SECONDS
    _in_head = True
    _octets = 0
    _key_octets = 0
    _silent = 0
    _unread = 0
    _answers = 0
    _refusal = 400
    _timer: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    _served: RequestResponseCycle | None = None

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
        if self._watch is not None:
            self._watch.cancel()
        self._give_up()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived; a connection that owes a request head is on the clock."""
        self._silent += len(data)
        super().data_received(data)
        if self._silent > _SILENT_OCTETS:  # one endless header, which the parser collects before it tells
            self._refuse(431)
            return
        idle = not self.cycle or self.cycle.response_complete
        if idle and self._timer is None and self.timeout_keep_alive_task is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        """Start counting a request's head."""
        super().on_message_begin()
        self._octets = self._key_octets = self._silent = self._unread = 0
        self._in_head = True
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header."""
        if name.lower() == b"authorization":
            self._key_octets += len(value)
        else:
            self._count(name + value)
        if len(self.headers) >= _HEAD_FIELDS or self._key_octets > _KEY_OCTETS:
            self._refusal = 431
            raise _Refused
        if self._in_head:  # a trailer is not one: uvicorn would add it to a request that already runs
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request on, unless its target names a host, which the parser would drop and act.

        Nor is another version spoken here: an HTTP/0.9 request has no head, an HTTP/2 one another form.
        """
        self._head_arrived()
        self._in_head = False
        version = cast(HttpRequestParser, self.parser).get_http_version()
        if version not in _VERSIONS or not self.url.startswith(b"/"):
            raise _Refused
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, or let it pass when it has its answer; but not for ever."""
        self._silent = 0
        super().on_body(body)
        if self.cycle.response_complete:
            self._unread += len(body)
            if self._unread > _UNREAD_OCTETS:
                self.transport.close()

    def on_response_complete(self) -> None:
        """Go on with the next request, and see that this answer is taken."""
        self._answers += 1
        self._expect_reading()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Stop filling a buffer that the client does not empty."""
        super().pause_writing()
        self._expect_reading()

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

    def _expect_reading(self) -> None:
        if self._watch is None and (left := self._untaken()):
            self._watch = self.loop.call_later(self.write_seconds, self._look, left, self._answers)

    def _look(self, before: int, answers: int) -> None:
        """End the connection if its client read next to nothing meanwhile: closing would wait for it."""
        self._watch = None
        left = self._untaken()
        if left and answers == self._answers and before - left < min(before, _READ_OCTETS):
            self._give_up()
            self.transport.abort()
        else:
            self._expect_reading()

    def _untaken(self) -> int:
        """Return how much of what was written the client has not taken; 0 once the system holds the rest."""
        left = self.transport.get_write_buffer_size()
        if not left:
            return 0
        try:  # the system takes more in large steps, so its part is counted too
            queue = fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        except (OSError, ValueError):
            return 0  # the connection has just gone
        return left + int.from_bytes(queue, sys.byteorder)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def _give_up(self) -> None:
        """Tell the request being served that nobody listens; uvicorn tells only the last one that arrived."""
        if self._served is not None:
            self._served.disconnected = True
            self._served.message_event.set()

    def _refuse(self, status: int) -> None:
        """Answer and close; but a whole request that is being answered gets its own answer, and only that."""
        self._head_arrived()
        cycle = self.cycle
        in_flight = bool(cycle) and not cycle.response_complete
        if in_flight and not cycle.more_body:
            cycle.keep_alive = False
            self.flow.pause_reading()  # whatever else arrives would only be collected
            return
        if not (self.transport.is_closing() or self.pipeline or (in_flight and cycle.response_started)):
            self.transport.write(_written(status))
            self._expect_reading()
        self.transport.close()


def _written(status: int) -> bytes:
    code, reason, detail = _REFUSALS[status]
    request_id = new_id("req_")
    answer = problem(status, code, detail, request_id, headers=((b"cache-control", b"no-store"),))
    head = [b"HTTP/1.1 %d %s" % (status, reason), b"connection: close"]
    head += [name + b": " + value for name, value in answer.headers if name != b"connection"]
    log_access("", None, status=status, milliseconds=0, request_id=request_id)
    return b"\r\n".join([*head, b"", answer.body])
