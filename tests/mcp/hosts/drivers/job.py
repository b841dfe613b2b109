"""The main job, as every host must be able to do it. Standard library only: it runs where they run."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Coroutine
from importlib.metadata import version
from typing import Any

WORD = os.environ["SHOMEI_JOB_WORD"]
PIN = os.environ["SHOMEI_JOB_PIN"]
COMMAND = "shomei-memory-mcp"
SETTINGS = {name: os.environ[name] for name in ("SHOMEI_MCP_API_KEY", "SHOMEI_MCP_BASE_URL")}

Answer = dict[str, Any]
Call = Callable[[str, Answer], Awaitable[Answer]]


async def main_job(tools: list[str], call: Call) -> Answer:
    """Add, search, verify, delete and search again; return what the host was shown."""
    added = await call("add_memory", {"messages": f"the {WORD} lamp", "user_id": "alice"})
    result = added["results"][0]
    found = await call("search_memory", {"query": WORD, "user_id": "alice", "limit": 5})
    verdict = await call(
        "verify_receipt", {"receipt": result["signed_receipt"], "expected_public_key_hex": PIN}
    )
    deleted = await call("delete_memory", {"memory_id": result["id"]})
    after = await call("search_memory", {"query": WORD, "user_id": "alice", "limit": 5})
    return {
        "tools": tools,
        "added": added,
        "found": found,
        "verdict": verdict,
        "deleted": deleted,
        "found_after": after,
    }


def run(work: Coroutine[Any, Any, Answer], *distributions: str) -> None:
    """Do the work and print what was seen, with the versions of what saw it."""
    seen = asyncio.run(work)
    print(json.dumps({"versions": {name: version(name) for name in distributions}} | seen))
