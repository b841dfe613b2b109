"""From an Authorization header to a Caller. CONTRACT.md §3."""

import re
from typing import Final

from starlette.types import Scope

from ..engine.errors import Unauthenticated

_BEARER: Final = re.compile(rb"bearer +([\x21-\x7e]{1,256})[ \t]*", re.IGNORECASE)


def bearer(scope: Scope) -> str:
    """Return the one bearer token of the request, wherever else a caller may have put another.

    Raises Unauthenticated when there is none, more than one header, another scheme or odd bytes.
    """
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        raise Unauthenticated("a valid API key is required")
    return match[1].decode("ascii")
