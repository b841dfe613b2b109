"""A headless Chromium, driven over its DevTools pipe with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Self, cast

MISSING = "must: Debian's Chromium is not installed"
_NAMES = ("/usr/bin/chromium", "chromium")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)

_PATIENCE = 120  # seconds; a page that never does what a test waits for must fail, not hang

# The browser reads commands on 3 and answers on 4; a zero byte ends each message.
_COMMANDS, _ANSWERS = 3, 4


def find() -> str | None:
    """Return the path of Chromium, if there is one."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Chromium:
    """One browser with one tab and a profile of its own; close it, or use it as a context."""

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        ends = f'exec "$0" "$@" {_COMMANDS}<&{commands} {_ANSWERS}>&{answers}'
        self._browser = subprocess.Popen(
            ["/bin/bash", "-c", ends, program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._last = 0
        self._session = ""
        self.events: list[dict[str, object]] = []
        targets = cast("list[dict[str, str]]", self.call("Target.getTargets")["targetInfos"])
        tab = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = str(self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and wait for it."""
        os.close(self._commands)
        try:
            self._browser.wait(5)
        except subprocess.TimeoutExpired:
            self._browser.kill()
            self._browser.wait()
        os.close(self._answers)

    def call(self, method: str, **params: object) -> dict[str, object]:
        """Return the result of one DevTools command; fail on a refused one."""
        self._last += 1
        message: dict[str, object] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        left = memoryview(json.dumps(message).encode() + b"\0")
        while left:
            left = left[os.write(self._commands, left) :]
        while (answer := self._receive()).get("id") != self._last:
            self.events.append(answer)
        assert "error" not in answer, answer["error"]
        return cast("dict[str, object]", answer["result"])

    def wait_for(self, method: str) -> dict[str, object]:
        """Return the next event of that name, or one that has come since the last command for it."""
        for event in self.events:
            if event.get("method") == method:
                self.events.remove(event)
                return event
        while (event := self._receive()).get("method") != method:
            self.events.append(event)
        return event

    def open(self, url: str) -> None:
        """Load a page and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def run(self, expression: str) -> object:
        """Return the JSON value of a JavaScript expression, awaited; fail if it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return cast("dict[str, object]", answer["result"]).get("value")

    def screenshot(self, width: int = 900) -> bytes:
        """Return the whole page as a PNG."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=1200, deviceScaleFactor=1, mobile=False
        )
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(str(picture["data"]))

    def pdf(self) -> bytes:
        """Return the page as it would be printed."""
        printed = self.call("Page.printToPDF", preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(str(printed["data"]))

    def _receive(self) -> dict[str, object]:
        while b"\0" not in self._buffer:
            assert select.select([self._answers], [], [], _PATIENCE)[0], "the browser does not answer"
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return cast("dict[str, object]", json.loads(message))
