"""How the relay starts (DEV-39): what it imports, what stops it, and what it says then."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shomei_memory_mcp import server
from tests.mcp.host import KEY, Host, environment

ROOT = str(Path(__file__).parents[2])
PACKAGES = str(Path(ROOT) / "packages")
FOREIGN = ["shomei_service", "fastapi", "sqlalchemy", "cryptography", "nacl", "numpy", "shomei_memory_verify"]


def loaded_by(statement: str) -> list[str]:
    """Return which foreign packages a fresh interpreter has loaded after a statement."""
    script = f"import json, sys\n{statement}\nprint(json.dumps([n for n in {FOREIGN} if n in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment(), check=True)
    return json.loads(done.stdout)


def test_importing_the_relay_loads_no_engine() -> None:
    modules = ["server", "tools", "answers", "client", "network", "screen", "settings", "connect", "doctor"]
    assert loaded_by(f"import {', '.join(f'shomei_memory_mcp.{module}' for module in modules)}") == []


def test_with_the_sdk_it_loads_only_what_the_sdk_loads() -> None:
    sdk = loaded_by("import mcp.server.lowlevel")
    assert set(sdk) <= {"cryptography"}
    assert loaded_by("import shomei_memory_mcp.serving") == sdk


def test_the_signature_library_comes_with_the_first_receipt() -> None:
    script = f"""
import sys
sys.path[:0] = [{ROOT!r}, {PACKAGES!r}]
from tests.mcp.calls import call
assert not {{"nacl", "shomei_memory_verify"}} & set(sys.modules)
call("http://127.0.0.1:1", "verify_receipt")
"""
    assert set(loaded_by(script)) >= {"nacl", "shomei_memory_verify"}


def test_importing_opens_no_connection_and_moves_no_descriptor() -> None:
    script = """
import os, socket, sys
def refuse(*_): raise AssertionError("network at import")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
before = os.fstat(0), os.fstat(1)
import shomei_memory_mcp.server, shomei_memory_mcp.serving
assert (os.fstat(0), os.fstat(1)) == before
print("ok")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment(), check=True)
    assert done.stdout == b"ok\n"


@pytest.mark.parametrize("missing", ["mcp", "mcp_types", "httpx", "pydantic", "anyio"])
def test_without_the_extra_one_line_names_it(missing: str, tmp_path: Path) -> None:
    blocked = tmp_path / "sitecustomize.py"
    blocked.write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] == {missing!r}:\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    env = environment(PYTHONPATH=str(tmp_path), SHOMEI_MCP_API_KEY="")
    command = [sys.executable, "-m", "shomei_memory_mcp.server"]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"shomei-memory-mcp: {server.EXTRA_LINE}\n"
    assert "[mcp]" in server.EXTRA_LINE


def started(*arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "shomei_memory_mcp.server", *arguments]
    return subprocess.run(
        command, env=environment(**env), stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )


@pytest.mark.parametrize(
    ("env", "variable"),
    [
        ({"SHOMEI_MCP_API_KEY": "${SHOMEI_KEY}"}, "SHOMEI_MCP_API_KEY"),
        ({"SHOMEI_MCP_API_KEY": f"{KEY}\nX: y"}, "SHOMEI_MCP_API_KEY"),
        ({"SHOMEI_MCP_BASE_URL": "http://user:s3cret@10.0.0.5/s3cret"}, "SHOMEI_MCP_BASE_URL"),
        ({"SHOMEI_MCP_BASE_URL": "http://10.0.0.5"}, "SHOMEI_MCP_BASE_URL"),
        ({"SHOMEI_MCP_TIMEOUT_S": "s3cret"}, "SHOMEI_MCP_TIMEOUT_S"),
        ({"SHOMEI_MCP_READ_ONLY": "s3cret"}, "SHOMEI_MCP_READ_ONLY"),
    ],
)
def test_wrong_settings_stop_the_start_with_one_line(env: dict[str, str], variable: str) -> None:
    done = started(**env)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert done.stderr.decode().startswith(f"shomei-memory-mcp: {variable} ")
    assert b"s3cret" not in done.stderr
    assert KEY.encode() not in done.stderr


def test_without_a_key_it_starts_and_says_so() -> None:
    with Host(environment(SHOMEI_MCP_API_KEY="")) as host:
        host.initialize()
        result = host.call("search_memory", query="a")
        assert host.end() == 0
    assert (
        result["content"][0]["text"] == "SHOMEI_MCP_API_KEY is not set; only verify_receipt works without it."
    )
    assert host.stderr == b"shomei-memory-mcp: SHOMEI_MCP_API_KEY is not set: only verify_receipt can work\n"


def test_require_key() -> None:
    done = started("--require-key", SHOMEI_MCP_API_KEY="")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"--require-key" in done.stderr
    assert started("--require-key").returncode == 0


def test_usage_and_version() -> None:
    shown = started("--help")
    assert (shown.returncode, shown.stdout.decode(), shown.stderr) == (0, server.USAGE, b"")
    wrong = started("--frobnicate")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.decode()) == (2, b"", server.USAGE)
    version = started("--version")
    assert (version.returncode, version.stderr) == (0, b"")
    assert version.stdout.startswith(b"shomei-memory-mcp ")


def test_closed_descriptors_are_named() -> None:
    script = "import os; os.close(0); os.close(1); from shomei_memory_mcp.server import main; main()"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


def test_a_closed_stderr_does_not_put_words_on_the_wire() -> None:
    script = (
        "import os, sys; os.close(2); sys.argv = ['x']; from shomei_memory_mcp.server import main; main()"
    )
    with Host(environment(SHOMEI_MCP_API_KEY=""), command=[sys.executable, "-c", script]) as host:
        host.initialize()
        assert host.request("ping")["result"] == {}
        assert Path(f"/proc/{host.process.pid}/fd/2").readlink() == Path(os.devnull)
        assert host.end() == 0
    assert [json.loads(line)["id"] for line in host.lines] == [1, 2]


def test_both_commands_are_the_same_program() -> None:
    script = Path(sys.executable).parent / "shomei-memory-mcp"
    with Host(environment(), command=[str(script)]) as host:
        assert host.initialize()["result"]["serverInfo"]["name"] == "shomei-memory"
        assert host.end() == 0
