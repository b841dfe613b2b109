"""Help is quick, because it loads no more than it prints; and it is true."""

import argparse
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from shomei_service.cli.main import COMMANDS, main

FOLDER = Path(__file__).parents[2] / "packages" / "shomei_service" / "cli"


def registered(module: str) -> dict[str, str]:
    """Return the commands a module brings, with what it says of them."""
    parser = argparse.ArgumentParser()
    commands: Any = parser.add_subparsers()
    import_module(f"shomei_service.cli.{module}").register(commands)
    return {one.dest: one.help for one in commands._choices_actions}


def test_the_table_says_what_the_modules_say() -> None:
    modules = {path.stem for path in FOLDER.glob("*.py") if "def register(" in path.read_text()}
    told = {name: (module, purpose) for module in modules for name, purpose in registered(module).items()}
    assert told == COMMANDS


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if not re.search(rf"^ {{4}}{name}\s", shown, re.MULTILINE)] == []


@pytest.mark.parametrize("arguments", [["--help"], [], ["nonsense"], ["--json"]])
def test_help_and_usage_load_no_engine(arguments: list[str]) -> None:
    code = "import sys\nfrom shomei_service.cli.main import main\ntry:\n  main(sys.argv[1:])\nfinally:\n  "
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == (0 if arguments == ["--help"] else 2)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "shomei_service" in loaded
    heavy = {
        "fastapi",
        "starlette",
        "sqlalchemy",
        "alembic",
        "numpy",
        "pydantic",
        "cryptography",
        "nacl",
        "rich",
    }
    assert not loaded & heavy


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_of_its_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: shomei {command}")
