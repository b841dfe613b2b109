"""How much room a memory, a receipt and an erasure take: what docs/operate.md reckons with.

    python bench/sizing.py     writes bench/results/sizing.json

Octets on disk and in memory, so a busy machine does not matter. SQLite, the embedder that is built in.
"""

import io
import json
import platform
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

from shomei_service import bootstrap
from shomei_service.engine.model import NewMemory
from shomei_service.engine.parts import Engine
from shomei_service.engine.upkeep import embed, tend
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.add import add_batch
from shomei_service.engine.verbs.erase import erase
from shomei_service.settings import Settings

RESULTS = Path(__file__).parent / "results" / "sizing.json"
SENTENCE = "the crew reported that the second burn went as planned and asked for the next waypoint"
WORDS = SENTENCE.split(" ")
MEMORIES = {200: 300, 2_000: 100}  # how many of each length, in octets
ERASED = 50


def text(number: int, octets: int) -> str:
    words = [WORDS[(number * 7 + place * place) % len(WORDS)] for place in range(octets // 4)]
    return f"{number} {' '.join(words)}"[:octets]


def octets(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fill(home: Path, length: int, embedder: str) -> dict[str, float]:
    """Remember texts of one length, erase some, and return what a memory and an erasure took."""
    settings = Settings(home=home, embedder=embedder)
    count = MEMORIES[length]
    with redirect_stderr(io.StringIO()):
        made = bootstrap.install(settings)
        empty = octets(settings.data)
        with bootstrap.opened(settings) as engine:
            ids = remember(engine, made.data_key.token, count, length)
        full, custody = octets(settings.data), octets(settings.custody_store)
        with bootstrap.opened(settings) as engine:
            admin = access.authenticate(engine, made.admin_key.token)
            for memory_id in ids[:ERASED]:
                erase(engine, admin, memory_id)
            tend(engine)
    return {
        "memories": count,
        "database_octets_a_memory": round((full - empty) / count),
        "custody_octets_an_erasure": round((octets(settings.custody_store) - custody) / ERASED),
    }


def remember(engine: Engine, token: str, count: int, length: int) -> list[str]:
    caller = access.authenticate(engine, token)
    added = add_batch(
        engine, caller, [NewMemory(text(number, length), "somebody") for number in range(count)]
    )
    while embed(engine):
        pass
    return [one.memory_id for one in added]


START = """
from shomei_service.api.app import create_app
import re
told = re.search(r"VmRSS:\\s+(\\d+) kB", open("/proc/self/status").read())
print(int(told[1]) * 1024)
"""


def main() -> int:
    loaded = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    result: dict[str, object] = {
        "python": platform.python_version(),
        "code_loaded_octets": int(loaded.stdout),
    }
    for embedder in ("none", "builtin"):
        for length in MEMORIES:
            with tempfile.TemporaryDirectory() as folder:
                name = f"texts of {length} octets, {'words alone' if embedder == 'none' else 'with vectors'}"
                result[name] = fill(Path(folder) / "home", length, embedder)
                print(name, result[name])
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
