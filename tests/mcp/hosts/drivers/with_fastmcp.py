"""fastmcp's client, over the configuration that other hosts take too."""

from fastmcp import Client
from job import COMMAND, SETTINGS, Answer, main_job, run


async def work() -> Answer:
    async with Client({"mcpServers": {"shomei-memory": {"command": COMMAND, "env": SETTINGS}}}) as client:

        async def call(name: str, params: Answer) -> Answer:
            return (await client.call_tool(name, {"params": params})).structured_content

        return await main_job([tool.name for tool in await client.list_tools()], call)


run(work(), "fastmcp", "mcp")
