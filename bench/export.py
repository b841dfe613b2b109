"""What an export of 10,000 memories costs: memory beyond what the service holds anyway, time, and size.

    python bench/export.py    writes bench/results/export.json; status 1: a bar missed, 3: too busy to say

Memory is the highest resident size while one export is made and sent, less what was resident before. The bar
is for memory alone, which a busy machine does not change; times are given as they are.
"""

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.verbs import idle_share
from shomei_service.engine.model import NewMemory
from shomei_service.engine.verbs import export
from shomei_service.engine.verbs.add import add_batch
from shomei_service.engine.verbs.read import page
from tests.fakes import House, new_home

RESULTS = Path(__file__).parent / "results" / "export.json"
ROWS = 10_000
EXTRA_MB = 150.0
LEAST_IDLE = 0.6
SHORT, LONG = 500, 16_000  # characters; the longer ones are 160 MB of text
WARM_UP = 200


def resident_mb(field: str) -> float:
    """Return a size of this process as the kernel counts it."""
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(field))
    return int(line.split()[1]) / 1024


def fill(house: House, subject: str, characters: int, rows: int = ROWS) -> None:
    """Remember so many texts of that length, no two alike."""
    words = "the quick brown fox jumps over the lazy dog "
    for start in range(0, rows, 250):
        texts = (
            f"{subject} {number} " + words * (characters // len(words))
            for number in range(start, start + 250)
        )
        add_batch(house.engine, house.data, [NewMemory(text, subject) for text in texts])
    page(house.engine, house.data, user_id=subject, limit=500)  # so that somebody has read about them


def sent(house: House, subject: str, form: export.Form) -> Iterator[bytes]:
    """Make an export and yield what is sent of it."""
    package = export.export(house.engine, house.admin, export.Wanted(subject), form=form)
    with closing(package):
        yield from package.as_zip() if form is export.Form.ZIP else package.as_json()


def measure(house: House, subject: str, form: export.Form) -> dict[str, float]:
    """Return extra memory, seconds and megabytes sent of one export."""
    Path("/proc/self/clear_refs").write_text("5")  # the highest resident size begins anew
    before, began = resident_mb("VmRSS"), time.perf_counter()
    size = sum(map(len, sent(house, subject, form)))
    seconds = time.perf_counter() - began
    return {
        "extra_mb": round(resident_mb("VmHWM") - before, 1),
        "seconds": round(seconds, 2),
        "sent_mb": round(size / 1e6, 1),
    }


def main() -> int:
    """Measure, print each value beside the bar, and write the result."""
    idle = idle_share()
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as directory, new_home(Path(directory)).opened() as house:
        fill(house, "warm", SHORT, WARM_UP + 50)
        for form in export.Form:
            measure(house, "warm", form)
        for characters in (SHORT, LONG):
            subject = f"subject{characters}"
            fill(house, subject, characters)
            for form in export.Form:
                rows[f"{ROWS:,} memories of {characters:,} characters, {form.value}"] = measure(
                    house, subject, form
                )
    for name, row in rows.items():
        missed = "" if row["extra_mb"] <= EXTRA_MB else "MISSED"
        told = f"{row['extra_mb']} MB extra (bar {EXTRA_MB:.0f}) {missed}"
        print(f"{name}: {told}; {row['seconds']} s, {row['sent_mb']} MB sent")
    print(
        f"idle before: {idle:.0%}" + ("" if idle >= LEAST_IDLE else "; too busy for times to mean anything")
    )
    RESULTS.parent.mkdir(exist_ok=True)
    result = {
        "idle": round(idle, 2),
        "bar_mb": EXTRA_MB,
        "rows": rows,
        "machine": {"python": platform.python_version(), "cores": os.cpu_count()},
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    if any(row["extra_mb"] > EXTRA_MB for row in rows.values()):
        return 1
    return 0 if idle >= LEAST_IDLE else 3


if __name__ == "__main__":
    sys.exit(main())
