"""A server in front of a real one that refuses, loses, delays or mangles the answers it is told to."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Fault(StrEnum):
    """What befalls a request."""

    REFUSED = "refused"  # the connection ends before anything is done
    LOST = "lost"  # it is done, and the answer does not arrive: nobody knows the outcome
    HANGING = "hanging"  # it is not done, and nothing ever comes
    SLOW = "slow"  # it is done late, within the time allowed
    WRONG = "wrong"  # it is done, and the answer is a page of somebody else's
    BROKEN = "broken"  # an error of the server's own


SLOW_S = 0.1
_MANGLED = b"<html>welcome to the airport</html>"


class Flaky:
    """Passes requests on, but for those that it was told to harm."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = parts.hostname or "", parts.port or 0
        self._released = threading.Event()
        self._fault: Fault | None = None
        self._from, self._until, self._of = 0, 0, ""
        self._counted = 0
        self.asked: list[str] = []
        proxy = self

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

            def _any(self) -> None:
                proxy._serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - the names the base class looks for

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def harm(self, fault: Fault, nth: int = 1, *, to_last: bool = False, of: str = "") -> None:
        """From now on harm the nth request whose path ends so; with `to_last` every one from it on."""
        self.asked.clear()
        self._counted, self._of = 0, of
        self._fault, self._from, self._until = fault, nth, 1 << 30 if to_last else nth

    def heal(self) -> None:
        """Pass everything on again."""
        self._fault = None
        self._released.set()
        self._released = threading.Event()

    def stop(self) -> None:
        """End it."""
        self.heal()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self, door: BaseHTTPRequestHandler) -> None:
        body = door.rfile.read(int(door.headers.get("Content-Length", 0)))
        self.asked.append(f"{door.command} {door.path}")
        is_counted = door.path.endswith(self._of)
        self._counted += is_counted
        is_harmed = self._from <= self._counted <= self._until and (is_counted or self._counted < self._until)
        fault = self._fault if is_harmed else None
        released = self._released
        if fault in (Fault.REFUSED, Fault.HANGING):
            if fault is Fault.HANGING:
                released.wait(60)
            door.close_connection = True
            return
        if fault is Fault.SLOW:
            released.wait(SLOW_S)
        if fault is Fault.BROKEN:
            _answer(door, 500, "application/json", b'{"errors": ["internal error"]}')
            return
        status, kind, data = self._passed_on(door, body)
        if fault is Fault.LOST:
            door.close_connection = True
        elif fault is Fault.WRONG:
            _answer(door, 200, "text/html", _MANGLED)
        else:
            _answer(door, status, kind, data)

    def _passed_on(self, door: BaseHTTPRequestHandler, body: bytes) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(*self._upstream, timeout=60)
        try:
            headers = {name: value for name, value in door.headers.items() if name.lower() != "connection"}
            connection.request(door.command, door.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Content-Type", "application/json"), answer.read()
        finally:
            connection.close()


def _answer(door: BaseHTTPRequestHandler, status: int, kind: str, data: bytes) -> None:
    door.send_response(status)
    door.send_header("Content-Type", kind)
    door.send_header("Content-Length", str(len(data)))
    door.end_headers()
    door.wfile.write(data)


@contextmanager
def in_front_of(upstream: str) -> Iterator[Flaky]:
    """Yield a proxy that runs until the block ends."""
    proxy = Flaky(upstream)
    try:
        yield proxy
    finally:
        proxy.stop()
