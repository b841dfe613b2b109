"""The main job through the SDK's own client over real stdio, in both protocol generations."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.mcp.host import RELAY, environment
from tests.mcp.stub import ADDED, Exchange, Stub

GOLDEN = Path(__file__).parents[1] / "vectors" / "upstream_golden_receipt.json"
FOUND = {"results": [{"id": "lm_1", "memory": "text", "user_id": "alice", "score": 0.92}]}
DELETED = {"message": "memory deleted (governed crypto-erasure)", "deleted": True, "retirement_hashes": []}
STATUS = {"valid": None, "reason": "not_found"}


def play(exchange: Exchange) -> None:
    answers = {"POST /v1/memories": ADDED, "POST /v1/search": FOUND, "DELETE /v1/memories/lm_1": DELETED}
    asked = f"{exchange.request.method} {exchange.request.target}"
    exchange.answer(200, answers.get(asked, STATUS))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_main_job(mode: str) -> None:
    receipt = json.loads(GOLDEN.read_text())

    async def scenario(url: str) -> dict[str, Any]:
        relay = StdioServerParameters(command=RELAY[0], args=RELAY[1:], env=environment(url))
        async with Client(stdio_client(relay), mode=mode) as client:
            calls = {
                "add_memory": {"messages": " text ", "user_id": "alice"},
                "search_memory": {"query": "text", "limit": 5},
                "delete_memory": {"memory_id": "lm_1"},
                "get_receipt": {"memory_id": "lm_1"},
                "verify_receipt": {"receipt": receipt},
            }
            tools = [tool.name for tool in (await client.list_tools()).tools]
            results = {
                name: await client.call_tool(name, {"params": params}) for name, params in calls.items()
            }
            return {"tools": tools} | dict(results.items())

    with Stub(play) as stub:
        seen = anyio.run(scenario, stub.url)
    assert len(seen.pop("tools")) == 10
    answers = {name: result.structured_content for name, result in seen.items()}
    assert answers == {
        "add_memory": ADDED,
        "search_memory": FOUND,
        "delete_memory": DELETED,
        "get_receipt": STATUS,
        "verify_receipt": {
            "valid": True,
            "authenticated": False,
            "reason": "ok_unpinned",
            "public_key_hex": receipt["public_key_hex"],
            "schema": receipt["schema"],
        },
    }
    assert all(json.loads(result.content[0].text) == result.structured_content for result in seen.values())
    assert stub.targets == [
        "POST /v1/memories",
        "POST /v1/search",
        "DELETE /v1/memories/lm_1",
        "GET /v1/memories/lm_1/verify",
    ]
    assert stub.requests[0].json() == {"messages": "text", "user_id": "alice", "semantic_type": "GENERIC"}
