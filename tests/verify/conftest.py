"""The published verifier 0.0.2, and the command run in process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from shomei_memory_verify.cli import main

PUBLISHED = "shomei-memory-verify==0.0.2"

# Runs in a process of its own: both packages have the same import name.
PUBLISHED_DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import shomei_memory_verify as published
assert published.__version__ == "0.0.2" and published.__file__.startswith(sys.argv[1])
for line in sys.stdin:
    receipt, pin = json.loads(line)
    result = published.verify_signed_receipt(receipt, expected_public_key_hex=pin)
    page = published.render(receipt, expected_public_key_hex=pin)
    page_of_result = published.render(result)
    print(json.dumps({
        "valid": result.valid, "authenticated": result.authenticated, "reason": result.reason,
        "public_key_hex": result.public_key_hex, "schema": result.schema, "signer_id": result.signer_id,
        "body": result.body, "page": page, "same_page": page == page_of_result,
        "html": published.to_html(page, operator_note="note"),
    }))
"""


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the published package into a folder of its own; without a package index this fails."""
    target = tmp_path_factory.mktemp("published")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(target),
        PUBLISHED,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=80)
    if done.returncode:
        pytest.fail(
            f"{PUBLISHED} could not be installed; is the package index reachable?\n{done.stderr}",
            pytrace=False,
        )
    return target


@pytest.fixture(scope="session")
def ask_published(published: Path) -> Callable[[list[tuple[object, str | None]]], list[dict[str, object]]]:
    """Return a function that has the published package verify and render many receipts in one process."""

    def ask(questions: list[tuple[object, str | None]]) -> list[dict[str, object]]:
        done = subprocess.run(
            [sys.executable, "-c", PUBLISHED_DRIVER, str(published)],
            input="".join(json.dumps(question) + "\n" for question in questions),
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return ask


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of the command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Return a function that runs the command in this process, with bytes on its standard input."""

    def run_command(*arguments: str | Path, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as exc:
            status = int(str(exc.code))
        out, err = capsys.readouterr()
        return Ran(status, out, err)

    return run_command
