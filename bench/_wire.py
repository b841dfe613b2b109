"""Clients on raw sockets, so that little of the machine goes to asking; and what a service uses."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.service import Service

_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


class Client:
    """One kept connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader, self._writer, self._token = reader, writer, token

    async def ask(self, method: str, path: str, body: object = None, retry: str = "") -> tuple[int, bytes]:
        """Send one request and return status and body; raise EOFError or OSError when the service is gone."""
        data = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self._token}"]
        head += ["Content-Type: application/json", f"Content-Length: {len(data)}"] if data else []
        head += [f"Idempotency-Key: {retry}"] if retry else []
        self._writer.write("\r\n".join([*head, "", ""]).encode() + data)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.lower().startswith(b"content-length:"))
        return int(lines[0].split()[1]), await self._reader.readexactly(length)

    async def post(self, path: str, body: object) -> tuple[int, Any]:
        """Post JSON and return the status and what came back."""
        status, answer = await self.ask("POST", path, body)
        return status, json.loads(answer)


@asynccontextmanager
async def connected(service: Service, token: str) -> AsyncGenerator[Client, None]:
    """Yield a client."""
    port = int(service.url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        yield Client(reader, writer, token)
    finally:
        writer.close()


def children(pid: int) -> list[int]:
    """Return a process's children, oldest first."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_ms(service: Service) -> float:
    """Return the processor time that the service's processes have used, those that ended left out."""
    ticks = 0
    for pid in [service.process.pid, *children(service.process.pid)]:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    """Return what of a process is in memory and its own."""
    resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * _PAGE_KIB / 1024
