"""moto's KMS over HTTP in a process of its own, whose days can be made to pass. As a module it is the server.

moto never deletes a key whose date has come, and goes on decrypting with a key that is pending deletion.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

REGION = "eu-central-1"
_ROOT = Path(__file__).resolve().parents[4]


@contextmanager
def server() -> Iterator["Kms"]:
    """Yield a running server."""
    running = Kms()
    try:
        yield running
    finally:
        running.stop()


class Kms:
    """A child process: one line in, one line out."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.engine.custody.providers.kms"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, cwd=_ROOT, text=True, **pipes)  # type: ignore[call-overload]
        self.url = "http://127.0.0.1:" + self._process.stdout.readline().strip()

    def elapse(self, days: int) -> int:
        """Delete the keys whose date comes within so many days, as AWS would; return how many."""
        self._process.stdin.write(f"{days}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def stop(self) -> None:
        """End the process."""
        self._process.communicate()


def _deleted(days: int) -> int:
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.kms.models import kms_backends

    backend = kms_backends[DEFAULT_ACCOUNT_ID][REGION]
    then = datetime.now() + timedelta(days=days)  # noqa: DTZ005 - as moto keeps its dates
    dated = [key for key in backend.keys.values() if key.key_state == "PendingDeletion"]
    over = [key for key in dated if key.deletion_date <= then]
    for key in over:
        backend.keys.pop(key.id)  # its aliases with it, as in AWS
    return len(over)


def _serve() -> None:
    from moto.server import ThreadedMotoServer

    served = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    served.start()
    print(served.get_host_and_port()[1], flush=True)
    for line in sys.stdin:
        print(_deleted(int(line)), flush=True)
    served.stop()


if __name__ == "__main__":
    _serve()
