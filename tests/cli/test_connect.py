"""`shomei connect` is the relay's command under another name."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shomei_service.cli.main import main
from tests.mcp.host import KEY, environment


def test_it_writes_what_the_relay_s_command_writes(tmp_path: Path) -> None:
    start = "import sys; from shomei_service.cli.main import main; sys.exit(main(sys.argv[1:]))"
    written: list[str] = []
    for name, command in (
        ("one", ["-c", start, "connect", "cursor"]),
        ("two", ["-m", "shomei_memory_mcp.server", "connect", "cursor"]),
    ):
        home = tmp_path / name
        home.mkdir()
        env = environment("http://127.0.0.1:8088", HOME=str(home))
        done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert KEY not in done.stdout
        written.append((home / ".cursor" / "mcp.json").read_text())
    assert written[0] == written[1]
    assert json.loads(written[0])["mcpServers"]["shomei-memory"]["env"]["SHOMEI_MCP_API_KEY"] == KEY


@pytest.mark.parametrize(("options", "code"), [(["--help"], 0), (["emacs"], 2), ([], 2)])
def test_help_and_usage_are_the_relay_s(
    options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["connect", *options])
    assert ended.value.code == code
    assert "usage: shomei connect " in "".join(capsys.readouterr())
