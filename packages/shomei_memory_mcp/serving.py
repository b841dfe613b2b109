"""The ten tools as the SDK serves them: one registration, the same list whatever the configuration."""

import importlib.util
import logging
import sys
from importlib.metadata import version
from types import ModuleType
from typing import Any, cast

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as PublishedTool

from shomei_memory_mcp.answers import Answer
from shomei_memory_mcp.client import Service
from shomei_memory_mcp.hosts import SERVER_NAME
from shomei_memory_mcp.settings import Settings
from shomei_memory_mcp.tools import INSTRUCTIONS, TOOLS, Relay, Tool, call_tool
from shomei_memory_mcp.transport import serve
from shomei_memory_mcp.wire import Wire

if importlib.util.find_spec("httpx") is None:
    # Found out here and not at the first call: half an installation must not look like a whole one.
    raise ImportError("httpx")


def run(settings: Settings, wire: Wire) -> None:
    """Serve over the wire until its end of input."""
    # Log records of the SDK and httpx carry lines, URLs and headers; with no handler they would go to stderr.
    logging.getLogger().addHandler(logging.NullHandler())
    _spare_what_is_never_run()
    service = None if settings.api_key is None else Service(settings, settings.api_key)
    anyio.run(serve, build(Relay(settings, service)), wire)


def build(relay: Relay) -> Server[Any]:
    """Return the server that answers for this relay."""
    published = ListToolsResult(tools=[publish(tool) for tool in TOOLS])
    by_name = {tool.name: tool for tool in TOOLS}

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return published

    async def run_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message="Unknown tool")
        return _result(await call_tool(relay, tool, params.arguments))

    server: Server[Any] = Server(
        SERVER_NAME,
        version=version("shomei-governed-memory"),
        title="Shomei governed memory",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=run_tool,
    )
    # The SDK's tracing is on by default; a relay of personal data keeps no traces.
    server.middleware.clear()
    return server


def publish(tool: Tool) -> PublishedTool:
    """Return one tool as `tools/list` shows it."""
    return PublishedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.params.published(),
        annotations=ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=tool.destroys,
            idempotent_hint=tool.repeatable,
            open_world_hint=not tool.local,
        ),
    )


def _spare_what_is_never_run() -> None:
    # httpx brings its own command line, and that, where they are installed, rich and pygments: 3 MiB.
    # httpcore looks for sniffio four times a call; an absent module is searched for all over again each time.
    for name in ("httpx._main", "sniffio"):
        sys.modules.setdefault(name, cast(ModuleType, None))


def _result(answer: Answer) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=answer.text)],
        structured_content=answer.structured,
        is_error=answer.is_error,
    )
