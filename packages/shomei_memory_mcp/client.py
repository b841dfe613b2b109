"""The HTTP client: one request per tool call, one answer or one failure in fixed words, no exception text.

httpx is imported when the first call needs it, so that a host sees the tools sooner.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from uuid import uuid4

import anyio

from shomei_memory_mcp import network, screen
from shomei_memory_mcp.inputs import JsonObject
from shomei_memory_mcp.refusals import ToolFailure, Withheld
from shomei_memory_mcp.settings import Settings

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 32 * 1024 * 1024  # a forget of some 20,000 memories with every receipt
MAX_REFUSAL_BYTES = 65_536
MAX_DETAIL_CHARACTERS = 200  # the published cap on relayed error text

MAY_BE_APPLIED = "The operation may have been applied."
_HINTS = {
    401: "the service does not accept SHOMEI_MCP_API_KEY",
    403: "this action requires an admin-scoped key",
    404: "no such memory, or already erased",
    409: "not possible in the memory's current state",
    413: "too large",
    422: "the service refused the input",
    423: "a legal hold forbids this",
    429: "too many requests; wait, then try again",
    501: "this deployment does not support it",
    503: "the service cannot do this now; try again later",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# The contract's details are fixed sentences. Markup, stack traces and paths mean something else is talking.
_FOREIGN = re.compile(r"[<>]|Traceback|File \"|[A-Za-z]:\\|(?<![\w/])/(?!v1/)[\w.-]+/")


class Kind(StrEnum):
    """What kept a call from having an answer."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    BAD_ANSWER = "bad answer"
    OUTCOME_UNKNOWN = "outcome unknown"


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request to the service."""

    method: str
    path: str
    body: JsonObject | None = None
    query: Mapping[str, str | int] | None = None
    writes: bool = False
    kept: frozenset[int] = frozenset()
    """Refusals whose JSON is the answer itself."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The service's JSON answer; `refused` when it came with one of the call's kept statuses."""

    answer: JsonObject
    refused: bool = False


class Service:
    """The governed service behind its base URL."""

    def __init__(self, settings: Settings, key: str, *, opener: network.Opener | None = None) -> None:
        self.key = key
        self._settings = settings
        self._open = opener or network.open_client
        self._client: httpx.AsyncClient | None = None

    async def ask(self, call: Call) -> Reply:
        """Send one call and return its JSON answer; raise ToolFailure when there is none to relay."""
        import httpx

        self._client = self._client or self._open(self._settings, self.key)
        # One key for both attempts: the service applies the operation once even if the first did arrive.
        request = self._request(self._client, call)
        sending = request.extensions["trace"] = network.Sending()
        try:
            with anyio.fail_after(self._settings.timeout_s):
                return await self._attempt(self._client, call, request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            raise ToolFailure(_not_sent(network.connect_reason(error))) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ToolFailure(_lost(call, late=isinstance(error, httpx.TimeoutException))) from None
        except TimeoutError:
            text = _lost(call, late=True) if sending.started else _not_sent(network.NO_CONNECTION)
            raise ToolFailure(text) from None

    async def aclose(self) -> None:
        """Close the connections, if any were opened."""
        if self._client is not None:
            await self._client.aclose()

    def _request(self, client: "httpx.AsyncClient", call: Call) -> "httpx.Request":
        url = self._settings.base_url + call.path + (f"?{urlencode(call.query)}" if call.query else "")
        headers = {"Idempotency-Key": uuid4().hex} if call.writes else {}
        if call.body is None:
            return client.build_request(call.method, url, headers=headers)
        content = json.dumps(call.body, ensure_ascii=False, separators=(",", ":")).encode()
        return client.build_request(
            call.method, url, content=content, headers=headers | {"Content-Type": "application/json"}
        )

    async def _attempt(self, client: "httpx.AsyncClient", call: Call, request: "httpx.Request") -> Reply:
        response = await network.send(client, request)
        try:
            return await self._read(call, response)
        finally:
            await response.aclose()

    async def _read(self, call: Call, response: "httpx.Response") -> Reply:
        status = response.status_code
        if 200 <= status < 300:
            return Reply(await _answer(call, response))
        if status in call.kept and _is_json(response):
            refusal = await _answer(call, response)
            detail = {"detail": _fixed(refusal["detail"], self.key)} if "detail" in refusal else {}
            return Reply(refusal | detail, refused=True)
        if status not in _HINTS:
            followed = "a redirect, which is never followed"
            what = followed if 300 <= status < 400 else "not an answer of the service"
            raise ToolFailure(_bad(call, f"HTTP {status}, {what}"))
        detail = _detail(await _content(response, MAX_REFUSAL_BYTES), self.key)
        hint = "" if status == 403 and detail else _HINTS[status]
        raise ToolFailure(f"{Kind.REFUSED} ({status}): {'. '.join(filter(None, (hint, detail)))}")


async def _answer(call: Call, response: "httpx.Response") -> JsonObject:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ToolFailure(_bad(call, "a compressed body, which was not asked for"))
    if not _is_json(response):
        raise ToolFailure(_bad(call, "a body that is not JSON"))
    content = await _content(response, MAX_ANSWER_BYTES)
    if content is None and call.writes and response.is_success:
        return {"applied": True, "answer_omitted": "larger than 32 MiB"}
    if content is None:
        raise ToolFailure(_bad(call, "a body larger than 32 MiB"))
    try:
        return screen.parse(content)
    except Withheld as withheld:
        raise ToolFailure(_bad(call, f"a body that is withheld: {withheld}")) from None


def _is_json(response: "httpx.Response") -> bool:
    return response.headers.get("Content-Type", "").split(";")[0].strip().lower() == "application/json"


async def _content(response: "httpx.Response", cap: int) -> bytes | None:
    # Raw on purpose: decoding is where a small body becomes a large one.
    parts = bytearray()
    async for part in response.aiter_raw():
        parts += part
        if len(parts) > cap:
            return None
    return bytes(parts)


def _detail(content: bytes | None, key: str) -> str:
    try:
        return _fixed(screen.parse(content or b"").get("detail"), key)
    except Withheld:
        return ""


def _fixed(detail: object, key: str) -> str:
    if not isinstance(detail, str):
        return ""
    plain = screen.without(key, _CONTROL.sub(" ", detail)).encode("utf-8", "replace").decode()
    return "" if _FOREIGN.search(plain) else plain.strip()[:MAX_DETAIL_CHARACTERS]


def _not_sent(reason: str) -> str:
    return f"{Kind.UNREACHABLE}: {reason}; nothing was sent."


def _lost(call: Call, *, late: bool) -> str:
    how = "no answer in time" if late else "the connection broke before the answer"
    if call.writes:
        return f"{Kind.OUTCOME_UNKNOWN}: {how}. {MAY_BE_APPLIED} Check before trying again."
    return f"{Kind.UNREACHABLE}: {how}."


def _bad(call: Call, what: str) -> str:
    return f"{Kind.BAD_ANSWER}: {what}." + (f" {MAY_BE_APPLIED}" if call.writes else "")
