"""What every measurement says of the machine beside its figures."""

import os
import platform
import sqlite3
import statistics
import time
from pathlib import Path

LEAST_IDLE = 0.6  # below it no verdict is given


def commit_ms(folder: Path, times: int = 100) -> float:
    """Return C: the median of one synced SQLite commit, in milliseconds."""
    file = folder / "c.db"
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (x BLOB)")
    spent: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        connection.execute("INSERT INTO t VALUES (randomblob(500))")
        spent.append((time.perf_counter() - began) * 1000)
    connection.close()
    file.unlink()
    return statistics.median(spent)


def idle_share(seconds: float = 1.0) -> float:
    """Return how idle the machine is, as a share of all its processors."""

    def read() -> tuple[int, int]:
        fields = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return fields[3] + fields[4], sum(fields)

    idle, total = read()
    time.sleep(seconds)
    later_idle, later_total = read()
    return (later_idle - idle) / max(1, later_total - total)


def described() -> dict[str, object]:
    """Return which machine this is."""
    return {"python": platform.python_version(), "cores": os.cpu_count()}
