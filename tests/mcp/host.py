"""An MCP host as small as it can be: real pipes, bytes split on 0x0A only, everything the relay says kept."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

KEY = "shm_0123456789abcdef_" + "Kq7" * 14 + "Z"
RELAY = [sys.executable, "-m", "shomei_memory_mcp.server"]
PATIENCE_S = 60.0  # what a busy machine may need; nothing waits that long when all is well


def environment(base_url: str | None = None, **extra: str) -> dict[str, str]:
    """A host's environment: little in it, the key, the base URL."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    given = {"SHOMEI_MCP_API_KEY": KEY} | ({"SHOMEI_MCP_BASE_URL": base_url} if base_url else {})
    return kept | given | extra


def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.01)


class Host:
    """One relay process and the conversation with it."""

    def __init__(
        self, env: dict[str, str], *, command: list[str] | None = None, cwd: Path | None = None
    ) -> None:
        self.process = subprocess.Popen(
            command or RELAY,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: list[bytes] = []
        self.stderr = b""
        self._arrived: queue.Queue[bytes | None] = queue.Queue()
        self._answers: dict[object, dict[str, Any]] = {}
        self._next_id = 0
        self._threads = [
            threading.Thread(target=self._read_stdout),
            threading.Thread(target=self._read_stderr),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def send(self, message: dict[str, Any] | bytes) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> object:
        """Send a request and return its id without waiting."""
        self._next_id += 1
        self.send(
            {"jsonrpc": "2.0", "id": self._next_id, "method": method} | ({"params": params} if params else {})
        )
        return self._next_id

    def answer(self, id_: object) -> dict[str, Any]:
        """Wait for the answer to one id."""
        deadline = time.monotonic() + PATIENCE_S
        while id_ not in self._answers:
            line = self._arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            assert line is not None, f"the relay ended before it answered {id_}: {self.stderr!r}"
            message = json.loads(line)
            assert message.get("id") not in self._answers, "one id was answered twice"
            self._answers[
                message.get("id") if message.get("id") is not None else f"null-{len(self.lines)}"
            ] = message
        return self._answers[id_]

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.answer(self.ask(method, params))

    def initialize(self, version: str = "2025-11-25") -> dict[str, Any]:
        hello = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "host", "version": "1"},
        }
        answer = self.request("initialize", hello)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def call(self, name: str, **params: Any) -> dict[str, Any]:
        """Call a tool and return its result."""
        return self.arguments(name, {"params": params})

    def arguments(self, name: str, arguments: Any) -> dict[str, Any]:
        return self.request("tools/call", {"name": name, "arguments": arguments})["result"]

    def end(self) -> int:
        """Close stdin, wait for the exit and return its code."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def silent(self) -> bool:
        """Tell whether nobody holds the relay's stdout any more."""
        return not self._threads[0].is_alive()

    def said(self) -> bytes:
        """Everything the relay wrote anywhere."""
        return b"\n".join(self.lines) + self.stderr

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        rest = b""
        while chunk := os.read(self.process.stdout.fileno(), 65_536):
            *ended, rest = (rest + chunk).split(b"\n")
            for line in ended:
                self.lines.append(line)
                self._arrived.put(line)
        if rest:
            self.lines.append(rest)
        self._arrived.put(None)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := os.read(self.process.stderr.fileno(), 65_536):
            self.stderr += chunk
