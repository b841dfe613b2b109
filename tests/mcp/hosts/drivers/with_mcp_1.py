"""The SDK's client of the first generation, 1.x."""

import json

from job import COMMAND, SETTINGS, Answer, main_job, run
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def work() -> Answer:
    relay = StdioServerParameters(command=COMMAND, env=SETTINGS)
    async with stdio_client(relay) as streams, ClientSession(*streams) as session:
        hello = await session.initialize()

        async def call(name: str, params: Answer) -> Answer:
            return json.loads((await session.call_tool(name, {"params": params})).content[0].text)

        tools = [tool.name for tool in (await session.list_tools()).tools]
        return await main_job(tools, call) | {"protocol": hello.protocolVersion}


run(work(), "mcp")
