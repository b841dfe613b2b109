"""langchain-mcp-adapters: the tools as LangChain sees them."""

import json

from job import COMMAND, SETTINGS, Answer, main_job, run
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools


async def work() -> Answer:
    relay = {"transport": "stdio", "command": COMMAND, "args": [], "env": SETTINGS}
    async with MultiServerMCPClient({"shomei-memory": relay}).session("shomei-memory") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(name: str, params: Answer) -> Answer:
            shown = await tools[name].ainvoke({"params": params})
            return json.loads(shown if isinstance(shown, str) else shown[0]["text"])

        return await main_job(list(tools), call)


run(work(), "langchain-mcp-adapters", "mcp")
