"""Between the wire and the SDK's streams: lines become messages, messages become lines, and nothing hangs.

The SDK's own stdio loop says nothing to bad JSON, stops at a lone surrogate and drops calls at end of input.
"""

import json
import re
import sys
from contextlib import suppress
from typing import Any, Final, NoReturn, cast

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from shomei_memory_mcp import wire as edges
from shomei_memory_mcp.wire import Wire

GRACE_S: Final = 1.0  # after end of input, so that `printf ... | shomei-memory-mcp` gets its answers
LAST_CALL_S: Final = 1.5  # after end of input the process is gone by then, whatever hangs
SETTLE_STEP_S: Final = 0.005

_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Possessive, and an unended string runs to the end: no line makes this look twice at a byte.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.?)*+"?|[\[\]{}]')
_OUTER_ID = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.){0,128}"|-?[0-9]{1,18})\s*[,}]')
# Many readers split lines on these too; escaped, they are the same JSON.
_SEPARATORS = (("\u2028", "\\u2028"), ("\u2029", "\\u2029"), ("\x85", "\\u0085"))


async def serve(server: Server[Any], wire: Wire) -> None:
    """Serve one connection over the wire until its end of input; quick calls in flight are still answered."""
    inbound_in, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbound, outbound_out = anyio.create_memory_object_stream[SessionMessage](0)
    pending: set[RequestId] = set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, wire, inbound_in, outbound.clone(), pending)
        tasks.start_soon(_send, wire, outbound_out, pending)
        await server.run(inbound, outbound, server.create_initialization_options())


def decode(line: bytes | None) -> SessionMessage | JSONRPCError | None:
    """Read one line: a message, the error that answers it without repeating it, or None for a blank one."""
    if line is None:
        return _refusal(None, INVALID_REQUEST, f"Message longer than {edges.MAX_LINE_BYTES} bytes")
    text = line.removeprefix(_BOM).strip(b" \t\r")
    if not text:
        return None
    try:
        value = cast(object, json.loads(text.decode("utf-8"), parse_constant=_no_constant))
    except RecursionError:
        return _refusal(_outer_id(text), INVALID_REQUEST, "Message nested too deeply")
    except ValueError:
        return _refusal(None, PARSE_ERROR, "Parse error")
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return _refusal(_request_id(value), INVALID_REQUEST, "Invalid Request")
    if isinstance(message, JSONRPCNotification) and "id" in cast(dict[str, object], value):
        # An id of null, true or 1.5 makes no notification of a request: its sender waits.
        return _refusal(None, INVALID_REQUEST, "Invalid Request")
    return SessionMessage(message)


def encode(message: JSONRPCMessage) -> bytes:
    """Return the message as one line of UTF-8 that every reader takes for one line."""
    value = message.model_dump(by_alias=True, exclude_unset=True)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for raw, escaped in _SEPARATORS:
        text = text.replace(raw, escaped)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode() + b"\n"


async def _receive(
    wire: Wire,
    inbound: MemoryObjectSendStream[SessionMessage | Exception],
    outbound: MemoryObjectSendStream[SessionMessage],
    pending: set[RequestId],
) -> None:
    async def take(lines: list[bytes | None]) -> None:
        for found in map(decode, lines):
            if isinstance(found, JSONRPCError):
                await outbound.send(SessionMessage(found))
            elif found is not None:
                _note(found.message, pending)
                await inbound.send(found)

    lines = edges.Lines()
    async with inbound, outbound:
        while chunk := await _chunk(wire):
            await take(lines.feed(chunk))
        edges.leave_after(LAST_CALL_S)
        await take(lines.last())
        with anyio.move_on_after(GRACE_S):
            while pending:
                await anyio.sleep(SETTLE_STEP_S)


async def _chunk(wire: Wire) -> bytes:
    if sys.platform == "win32":
        return await anyio.to_thread.run_sync(edges.read, wire, abandon_on_cancel=True)
    # A regular file cannot be waited for, and never blocks.
    with suppress(OSError):
        await anyio.wait_readable(wire.source)
    return edges.read(wire)


async def _send(
    wire: Wire, outbound: MemoryObjectReceiveStream[SessionMessage], pending: set[RequestId]
) -> None:
    async with outbound:
        async for sent in outbound:
            line = encode(sent.message)
            if edges.takes_at_once(wire, len(line)):
                edges.write(wire, line)
            else:
                # In a thread: a host that does not read must not stop the loop from hearing that it has left.
                await anyio.to_thread.run_sync(edges.write, wire, line, abandon_on_cancel=True)
            if isinstance(sent.message, JSONRPCResponse | JSONRPCError) and sent.message.id is not None:
                pending.discard(sent.message.id)


def _note(message: JSONRPCMessage, pending: set[RequestId]) -> None:
    if isinstance(message, JSONRPCRequest):
        pending.add(message.id)
    elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        # A cancelled call is never answered. What a host calls an id may be anything, a list too.
        cancelled = cast(object, (message.params or {}).get("requestId"))
        if isinstance(cancelled, str | int):
            pending.discard(cancelled)


def _refusal(id_: RequestId | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id_, error=ErrorData(code=code, message=message))


def _request_id(value: object) -> RequestId | None:
    # A malformed response must not be answered under its id: that number is ours.
    request = cast(dict[str, object], value) if isinstance(value, dict) and "method" in value else {}
    found = request.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _outer_id(text: bytes) -> RequestId | None:
    """Find the id of a message that is too deep to parse, so that its sender is not left waiting."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in (b"[", b"{"):
            depth += 1
        elif token[0] in (b"]", b"}"):
            depth -= 1
        elif depth == 1 and token[0] == b'"id"' and (found := _OUTER_ID.match(text, token.end())):
            return cast(RequestId, json.loads(found[1]))
    return None


def _no_constant(_: str) -> NoReturn:
    # RFC 8259 §6: NaN and Infinity are not JSON.
    raise ValueError
