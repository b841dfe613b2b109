"""Several server processes on one port: begun together, begun again when one dies, ended together.

The parent holds the listening socket and nothing else: no engine, no key, no connection.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

Work = Callable[[socket.socket, Callable[[], None]], int]  # serve on the socket; call when it is open

_LONGEST_PAUSE_S: Final = 10.0
_STEADY_S: Final = 5.0  # a worker that lived so long may be begun again at once
_READY: Final = b"r"


class Workers:
    """So many processes that do the same work."""

    def __init__(self, count: int, listening: socket.socket, work: Work) -> None:
        self._count = count
        self._listening = listening
        self._work = work
        self._alive: dict[int, float] = {}
        self._pause_s = 0.0
        self._stopping = False
        # Ends with the parent, however that ends: its workers read end of file and stop.
        self._lifeline: tuple[int, int] = os.pipe()

    def run(self) -> int:
        """Keep them running until told to stop; return an exit code.

        They open the database one after the other. If the first one is refused, it says why, once.
        """
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._stop)
        refused = self._begin()
        if refused is not None:
            return 0 if self._stopping else max(refused, 1)
        while not self._stopping:
            while len(self._alive) < self._count and not self._stopping:
                if self._begin() is not None:
                    self._wait_longer()
            self._await_one()
        self._tell_all()
        while self._alive:
            self._await_one()
        return 0

    def _stop(self, *_: object) -> None:
        self._stopping = True
        self._tell_all()

    def _tell_all(self) -> None:
        for pid in list(self._alive):
            os.kill(pid, signal.SIGTERM)

    def _begin(self) -> int | None:
        """Fork a worker and wait until it is open; if it never is, return its exit code."""
        ready, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            self._be_a_worker(told)
        os.close(told)
        self._alive[pid] = time.monotonic()
        is_open = os.read(ready, 1) == _READY
        os.close(ready)
        if is_open:
            return None
        del self._alive[pid]
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _be_a_worker(self, told: int) -> NoReturn:
        code = 1
        try:
            for name in (signal.SIGTERM, signal.SIGINT):
                signal.signal(name, signal.SIG_DFL)
            os.close(self._lifeline[1])
            threading.Thread(target=self._end_with_the_parent, daemon=True).start()
            code = self._work(self._listening, lambda: _say(told))
        except BaseException as failure:  # noqa: BLE001  # said aloud; never on as a second parent
            sys.excepthook(type(failure), failure, failure.__traceback__)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _end_with_the_parent(self) -> None:
        os.read(self._lifeline[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _await_one(self) -> None:
        """Wait for a worker to end, and pause before another one takes its place if they end quickly."""
        pid, _ = os.waitpid(-1, 0)
        lived = time.monotonic() - self._alive.pop(pid)
        if self._stopping:
            return
        print(f"shomei: worker {pid} ended and is begun again", file=sys.stderr)
        if lived > _STEADY_S:
            self._pause_s = 0.0
        else:
            self._wait_longer()

    def _wait_longer(self) -> None:
        self._pause_s = min(self._pause_s * 2 or 0.5, _LONGEST_PAUSE_S)
        until = time.monotonic() + self._pause_s
        while not self._stopping and time.monotonic() < until:
            time.sleep(0.1)


def _say(told: int) -> None:
    os.write(told, _READY)
    os.close(told)
