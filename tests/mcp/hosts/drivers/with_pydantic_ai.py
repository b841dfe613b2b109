"""pydantic-ai's toolset, called as its agents call it."""

from fastmcp.client.transports import StdioTransport
from job import COMMAND, SETTINGS, Answer, main_job, run
from pydantic_ai.mcp import MCPToolset


async def work() -> Answer:
    async with MCPToolset(StdioTransport(command=COMMAND, args=[], env=SETTINGS)) as toolset:

        async def call(name: str, params: Answer) -> Answer:
            return await toolset.direct_call_tool(name, {"params": params})

        return await main_job([tool.name for tool in await toolset.list_tools()], call)


run(work(), "pydantic-ai-slim", "mcp")
