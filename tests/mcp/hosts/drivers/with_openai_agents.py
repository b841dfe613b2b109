"""openai-agents' server over stdio."""

import json

from agents.mcp import MCPServerStdio
from job import COMMAND, SETTINGS, Answer, main_job, run


async def work() -> Answer:
    async with MCPServerStdio({"command": COMMAND, "env": SETTINGS}, name="shomei-memory") as server:

        async def call(name: str, params: Answer) -> Answer:
            return json.loads((await server.call_tool(name, {"params": params})).content[0].text)

        return await main_job([tool.name for tool in await server.list_tools()], call)


run(work(), "openai-agents", "mcp")
