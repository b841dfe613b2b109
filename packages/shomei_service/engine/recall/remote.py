"""An embedder elsewhere, behind any OpenAI-compatible `/embeddings`. RECALL.md §1.

Off unless configured: the text of every memory and query leaves the machine. It goes to one named host that
must be on the allow-list, never follows a redirect, and takes no proxy or credentials from the environment.
"""

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import numpy as np

from .embedder import LONGEST_QUERY, readable, unit_vectors
from .errors import EmbedderFault
from .features import Floats

if TYPE_CHECKING:
    import httpx

_BATCH: Final = 64
_ATTEMPTS: Final = 4
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 20.0
_TIMEOUT: Final = 30.0
# A float written out takes up to 25 characters; the rest of an answer is names and counts.
_BYTES_PER_NUMBER: Final = 32
_BYTES_BESIDE: Final = 65_536
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_OK: Final = 200
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERRORS: Final = 500


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """Where a remote model is, and what its cosines mean; the constants are the operator's to measure."""

    url: str
    model: str
    key: str = field(repr=False)
    dimensions: int
    allowed_hosts: frozenset[str]
    cosine_low: float = 0.1
    cosine_high: float = 0.7
    semantic_share: float = 0.4
    query_prefix: str = ""
    passage_prefix: str = ""

    @property
    def host(self) -> str:
        """Return the host that is told the texts: a recipient, to be named in exports."""
        return urlsplit(self.url).hostname or ""

    def require_allowed(self) -> None:
        """Raise EmbedderFault unless the address is plain, protected and on the allow-list."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            raise EmbedderFault("the embedder's address cannot be read") from None
        if parts.scheme != "https" and not (parts.scheme == "http" and self.host in _LOOPBACK):
            raise EmbedderFault("the embedder's address must be https, or http on this machine")
        if parts.username is not None or parts.query or parts.fragment:
            raise EmbedderFault("the embedder's address must be a plain one")
        if self.host not in {host.lower() for host in self.allowed_hosts}:
            raise EmbedderFault("the embedder's host is not on the allow-list")


class RemoteEmbedder:
    """Asks a remote model for vectors and believes nothing it has not checked."""

    def __init__(
        self,
        model: RemoteModel,
        pause: Callable[[float], None] = time.sleep,
        *,
        attempts: int = _ATTEMPTS,
        timeout: float = _TIMEOUT,
    ) -> None:
        """Raise EmbedderFault for an address that is not allowed; nothing is sent yet."""
        model.require_allowed()
        self._attempts = attempts
        self._timeout = timeout
        self._model = model
        self._pause = pause
        self._client: httpx.Client | None = None
        self.model_id: str = f"remote:{model.host}:{model.model}:{model.dimensions}"
        self.dimensions: int = model.dimensions
        self.cosine_low: float = model.cosine_low
        self.cosine_high: float = model.cosine_high
        self.semantic_share: float = model.semantic_share

    def passages(self, texts: Sequence[str]) -> Floats:
        """Return a vector for each passage; raise EmbedderFault."""
        return self._embed([self._model.passage_prefix + readable(text) for text in texts])

    def query(self, text: str) -> Floats:
        """Return the vector of a query; raise EmbedderFault."""
        return self._embed([self._model.query_prefix + readable(text, LONGEST_QUERY)])[0]

    def self_test(self) -> None:
        """Raise EmbedderFault unless the model answers with vectors of the configured size."""
        self.query("ready")

    def close(self) -> None:
        """Close the connection; it opens again when needed."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _embed(self, texts: list[str]) -> Floats:
        batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
        found = [self._ask(batch) for batch in batches]
        return np.concatenate([np.zeros((0, self.dimensions), dtype=np.float32), *found])

    def _ask(self, texts: list[str]) -> Floats:
        # An empty input is refused by most servers; a space means as little.
        asked = {"model": self._model.model, "input": [text or " " for text in texts]}
        answer = self._answer({**asked, "encoding_format": "base64"}, len(texts))
        try:
            vectors = np.array(_in_order(answer), dtype=np.float32)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            # Without its cause: the answer is made of vectors, and those are content.
            raise EmbedderFault("the embedder's answer cannot be read") from None
        return unit_vectors(vectors, len(texts), self.dimensions)

    def _answer(self, body: Mapping[str, object], count: int) -> bytes:
        """Post until the answer is final, waiting as the server asks; raise EmbedderFault."""
        import httpx

        most = _BYTES_BESIDE + count * self.dimensions * _BYTES_PER_NUMBER
        for attempt in range(self._attempts):
            pause = _FIRST_PAUSE * 2**attempt
            try:
                with self._opened().stream(
                    "POST", self._model.url.rstrip("/") + "/embeddings", json=body
                ) as got:
                    if got.status_code == _OK:
                        return _read(got, most)
                    if got.status_code != _TOO_MANY_REQUESTS and got.status_code < _SERVER_ERRORS:
                        raise EmbedderFault("the embedder refused the request")
                    pause = _asked_pause(got, pause)
            except (httpx.HTTPError, httpx.InvalidURL):
                # A connection that fails is tried again like a server that is busy.
                self.close()
            if attempt + 1 < self._attempts:
                self._pause(min(pause, _LONGEST_PAUSE))
        raise EmbedderFault("the embedder did not answer")

    def _opened(self) -> "httpx.Client":
        if self._client is None:
            import httpx

            self._client = httpx.Client(
                headers={"Authorization": f"Bearer {self._model.key}"},
                timeout=self._timeout,
                trust_env=False,
                follow_redirects=False,
            )
        return self._client


def _read(response: "httpx.Response", most: int) -> bytes:
    """Return the body; raise EmbedderFault once it is larger than the vectors can be."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > most:
            raise EmbedderFault("the embedder's answer is too large")
    return bytes(body)


def _asked_pause(response: "httpx.Response", pause: float) -> float:
    asked: str = response.headers.get("Retry-After", "")
    return float(asked) if asked.isascii() and asked.isdecimal() else pause


def _in_order(answer: bytes) -> list[Floats]:
    """Return the vectors in the order of their texts; raise for an index missing, double or foreign."""
    entries = cast("list[dict[str, object]]", json.loads(answer)["data"])
    vectors = {cast("int", entry["index"]): _numbers(entry["embedding"]) for entry in entries}
    if len(vectors) != len(entries):
        raise ValueError("an index occurs twice")
    return [vectors[place] for place in range(len(entries))]


def _numbers(embedding: object) -> Floats:
    """Read a vector as base64 of little-endian floats, or as the list of numbers some servers send anyway."""
    if isinstance(embedding, str):
        try:
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
        except binascii.Error as failure:
            raise ValueError("not base64") from failure
    return np.array(embedding, dtype=np.float32)
