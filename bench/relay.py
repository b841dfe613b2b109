"""What the relay costs, beside a bare server of the same SDK and beside direct HTTP, in the same run.

    python bench/relay.py             writes bench/results/relay.json, exit status 1 if a bar is missed

Starts and calls of both sides take turns, and medians are compared, so that a busy machine slows both alike.
The service is a stand-in in a process of its own that answers at once: what is measured is the relay alone.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any, cast

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
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
FOUND = {"results": [{"id": "lm_1", "memory": "text", "user_id": "alice", "score": 0.92}]}
QUESTION = {"query": "text", "limit": 10}


class Relay:
    """One server process and the pipes to it."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
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


def starts(relay: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Start both servers in turn, up to their list of tools."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE_SERVER)
        spent: dict[str, list[float]] = {"bare": [], "relay": []}
        memory: dict[str, list[float]] = {"bare": [], "relay": []}
        exits: dict[str, list[float]] = {"bare": [], "relay": []}
        listed = b""
        for turn in range(STARTS + 1):
            for name, command in (("bare", [sys.executable, str(bare)]), ("relay", relay)):
                server = Relay(command, environment)
                listed = server.open()
                elapsed = (time.perf_counter() - server.started) * 1e3
                resident, ended = server.memory_mib(), server.end()
                # The first turn compiles modules and fills the page cache.
                if turn:
                    spent[name].append(elapsed)
                    memory[name].append(resident)
                    exits[name].append(ended)
    bare_ms, relay_ms = statistics.median(spent["bare"]), statistics.median(spent["relay"])
    return {
        "start": {
            "bare_ms": round(bare_ms, 1),
            "relay_ms": round(relay_ms, 1),
            "ratio": round(relay_ms / bare_ms, 3),
            "bar": BAR_START_RATIO,
            "met": relay_ms / bare_ms <= BAR_START_RATIO,
        },
        "memory_mib": verdict(max(memory["relay"]), BAR_MEMORY_MIB) | {"bare": round(max(memory["bare"]), 1)},
        "end_of_input_to_exit_ms": verdict(statistics.median(exits["relay"]), BAR_EXIT_MS)
        | {"bare": round(statistics.median(exits["bare"]), 1)},
        "tools_list_bytes": verdict(len(listed), BAR_LIST_BYTES),
    }


def calls(relay: list[str], environment: dict[str, str], port: int) -> dict[str, Any]:
    """Ask the same question through the relay and directly, in turn, each on a kept connection."""
    server = Relay(relay, environment)
    server.open()
    direct = http.client.HTTPConnection("127.0.0.1", port)
    direct.connect()
    through: list[float] = []
    without: list[float] = []
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
        if turn >= WARM_UP:
            through.append((between - started) * 1e3)
            without.append((ended - between) * 1e3)
    used = server.memory_mib()
    direct.close()
    server.end()
    relay_ms, direct_ms = statistics.median(through), statistics.median(without)
    return {
        "call_overhead_ms": verdict(relay_ms - direct_ms, BAR_CALL_MS)
        | {"relay_ms": round(relay_ms, 3), "direct_ms": round(direct_ms, 3)},
        "memory_after_calls_mib": round(used, 1),
    }


def verdict(value: float, bar: float) -> dict[str, Any]:
    return {"value": round(value, 3), "bar": bar, "met": value <= bar}


def idle_share() -> float:
    """Return the share of processor time nobody used during a short look."""

    def ticks() -> tuple[int, int]:
        numbers = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return numbers[3] + numbers[4], sum(numbers)

    before = ticks()
    time.sleep(0.5)
    after = ticks()
    return round((after[0] - before[0]) / max(1, after[1] - before[1]), 2)


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


def main() -> int:
    idle = idle_share()
    relay = [sys.executable, "-m", "shomei_memory_mcp.server"]
    service = subprocess.Popen([sys.executable, __file__, "--stand-in"], stdout=subprocess.PIPE)
    try:
        port = int(cast(IO[bytes], service.stdout).readline())
        environment = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"SHOMEI_MCP_API_KEY": "shm_bench", "SHOMEI_MCP_BASE_URL": f"http://127.0.0.1:{port}"}
        figures = starts(relay, environment) | calls(relay, environment, port)
    finally:
        service.kill()
        service.wait()
        cast(IO[bytes], service.stdout).close()
    met = all(each["met"] for each in figures.values() if isinstance(each, dict))
    about = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    result = about | {"idle_share_before": idle} | figures | {"met": met}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    for name, figure in figures.items():
        sys.stdout.write(f"{name:<24}{json.dumps(figure)}\n")
    sys.stdout.write(f"idle before the run: {idle}; all bars met: {met}\n")
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--stand-in"]:
        asyncio.run(stand_in())
    else:
        sys.exit(main())
