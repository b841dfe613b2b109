"""One tool call in this process, against a base URL: what the relay's own code does, without the pipes."""

from typing import Any

import anyio

from shomei_memory_mcp.answers import Answer
from shomei_memory_mcp.client import Service
from shomei_memory_mcp.settings import Settings
from shomei_memory_mcp.tools import TOOLS, Relay, call_tool
from tests.mcp.host import KEY

VALID: dict[str, dict[str, Any]] = {
    "add_memory": {"messages": "text"},
    "search_memory": {"query": "text"},
    "update_memory": {"memory_id": "lm_1", "data": "text"},
    "delete_memory": {"memory_id": "lm_1"},
    "forget_subject": {"user_id": "alice"},
    "restrict_memory": {"memory_id": "lm_1"},
    "get_receipt": {"memory_id": "lm_1"},
    "lineage_neighbors": {"memory_id": "lm_1"},
    "lineage_graph": {"memory_id": "lm_1"},
    "verify_receipt": {"receipt": {"schema": "x"}},
}
BY_NAME = {tool.name: tool for tool in TOOLS}
NAMES_AN_ID = [name for name, params in VALID.items() if "memory_id" in params]
WRITES = [tool.name for tool in TOOLS if not tool.reads]


def arguments(base_url: str, name: str, given: Any, **settings: Any) -> Answer:
    """Call a tool with these raw arguments."""

    async def run() -> Answer:
        chosen = Settings(**{"api_key": KEY, "base_url": base_url, **settings})
        service = None if chosen.api_key is None else Service(chosen, chosen.api_key)
        try:
            return await call_tool(Relay(chosen, service), BY_NAME[name], given)
        finally:
            if service is not None:
                await service.aclose()

    return anyio.run(run)


def call(base_url: str, name: str, params: dict[str, Any] | None = None, **settings: Any) -> Answer:
    """Call a tool with these params, or with valid ones."""
    return arguments(base_url, name, {"params": VALID[name] if params is None else params}, **settings)
