"""An engine with keys for two tenants, a synchronous client over ASGI, and a real server on a free port."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI

from shomei_service.api.app import create_app
from shomei_service.api.server import configuration
from shomei_service.engine.model import Scope
from shomei_service.engine.parts import Engine
from shomei_service.engine.verbs import access
from shomei_service.settings import Settings
from tests.fakes import new_home

UNKNOWN = "lm_" + 32 * "0"
PATIENCE_S = 60  # for what does come: a busy machine may take its time
PATIENT = Settings(rate_failed_keys=1_000_000)  # these tests show many wrong keys from one address


@dataclass(frozen=True)
class House:
    """A: the tenant under test, with a data and an admin key; B: somebody else, with an admin key."""

    engine: Engine
    app: FastAPI
    portal: BlockingPortal
    data: str
    admin: str
    revoked: str
    other: str

    def call(
        self,
        method: str,
        url: str,
        *,
        key: str | None = None,
        body: object = None,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send one request through the application in this process."""
        return call(self.app, self.portal, method, url, key=key, body=body, content=content, headers=headers)

    def add(self, text: str, user_id: str | None = None, *, key: str | None = None) -> str:
        """Remember a text and return its id."""
        answer = self.call(
            "POST", "/v1/memories", key=key or self.data, body={"messages": text, "user_id": user_id}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["results"][0]["id"]


def call(
    app: FastAPI,
    portal: BlockingPortal,
    method: str,
    url: str,
    *,
    key: str | None = None,
    body: object = None,
    content: Any = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    sent = dict(headers or {})
    if key is not None:
        sent["authorization"] = f"Bearer {key}"
    if body is not None:
        content = json.dumps(body).encode()
    if content is not None:
        sent.setdefault("content-type", "application/json")

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.request(method, url, content=content, headers=sent)

    return portal.call(exchange)


@contextmanager
def open_house(home: Path, **settings: object) -> Iterator[House]:
    installed = new_home(home, **settings)
    with installed.opened() as opened, start_blocking_portal() as portal:
        engine = opened.engine
        revoked = access.create_key(engine, installed.tenant, Scope.ADMIN)
        access.revoke_key(engine, installed.tenant, revoked.key_id)
        stranger = access.create_tenant(engine, "other")
        yield House(
            engine=engine,
            app=create_app(engine, settings=PATIENT),
            portal=portal,
            data=installed.data_token,
            admin=installed.admin_token,
            revoked=revoked.token,
            other=access.create_key(engine, stranger.tenant_id, Scope.ADMIN).token,
        )


@dataclass(frozen=True)
class Answer:
    """What came back on a socket: the first response, parsed as far as its head goes."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Live:
    """A running server."""

    port: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def raw(self, request: bytes) -> Answer:
        """Send bytes as they are and read one response."""
        with self.connect() as connection:
            with contextlib.suppress(ConnectionError):  # it may be refused before all of it is taken
                connection.sendall(request)
            return read_answer(connection)

    def ask(
        self, method: str, target: str | bytes, *headers: bytes, key: str | None = None, body: bytes = b""
    ) -> Answer:
        """Send a request whose target and headers go out byte for byte."""
        lines = [
            method.encode() + b" " + (target if isinstance(target, bytes) else target.encode()) + b" HTTP/1.1"
        ]
        lines += [b"Host: service", *headers]
        if key is not None:
            lines.append(b"Authorization: Bearer " + key.encode())
        if body:
            lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
        return self.raw(b"\r\n".join([*lines, b"", body]))


def read_answer(connection: socket.socket) -> Answer:
    received = bytearray()
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    status_line, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    taken = bytearray(body)
    while len(taken) < int(headers.get("content-length", 0)):
        taken += _more(connection)
    if headers.get("transfer-encoding") == "chunked":
        while not taken.endswith(b"0\r\n\r\n"):
            taken += _more(connection)
    return Answer(int(status_line.split(" ")[1]), headers, bytes(taken))


def _more(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    assert piece, "the connection ended before an answer did"
    return piece


@contextmanager
def serve(house: House, *, http: Any = None, app: FastAPI | None = None, grace: Any = None) -> Iterator[Live]:
    """Run the server in a thread, with its lifespan, until the block ends."""
    config = configuration(app or create_app(house.engine, settings=PATIENT), host="127.0.0.1", port=0)
    config.log_config = None
    if http is not None:
        config.http = http
    if grace is not None:
        config.timeout_graceful_shutdown = grace
    with run(config) as live:
        yield live


@contextmanager
def run(config: uvicorn.Config) -> Iterator[Live]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        until(lambda: server.started)
        try:
            yield Live(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def until(question: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not question():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.005)


def without_id(answer: httpx.Response | Answer) -> bytes:
    """Return the body with its request id blanked, for byte-for-byte comparisons."""
    body = answer.content if isinstance(answer, httpx.Response) else answer.body
    request_id = json.loads(body)["request_id"]
    return body.replace(request_id.encode(), b"-")


def fields_of(headers: httpx.Headers, *, but: Sequence[str] = ("date",)) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in headers.items() if name not in but)
