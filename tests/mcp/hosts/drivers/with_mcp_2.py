"""The SDK's own client, 2.x; the mode chooses the protocol generation."""

import os

from job import COMMAND, SETTINGS, Answer, main_job, run
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def work() -> Answer:
    relay = StdioServerParameters(command=COMMAND, env=SETTINGS)
    async with Client(stdio_client(relay), mode=os.environ["SHOMEI_JOB_MODE"]) as client:

        async def call(name: str, params: Answer) -> Answer:
            return (await client.call_tool(name, {"params": params})).structured_content

        tools = [tool.name for tool in (await client.list_tools()).tools]
        return await main_job(tools, call) | {"protocol": client.protocol_version}


run(work(), "mcp")
