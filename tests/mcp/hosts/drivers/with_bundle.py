"""The .mcpb bundle, unpacked and started as its manifest says, with what its user would have filled in."""

import json
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from job import SETTINGS, Answer, main_job, run
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

FILLED_IN = {
    "${user_config.api_key}": SETTINGS["SHOMEI_MCP_API_KEY"],
    "${user_config.base_url}": SETTINGS["SHOMEI_MCP_BASE_URL"],
    "${user_config.read_only}": "false",
}


def server(folder: str) -> StdioServerParameters:
    """Read the manifest as a host does; where uv is missing, this environment holds the same pins."""
    started = json.loads((Path(folder) / "manifest.json").read_text())["server"]
    config = started["mcp_config"]
    settings = {name: FILLED_IN[value] for name, value in config["env"].items()}
    arguments = [word.replace("${__dirname}", folder) for word in config["args"]]
    if shutil.which(config["command"]):
        # uv keeps its downloads where the user's home says.
        more = {name: os.environ[name] for name in ("HOME", "SSL_CERT_FILE") if name in os.environ}
        return StdioServerParameters(command=config["command"], args=arguments, env=settings | more)
    return StdioServerParameters(
        command=sys.executable, args=[str(Path(folder) / started["entry_point"])], env=settings
    )


async def work() -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(os.environ["SHOMEI_JOB_BUNDLE"]).extractall(folder)
        started = server(folder)
        async with Client(stdio_client(started)) as client:

            async def call(name: str, params: Answer) -> Answer:
                return (await client.call_tool(name, {"params": params})).structured_content

            tools = [tool.name for tool in (await client.list_tools()).tools]
            return await main_job(tools, call) | {"started_by": Path(started.command).name}


run(work(), "mcp")
