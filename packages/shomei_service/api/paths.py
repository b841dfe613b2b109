"""Paths as they were sent: split on a literal slash first, decoded once afterwards. SEMANTICS.md §20."""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from ..engine.errors import NotFound
from ..engine.limits import ID_BYTES

_PRINTABLE: Final = re.compile(rb"/[\x21-\x7e]*")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NOWHERE: Final = ""


class RawPath:
    """Route on the undecoded path, so that an encoded slash can never become a separator."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on with `path` as it stood on the wire; odd bytes make it match nothing."""
        if scope["type"] == "http":
            raw: bytes = scope.get("raw_path") or b""
            scope["path"] = raw.decode("ascii") if _PRINTABLE.fullmatch(raw) else _NOWHERE
        await self._app(scope, receive, send)


def decode(segment: str) -> str:
    """Decode one path segment once. Raises NotFound for whatever cannot be an id: it names nothing."""
    if _BROKEN_ESCAPE.search(segment):
        raise NotFound("no such memory")
    raw = unquote_to_bytes(segment)
    if len(raw) > ID_BYTES or b"\0" in raw or raw in {b".", b".."}:
        raise NotFound("no such memory")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise NotFound("no such memory") from None
