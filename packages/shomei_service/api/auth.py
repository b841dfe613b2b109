"""From an Authorization header to a Caller. CONTRACT.md §3."""

import ipaddress
import re
from collections.abc import Iterator
from typing import Final, cast

from starlette.types import Scope

from ..engine.errors import Unauthenticated

_BEARER: Final = re.compile(rb"bearer +([\x21-\x7e]{1,256})[ \t]*", re.IGNORECASE)
_KEY_ID: Final = re.compile(rb"bearer +shm_([0-9a-f]{16})_", re.IGNORECASE)
_NETWORK: Final = 64  # bits of an IPv6 address that one subscriber holds


def bearer(scope: Scope) -> str:
    """Return the one bearer token of the request, wherever else a caller may have put another.

    Raises Unauthenticated when there is none, more than one header, another scheme or odd bytes.
    """
    values = _authorization(scope)
    match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        raise Unauthenticated("a valid API key is required")
    return match[1].decode("ascii")


def suspects(scope: Scope) -> Iterator[str]:
    """Name who failed to authenticate: where the request came from, and the key id it claimed."""
    client = cast(tuple[str, int] | None, scope.get("client"))
    yield _source(client[0] if client else "")
    for value in _authorization(scope)[:1]:
        if claimed := _KEY_ID.match(value):
            yield claimed[1].decode("ascii")


def _authorization(scope: Scope) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == b"authorization"]


def _source(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "local"  # a socket without an address
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _NETWORK), strict=False))
    return host
