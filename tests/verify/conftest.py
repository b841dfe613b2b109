"""The command, run in process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from shomei_memory_verify.cli import main


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
