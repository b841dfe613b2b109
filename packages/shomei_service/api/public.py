"""The three doors that need no key: alive, ready, and the description of all the others. CONTRACT.md §1."""

from collections.abc import Callable
from typing import Final, cast

from starlette.types import Receive, Scope, Send

from . import openapi
from .errors import problem
from .journal import REQUEST_ID
from .replies import Reply, reply
from .upkeep import Upkeep

Answer = Callable[[str], Reply]

_JSON: Final = (b"content-type", b"application/json")


class Public:
    """A fixed answer as an ASGI application; it reads nothing of the request."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await self._answer(cast(str, scope[REQUEST_ID])).send(send)


def doors(upkeep: Upkeep) -> dict[str, Public]:
    """Return the public paths and what answers there."""
    written = openapi.render().encode()
    described = Reply(200, (_JSON, (b"content-length", str(len(written)).encode())), written)

    def ready(request_id: str) -> Reply:
        if upkeep.is_well:
            return reply({"status": "ok"})
        return problem(503, "storage_unavailable", "the service is not ready", request_id)

    return {
        "/healthz": Public(lambda _: reply({"status": "ok"})),
        "/readyz": Public(ready),
        openapi.PATH: Public(lambda _: described),
    }
