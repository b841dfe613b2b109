"""The Idempotency-Key header: which call a request repeats. SEMANTICS.md §16."""

from collections.abc import Iterable
from typing import Final, Protocol, cast

from starlette.types import Scope as Request

from ..engine.model import Retry
from .errors import malformed

HEADER: Final = b"idempotency-key"
_LONGEST: Final = 255
REPEATABLE: Final = frozenset({"POST", "PUT", "DELETE"})


class Route(Protocol):
    """What is asked of an operation."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...


def read(route: Route, request: Request, body: bytes) -> Retry | None:
    """Return the key with everything it stands for: route, path, query and body.

    Raises Malformed for a key given twice, or one that is not 1 to 255 visible ASCII characters.
    """
    headers = cast(Iterable[tuple[bytes, bytes]], request["headers"])
    given = [value for name, value in headers if name == HEADER]
    if not given or route.method not in REPEATABLE:
        return None
    if len(given) > 1:
        raise malformed("Idempotency-Key", "must be given once")
    key = given[0]
    if not 1 <= len(key) <= _LONGEST or any(not 0x20 < octet < 0x7F for octet in key):
        raise malformed("Idempotency-Key", "must be 1 to 255 visible ASCII characters")
    path, query = cast(bytes, request["raw_path"]), cast(bytes, request["query_string"])
    return Retry(f"{route.method} {route.path}", key.decode(), b"\n".join((path, query, body)))
