"""An answer as bytes, and how it is sent. CONTRACT.md §1-§2."""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from starlette.types import Send

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished answer: status, headers and body."""

    status: int
    headers: Headers
    body: bytes

    async def send(self, send: Send) -> None:
        """Put the answer on the wire."""
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": self.body})


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer too large to hold: its pieces are made while it is sent, and dropped once it is."""

    media_type: str
    pieces: Iterator[bytes]
    close: Callable[[], None]
    headers: Headers = ()


def encode(value: Mapping[str, object]) -> bytes:
    """Write JSON as UTF-8. Raises ValueError for NaN and infinities, which are not JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def streamed_lines(pages: Iterator[Sequence[Mapping[str, object]]]) -> Streamed:
    """Return JSON Lines made page by page; the first is made now, so that what refuses does so in time."""
    first = next(pages, ())

    def pieces() -> Generator[bytes]:
        for page in chain([first], pages):
            if page:
                yield b"".join(encode(row) + b"\n" for row in page)

    making = pieces()
    return Streamed("application/x-ndjson", making, making.close)


def reply(
    value: Mapping[str, object], *, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()
) -> Reply:
    """Return the JSON answer with its length declared."""
    body = encode(value)
    declared = ((b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()))
    return Reply(status, (*declared, *headers), body)
