"""Before the first call the relay has opened no connection and no file but its own code."""

import sys
import sysconfig
from pathlib import Path

from tests.mcp.host import Host, environment
from tests.mcp.stub import Stub

ROOT = Path(__file__).parents[2]
# Runs before everything else in the relay's process, and writes down what the interpreter tells of it.
WITNESS = """
import os, sys
log = os.open(os.environ["WITNESS_LOG"], os.O_WRONLY | os.O_APPEND)
def witness(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        os.write(log, f"{'write' if writes else 'read'} {path}\\n".encode("utf-8", "replace"))
    elif event.partition(".")[0] in ("socket", "subprocess", "os", "shutil", "tempfile", "urllib", "http"):
        os.write(log, f"{event} {arguments!r}\\n".encode("utf-8", "replace"))
sys.addaudithook(witness)
"""
# Looking at directories is how modules are found; a socket of its own is how the event loop wakes itself.
HARMLESS = {"os.listdir", "os.scandir", "os.putenv", "os.unsetenv", "os.add_dll_directory", "socket.__new__"}


def seen(log: Path) -> list[str]:
    """Return what the witness wrote, without the code that was loaded."""
    code = [*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, str(ROOT / "packages")]
    found = [line for line in log.read_text().splitlines() if line.partition(" ")[0] not in HARMLESS]
    return [line for line in found if not line.startswith(tuple(f"read {place}" for place in code))]


def test_nothing_is_touched_before_the_first_call(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITNESS)
    log = tmp_path / "log"
    log.touch()
    with Stub() as stub:
        env = environment(
            stub.url, PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1", WITNESS_LOG=str(log)
        )
        with Host(env, cwd=tmp_path) as host:
            host.initialize()
            host.request("tools/list")
            # The null device takes the place of stdin.
            assert set(seen(log)) <= {"write /dev/null", f"read {tmp_path / 'sitecustomize.py'}"}
            assert stub.connections == 0
            host.call("search_memory", query="a")
            connections = [line for line in seen(log) if line.startswith("socket.connect ")]
            assert [f"('127.0.0.1', {stub.port})" in line for line in connections] == [True]
            # From the second call on nothing is loaded or looked for any more: there is one more connection.
            settled = log.read_text()
            host.call("search_memory", query="a")
            more = log.read_text().removeprefix(settled).splitlines()
            assert [line.partition(" ")[0] for line in more] == ["socket.__new__", "socket.connect"]
        assert not [line for line in seen(log) if line.startswith("write ") and "/dev/null" not in line]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "sitecustomize.py"]
