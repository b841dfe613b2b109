"""A real `shomei serve` in a process of its own, for tests that need one."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.fakes import Home

ROOT = Path(__file__).resolve().parents[1]
_START_S = 120
_END_S = 120
_SERVE = "import sys; from shomei_service.cli.main import main; sys.exit(main(['serve']))"


@dataclass(frozen=True, slots=True)
class Service:
    """A running service and where its log goes."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path


def environment(home: Home, **extra: str) -> dict[str, str]:
    """Return the environment that names the home, free of the machine's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOMEI_")}
    own = {"SHOMEI_HOME": str(home.settings.home), "SHOMEI_EMBEDDER": home.settings.embedder}
    return kept | own | extra


@contextmanager
def serving(
    home: Home,
    folder: Path,
    *,
    before: str = "",
    settings: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Generator[Service]:
    """Run the service on a free port, or this one, until the block ends; `before` is code that runs first."""
    log = folder / f"serve-{time.monotonic_ns()}.log"
    with taken_port(port or 0) as port, log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", f"{before}\n{_SERVE}"],
            env=environment(home, SHOMEI_PORT=str(port), **(settings or {})),
            cwd=folder,
            stdout=output,
            stderr=output,
        )
        service = Service(f"http://127.0.0.1:{port}", process, log)
        try:
            _await_ready(service)
        except BaseException:
            process.kill()
            process.wait()
            raise
    try:
        yield service
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=_END_S)


def _await_ready(service: Service) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and service.process.poll() is None:
        if _is_ready(service):
            return
        time.sleep(0.02)
    raise AssertionError("the service did not start: " + service.log.read_text())


def _is_ready(service: Service) -> bool:
    """Ask with as little as can be: what starts meanwhile needs the processor."""
    asking = HTTPConnection(service.url.removeprefix("http://"), timeout=10)
    try:
        asking.request("GET", "/readyz")
        return asking.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        asking.close()


@contextmanager
def taken_port(port: int = 0) -> Generator[int]:
    """Keep a port, a free one if 0, from everybody but the service that is to listen on it."""
    with socket.socket() as holder:
        # The service sets this too: then two may be bound, as long as one alone listens.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        yield holder.getsockname()[1]
