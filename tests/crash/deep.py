"""The last result of each deep run, kept beside the tests with the commit it ran on."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

KEPT = Path(__file__).with_name("deep.json")
ROOT = Path(__file__).resolve().parents[2]


def is_deep(request: pytest.FixtureRequest) -> bool:
    """Say whether the run may go on for long."""
    return bool(request.config.getoption("--deep"))


def keep(request: pytest.FixtureRequest, name: str, figures: Mapping[str, object]) -> None:
    """Say what a run came to; of a deep one, also write it down."""
    print(f"{name}: " + ", ".join(f"{value} {what}" for what, value in figures.items()))
    if not is_deep(request):
        return
    asked = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept[name] = {**figures, "commit": commit}
    KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n")
