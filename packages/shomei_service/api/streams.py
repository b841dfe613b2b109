"""Send an answer while it is made: one piece in memory at a time, and none for a client that is gone."""

from dataclasses import dataclass

import anyio
from starlette.types import Receive, Send

from .bodies import ClientGone
from .errors import Busy
from .lanes import Lane, Lanes
from .replies import Streamed


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in pieces, on its way. It holds one of the places for such answers until it is sent."""

    status: int
    answer: Streamed
    lanes: Lanes

    async def send(self, receive: Receive, send: Send) -> None:
        """Put the answer on the wire. Raises ClientGone when nobody takes it any more."""
        headers = [(b"content-type", self.answer.media_type.encode()), *self.answer.headers]
        gone = False
        try:
            async with anyio.create_task_group() as group:

                async def watch(scope: anyio.CancelScope) -> None:
                    nonlocal gone
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    gone = True
                    scope.cancel()

                group.start_soon(watch, group.cancel_scope)
                await send({"type": "http.response.start", "status": self.status, "headers": headers})
                await self._send_pieces(send)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self.lanes.run(Lane.STREAM, self.answer.close)
        if gone:
            raise ClientGone

    async def _send_pieces(self, send: Send) -> None:
        while True:
            piece = await self.lanes.run(Lane.STREAM, next, self.answer.pieces, b"")
            await send({"type": "http.response.body", "body": piece, "more_body": bool(piece)})
            if not piece:
                return


def take_place(lanes: Lanes, borrower: object) -> None:
    """Take one of the places for answers in pieces. Raises Busy when there is none."""
    try:
        lanes.streams.acquire_on_behalf_of_nowait(borrower)
    except anyio.WouldBlock:
        raise Busy("more answers are being sent than this service holds; try again") from None
