"""What the governed verbs cost: one delete, and a forget of 10,000 rows while others go on adding.

    python bench/verbs.py    writes bench/results/verbs.json; status 1: a bar missed, 3: too busy to say

Times that wait for the disk stand beside the disk's own: C is one synced SQLite commit of the same run.
"""

import gc
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench._machine import LEAST_IDLE, commit_ms, described, idle_share
from shomei_service.engine.model import NewMemory
from shomei_service.engine.upkeep import tend
from shomei_service.engine.verbs.add import add, add_batch
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from tests.fakes import House, new_home

RESULTS = Path(__file__).parent / "results" / "verbs.json"
ROWS = 10_000
DELETES = 60
FORGET_S, STALL_MS, DELETE_COMMITS, DELETE_EXTRA_MS = 2.5, 300.0, 9.0, 3.0


def deletes_ms(house: House) -> list[float]:
    """Return what each of a row of deletes took; what follows the answer in service follows it here."""
    spent: list[float] = []
    for number in range(DELETES):
        memory_id = house.remember(f"fact {number}")
        began = time.perf_counter()
        erase(house.engine, house.admin, memory_id)
        spent.append((time.perf_counter() - began) * 1000)
        tend(house.engine)
    return spent


def forget_beside_adds(house: House) -> tuple[float, float, int]:
    """Forget 10,000 rows while another thread adds; return seconds, the longest add in ms, and how many."""
    for start in range(0, ROWS, 1000):
        add_batch(house.engine, house.data, [NewMemory(f"fact {start + n}", "bulk") for n in range(1000)])
    done = threading.Event()
    spent: list[float] = []

    def adding() -> None:
        while not done.is_set():
            began = time.perf_counter()
            add(house.engine, house.data, NewMemory("somebody else's fact", "other"))
            spent.append((time.perf_counter() - began) * 1000)
            time.sleep(0.005)

    other = threading.Thread(target=adding)
    other.start()
    began = time.perf_counter()
    forgotten = forget(house.engine, house.admin, "bulk")
    seconds = time.perf_counter() - began
    done.set()
    other.join()
    assert len(forgotten.erased) == ROWS
    return seconds, max(spent), len(spent)


def main() -> int:
    """Measure, print each value beside its bar, and write the result."""
    idle = idle_share()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        before = commit_ms(folder)
        with new_home(folder).opened() as house:
            gc.freeze()  # as the service does once it is open
            delete = statistics.median(deletes_ms(house))
            seconds, stall, adds = forget_beside_adds(house)
        commit = (before + commit_ms(folder)) / 2
    delete_bar = DELETE_COMMITS * commit + DELETE_EXTRA_MS
    rows = [
        ("forget of 10,000 rows, s", seconds, FORGET_S),
        (f"longest of {adds} adds beside it, ms", stall, STALL_MS),
        ("delete p50, ms", delete, delete_bar),
    ]
    for name, value, bar in rows:
        print(f"{name}: {value:.2f}  (bar {bar:.2f}) {'' if value <= bar else 'MISSED'}")
    print(f"one synced commit: {commit:.2f} ms; idle before: {idle:.0%}")
    RESULTS.parent.mkdir(exist_ok=True)
    result = {
        "idle": round(idle, 2),
        "commit_ms": round(commit, 3),
        "rows": [{"what": name, "value": round(value, 2), "bar": round(bar, 2)} for name, value, bar in rows],
        "machine": described(),
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    if idle < LEAST_IDLE:
        print("the machine is too busy for a verdict")
        return 3
    return int(any(value > bar for _, value, bar in rows))


if __name__ == "__main__":
    sys.exit(main())
