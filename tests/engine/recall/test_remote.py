"""The remote embedder against a server that answers as it is told."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from shomei_service.engine.recall import EmbedderFault
from shomei_service.engine.recall.remote import RemoteEmbedder, RemoteModel

SIZE = 4


def vector_for(text: str) -> list[float]:
    return [float(len(text)), 1.0, float(text.count("e")), 0.5]


def entry(index: int, text: str, *, encoded: bool = True) -> dict[str, object]:
    numbers = vector_for(text)
    packed = base64.b64encode(np.array(numbers, dtype="<f4").tobytes()).decode()
    return {"object": "embedding", "index": index, "embedding": packed if encoded else numbers}


class Stub(ThreadingHTTPServer):
    """Remembers what it was asked; answers from a queue, then properly."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.asked: list[dict[str, object]] = []
        self.headers: list[dict[str, str]] = []
        self.planned: list[tuple[int, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def plan(self, status: int, body: object = None, **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.planned.append((status, {name.replace("_", "-"): value for name, value in headers.items()}, raw))


class Answering(BaseHTTPRequestHandler):
    """One answer of the stub."""

    server: Stub

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({"path": self.path, **asked})
        self.server.headers.append(dict(self.headers))
        entries = [entry(index, text) for index, text in enumerate(asked["input"])]
        proper = json.dumps({"object": "list", "data": entries[::-1]}).encode()
        status, headers, body = self.server.planned.pop(0) if self.server.planned else (200, {}, proper)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Stay quiet."""


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def embedder(stub: Stub, pauses: list[float]) -> Iterator[RemoteEmbedder]:
    built = RemoteEmbedder(model_at(stub.url), pauses.append)
    yield built
    built.close()


def model_at(url: str, **changes) -> RemoteModel:
    return RemoteModel(url, "small", "sk-secret", SIZE, frozenset({"127.0.0.1"}), **changes)


def test_vectors_come_in_the_order_of_the_texts(embedder: RemoteEmbedder, stub: Stub) -> None:
    texts = [f"{'e' * number} text" for number in range(70)]
    expected = np.array([vector_for(text) for text in texts], dtype=np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(embedder.passages(texts), expected, atol=1e-6)
    assert [len(asked["input"]) for asked in stub.asked] == [64, 6]
    assert {(asked["path"], asked["model"], asked["encoding_format"]) for asked in stub.asked} == {
        ("/v1/embeddings", "small", "base64")
    }
    assert stub.headers[0]["Authorization"] == "Bearer sk-secret"
    assert embedder.passages([]).shape == (0, SIZE)


def test_lists_of_numbers_are_taken_too(embedder: RemoteEmbedder, stub: Stub) -> None:
    stub.plan(200, {"data": [entry(0, "tea", encoded=False)]})
    assert np.allclose(embedder.query("tea"), embedder.query("tea"), atol=1e-6)


def test_texts_are_made_readable_and_prefixed(stub: Stub) -> None:
    embedder = RemoteEmbedder(model_at(stub.url, query_prefix="query: ", passage_prefix="passage: "))
    embedder.query("a\0b\ud83d")
    embedder.passages(["", "x" * 5000])
    embedder.close()
    assert [asked["input"] for asked in stub.asked] == [
        ["query: a b?"],
        ["passage: ", "passage: " + "x" * 2000],
    ]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_busy_servers_are_asked_again(
    embedder: RemoteEmbedder, stub: Stub, pauses: list[float], status: int
) -> None:
    stub.plan(status, {"error": "busy"})
    stub.plan(status, {"error": "busy"}, Retry_After="7")
    stub.plan(status, {"error": "busy"}, Retry_After="86400")
    assert embedder.query("tea").shape == (SIZE,)
    assert pauses == [0.5, 7.0, 20.0]


def test_a_server_that_stays_busy_is_given_up(
    embedder: RemoteEmbedder, stub: Stub, pauses: list[float]
) -> None:
    for _ in range(9):
        stub.plan(503, {"error": "busy"}, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT")
    with pytest.raises(EmbedderFault, match="did not answer"):
        embedder.query("tea")
    assert pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404])
def test_refusals_and_redirects_are_final(embedder: RemoteEmbedder, stub: Stub, status: int) -> None:
    stub.plan(status, {"error": "canary tea"}, Location=stub.url)
    with pytest.raises(EmbedderFault, match="refused") as fault:
        embedder.query("canary tea")
    assert "canary" not in str(fault.value)
    assert "secret" not in str(fault.value)
    assert len(stub.asked) == 1


GOOD = entry(0, "tea")
BAD = {
    "not json": b"<html>canary</html>",
    "no data": {"object": "list"},
    "no entries": {"data": []},
    "too many": {"data": [GOOD, entry(1, "x")]},
    "twice": {"data": [GOOD, GOOD]},
    "foreign index": {"data": [{**GOOD, "index": 3}]},
    "no index": {"data": [{"embedding": [1, 2, 3, 4]}]},
    "narrow": {"data": [{**GOOD, "embedding": [1, 2, 3]}]},
    "wide": {"data": [{**GOOD, "embedding": [1, 2, 3, 4, 5]}]},
    "not base64": {"data": [{**GOOD, "embedding": "§§§"}]},
    "cut base64": {"data": [{**GOOD, "embedding": base64.b64encode(b"abcde").decode()}]},
    "not finite": b'{"data": [{"index": 0, "embedding": [NaN, 1, 1, 1]}]}',
    "infinite": b'{"data": [{"index": 0, "embedding": [1e999, 1, 1, 1]}]}',
    "zero": {"data": [{**GOOD, "embedding": [0, 0, 0, 0]}]},
    "words": {"data": [{**GOOD, "embedding": ["a", "b", "c", "d"]}]},
    "nothing": {"data": [{**GOOD, "embedding": None}]},
    "ragged": {"data": [{**GOOD, "embedding": [[1], [2, 3]]}]},
    "a list": [1, 2],
    "too large": b'{"data": "' + b"x" * 70_000 + b'"}',
    "too deep": b"[" * 50_000,
}


@pytest.mark.parametrize("name", BAD)
def test_answers_are_not_believed_unchecked(embedder: RemoteEmbedder, stub: Stub, name: str) -> None:
    stub.plan(200, BAD[name])
    with pytest.raises(EmbedderFault) as fault:
        embedder.query("tea")
    assert "canary" not in str(fault.value)
    assert fault.value.__cause__ is None


def test_a_dead_server_is_a_fault(pauses: list[float]) -> None:
    embedder = RemoteEmbedder(model_at("http://127.0.0.1:9/v1"), pauses.append)
    with pytest.raises(EmbedderFault, match="did not answer"):
        embedder.query("tea")
    assert len(pauses) == 3


@pytest.mark.parametrize(
    "url",
    [
        "http://embeddings.example/v1",
        "https://embeddings.example/v1",
        "https://127.0.0.1@embeddings.example/v1",
        "https://key:secret@127.0.0.1/v1",
        "https://127.0.0.1.example/v1",
        "https://127.0.0.1/v1?key=1",
        "ftp://127.0.0.1/v1",
        "127.0.0.1/v1",
        "https://[::1/v1",
        "",
    ],
)
def test_only_listed_hosts_are_told_anything(url: str) -> None:
    with pytest.raises(EmbedderFault):
        RemoteEmbedder(model_at(url))


def test_the_environment_has_no_say(
    embedder: RemoteEmbedder, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    embedder.self_test()
    assert len(stub.asked) == 1


def test_the_key_is_not_shown(embedder: RemoteEmbedder, stub: Stub) -> None:
    assert "sk-secret" not in repr(model_at(stub.url))
    assert embedder.model_id == "remote:127.0.0.1:small:4"
