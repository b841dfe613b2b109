"""What the relay costs beside a bare server of the same SDK, npm's server-memory and direct HTTP.

    python bench/relay.py    writes bench/results/relay.json; status 1: a bar missed, 3: too busy to say

Starts and calls of all sides take turns in one run, and medians are compared: a busy machine slows all alike.
The service is a stand-in in a process of its own that answers at once: what is measured is the relay alone.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench._machine import LEAST_IDLE, described, idle_share

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "relay.json"
STARTS = 15
CALLS = 400
WARM_UP = 20

# The bars, for two cores and compiled modules.
BAR_START_RATIO = 1.10
BAR_MEMORY_MIB = 70.0
BAR_EXIT_MS = 50.0
BAR_CALL_MS = 3.0
BAR_LIST_BYTES = 10_240

BARE_SERVER = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import ListToolsResult, Tool

async def list_tools(context, params):
    return ListToolsResult(tools=[Tool(name="a", input_schema={"type": "object"})])

async def main():
    server = Server("bare", on_list_tools=list_tools)
    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options())

anyio.run(main)
"""
PEER = "@modelcontextprotocol/server-memory"
PEER_LOCK = ROOT / "tests" / "mcp" / "hosts" / "locks" / "server-memory"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
FOUND = {"results": [{"id": "lm_1", "memory": "text", "user_id": "alice", "score": 0.92}]}
QUESTION = {"query": "text", "limit": 10}


class Relay:
    """One server process and the pipes to it."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.started = time.perf_counter()
        # What a peer says on stderr when it starts is not for this screen.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._number = 0

    def request(self, method: str, params: dict[str, Any] | None = None) -> bytes:
        """Send one request and return the line that answers it."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params or {}})
        return cast(IO[bytes], self.process.stdout).readline()

    def open(self) -> bytes:
        """Shake hands and return the list of tools as it came."""
        self.request("initialize", HELLO)
        self._send({"method": "notifications/initialized"})
        return self.request("tools/list")

    def memory_mib(self) -> float:
        """Return the resident memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def end(self) -> float:
        """Close its stdin and return how many milliseconds its end took."""
        ended = time.perf_counter()
        cast(IO[bytes], self.process.stdin).close()
        self.process.wait(30)
        cast(IO[bytes], self.process.stdout).close()
        return (time.perf_counter() - ended) * 1e3

    def _send(self, message: dict[str, Any]) -> None:
        source = cast(IO[bytes], self.process.stdin)
        source.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        source.flush()


def peer() -> list[str] | None:
    """Install npm's server-memory from its lock, once; None where there is no Node or no way to it."""
    place = ROOT / ".cache" / "environments" / "hosts-server-memory"
    started = place / "node_modules" / PEER / "dist" / "index.js"
    if shutil.which("node") is None or shutil.which("npm") is None:
        return None
    if not started.exists():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(PEER_LOCK, place)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        if subprocess.run(npm, cwd=place, stdout=subprocess.DEVNULL).returncode != 0:
            return None
    return ["node", str(started)]


def starts(contenders: dict[str, list[str]], environment: dict[str, str]) -> dict[str, Any]:
    """Start all servers in turn, up to their list of tools."""
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    memory: dict[str, list[float]] = {name: [] for name in contenders}
    exits: dict[str, list[float]] = {name: [] for name in contenders}
    listed: dict[str, int] = {}
    for turn in range(STARTS + 1):
        for name, command in contenders.items():
            server = Relay(command, environment)
            listed[name] = len(server.open())
            elapsed = (time.perf_counter() - server.started) * 1e3
            resident, ended = server.memory_mib(), server.end()
            # The first turn compiles modules and fills the page cache.
            if turn:
                spent[name].append(elapsed)
                memory[name].append(resident)
                exits[name].append(ended)
    start = {name: statistics.median(each) for name, each in spent.items()}
    ended_ms = {name: statistics.median(each) for name, each in exits.items()}
    others = [name for name in contenders if name != "relay"]
    return {
        "start_ratio": verdict(start["relay"] / start["bare"], BAR_START_RATIO)
        | {f"{name}_ms": round(each, 1) for name, each in start.items()},
        "memory_when_listed_mib": verdict(max(memory["relay"]), BAR_MEMORY_MIB)
        | {name: round(max(memory[name]), 1) for name in others},
        "end_of_input_to_exit_ms": verdict(ended_ms["relay"], BAR_EXIT_MS)
        | {name: round(ended_ms[name], 1) for name in others},
        "tools_list_bytes": verdict(listed["relay"], BAR_LIST_BYTES)
        | {name: listed[name] for name in others},
    }


def calls(relay: list[str], environment: dict[str, str], port: int) -> dict[str, Any]:
    """Ask the same question through the relay and directly, in turn, the latter on a kept connection."""
    server = Relay(relay, environment)
    server.open()
    direct = http.client.HTTPConnection("127.0.0.1", port)
    direct.connect()
    through: list[float] = []
    without: list[float] = []
    used: list[float] = []
    given = {"name": "search_memory", "arguments": {"params": QUESTION}}
    for turn in range(CALLS + WARM_UP):
        started = time.perf_counter()
        answer = json.loads(server.request("tools/call", given))
        between = time.perf_counter()
        direct.request("POST", "/v1/search", json.dumps(QUESTION), {"Content-Type": "application/json"})
        same = json.loads(direct.getresponse().read())
        ended = time.perf_counter()
        if answer["result"]["structuredContent"] != same:
            raise SystemExit("the relay and the service disagree")
        if turn in (0, CALLS + WARM_UP - 1):
            used.append(server.memory_mib())
        if turn >= WARM_UP:
            through.append((between - started) * 1e3)
            without.append((ended - between) * 1e3)
    direct.close()
    server.end()
    relay_ms, direct_ms = statistics.median(through), statistics.median(without)
    return {
        "memory_after_first_call_mib": verdict(used[0], BAR_MEMORY_MIB),
        f"memory_after_{CALLS}_calls_mib": verdict(used[-1], BAR_MEMORY_MIB),
        "call_overhead_ms": verdict(relay_ms - direct_ms, BAR_CALL_MS)
        | {"relay_ms": round(relay_ms, 3), "direct_ms": round(direct_ms, 3)},
    }


def verdict(value: float, bar: float) -> dict[str, Any]:
    return {"value": round(value, 3), "bar": bar, "met": value <= bar}


async def stand_in() -> None:
    """Answer every request at once, on kept connections; print the port."""
    body = json.dumps(FOUND).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"

    async def converse(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while header := await source.readuntil(b"\r\n\r\n"):
            fields = dict(line.split(":", 1) for line in header.decode().split("\r\n")[1:-2])
            length = {name.lower(): value for name, value in fields.items()}.get("content-length", "0")
            await source.readexactly(int(length))
            sink.write(head.encode() + body)
            await sink.drain()

    def quiet(_: asyncio.AbstractEventLoop, __: dict[str, Any]) -> None:
        """Say nothing about connections that were closed."""

    asyncio.get_running_loop().set_exception_handler(quiet)
    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def measured(folder: Path, port: int) -> dict[str, Any]:
    """Return every figure of one run."""
    relay = [sys.executable, "-m", "shomei_memory_mcp.server"]
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"SHOMEI_MCP_API_KEY": "shm_bench", "SHOMEI_MCP_BASE_URL": f"http://127.0.0.1:{port}"}
    environment["MEMORY_FILE_PATH"] = str(folder / "memory.jsonl")
    bare = folder / "bare.py"
    bare.write_text(BARE_SERVER)
    other = peer()
    contenders = {"bare": [sys.executable, str(bare)], "relay": relay}
    figures = starts(contenders | ({"server_memory": other} if other else {}), environment)
    return figures | calls(relay, environment, port) | {"beside": PEER if other else "no Node here"}


def main() -> int:
    """Measure, print each figure beside its bar, and write the result."""
    idle = idle_share()
    service = subprocess.Popen([sys.executable, __file__, "--stand-in"], stdout=subprocess.PIPE)
    try:
        with tempfile.TemporaryDirectory() as folder:
            figures = measured(Path(folder), int(cast(IO[bytes], service.stdout).readline()))
    finally:
        service.kill()
        service.wait()
        cast(IO[bytes], service.stdout).close()
    met = all(each["met"] for each in figures.values() if isinstance(each, dict))
    busy = idle < LEAST_IDLE
    result = {"idle": round(idle, 2), "machine": described()} | figures
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result | {"met": None if busy else met}, indent=2) + "\n")
    for name, figure in figures.items():
        print(f"{name:<28}{json.dumps(figure)}")
    print(f"idle before: {idle:.0%}; all bars met: {met}")
    if busy:
        print("the machine is too busy for a verdict")
        return 3
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--stand-in"]:
        asyncio.run(stand_in())
    else:
        sys.exit(main())
