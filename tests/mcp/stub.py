"""A loopback HTTP listener that records requests byte for byte and plays scripted answers."""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

ADDED = {
    "results": [{"id": "lm_1", "memory": "text", "event": "ADD", "receipt": {}, "receipt_hash": "sha256:00"}]
}


@dataclass(frozen=True)
class Request:
    """One request as it came off the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> object:
        return json.loads(self.body)


@dataclass
class Exchange:
    """One request and the socket to answer on."""

    request: Request
    connection: socket.socket
    released: threading.Event

    def answer(self, status: int = 200, body: object = None, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(status, content, **{"Content_Type": "application/json", **headers})

    def send(self, status: int, content: bytes, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + content)

    def raw(self, data: bytes) -> None:
        self.connection.sendall(data)

    def reset(self) -> None:
        # SO_LINGER with zero seconds makes close send RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def hang(self) -> None:
        self.released.wait(60)


Play = Callable[[Exchange], None]


@dataclass
class Stub:
    """The listener; `play` answers each request, `requests` remembers them."""

    play: Play = lambda exchange: exchange.answer(200, ADDED)
    tls: ssl.SSLContext | None = None
    family: socket.AddressFamily = socket.AF_INET
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    received: bytearray = field(default_factory=bytearray)

    def __enter__(self) -> Self:
        self._released = threading.Event()
        self._listener = socket.socket(self.family)
        self._listener.bind(("::1" if self.family == socket.AF_INET6 else "127.0.0.1", 0))
        self._listener.listen(512)
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]
        self._open: list[socket.socket] = []
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [f"{request.method} {request.target}" for request in self.requests]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._converse, args=(connection,)))
            self._threads[-1].start()

    def _converse(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            for request in self._requests(connection):
                self.requests.append(request)
                self.play(Exchange(request, connection, self._released))
        connection.close()

    def _requests(self, connection: socket.socket) -> Iterator[Request]:
        buffer = b""
        while True:
            while b"\r\n\r\n" not in buffer:
                if not (chunk := connection.recv(65_536)):
                    return
                self.received += chunk
                buffer += chunk
            head, buffer = buffer.split(b"\r\n\r\n", 1)
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
            length = int(headers.get("content-length", "0"))
            while len(buffer) < length:
                if not (chunk := connection.recv(65_536)):
                    return
                self.received += chunk
                buffer += chunk
            method, target, _ = first.split(" ")
            yield Request(method, target, headers, buffer[:length])
            buffer = buffer[length:]


@contextmanager
def closed_port() -> Iterator[str]:
    """Yield a base URL nobody listens on; the port stays taken, so that nobody can."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"
