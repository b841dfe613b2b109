"""`connect` and `doctor`: the host's file keeps everything it had, the key stays off every screen."""

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from shomei_memory_mcp import connect, doctor
from shomei_memory_mcp.hosts import HOSTS, Place
from tests.mcp.authority import Authority
from tests.mcp.host import KEY, environment
from tests.mcp.stub import Exchange, Stub, closed_port

JSON_HOSTS = [name for name in HOSTS if name != "codex"]
FILES = {
    "cursor": ".cursor/mcp.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
}


def run(home: Path, name: str, *options: str, **environ: str) -> int:
    given = {"SHOMEI_MCP_API_KEY": KEY, "SHOMEI_MCP_BASE_URL": "https://memory.example.test/", **environ}
    return connect.main([name, *options], place=Place(home, "linux", given))


def entry(home: Path, name: str) -> dict[str, Any]:
    text = (home / FILES[name]).read_text()
    whole: dict[str, Any] = tomllib.loads(text) if name == "codex" else json.loads(text)
    return whole[HOSTS[name].section]["shomei-memory"]


@pytest.mark.parametrize("name", HOSTS)
def test_a_new_file_holds_the_entry_and_is_private(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, name) == 0
    written = entry(tmp_path, name)
    assert written["command"] == sys.executable
    assert Path(written["command"]).is_absolute()
    assert written["args"] == ["-m", "shomei_memory_mcp.server"]
    key = "${input:shomei-mcp-api-key}" if name == "vscode" else KEY
    assert written["env"] == {
        "SHOMEI_MCP_BASE_URL": "https://memory.example.test/",
        "SHOMEI_MCP_API_KEY": key,
    }
    assert stat.S_IMODE((tmp_path / FILES[name]).stat().st_mode) == 0o600
    assert [each for each in (tmp_path / FILES[name]).parent.iterdir() if "shomei" in each.name] == []
    shown = "".join(capsys.readouterr())
    assert str(tmp_path / FILES[name]) in shown
    assert KEY not in shown


@pytest.mark.parametrize("name", JSON_HOSTS)
def test_a_json_file_keeps_everything_else(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = HOSTS[name].section
    ours = {"command": "old", "disabled": True, "env": {"SHOMEI_MCP_API_KEY": "shm_old", "EXTRA": "kept"}}
    former = {
        "theme": "d\u00e4rk",
        section: {"other": {"command": "x", "env": {"TOKEN": "t"}}, "shomei-memory": ours},
        "z": [1, None],
    }
    path = tmp_path / FILES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\ufeff" + json.dumps(former, ensure_ascii=False))
    path.chmod(0o644)
    assert run(tmp_path, name, SHOMEI_MCP_API_KEY="") == 0
    whole = json.loads(path.read_text())
    merged = whole[section].pop("shomei-memory")
    del former[section]["shomei-memory"]  # type: ignore[attr-defined]
    assert {key: value for key, value in whole.items() if key != "inputs"} == former
    assert (merged["command"], merged["disabled"], merged["env"]["EXTRA"]) == (sys.executable, True, "kept")
    # Without a new key the one that was there stays.
    assert merged["env"]["SHOMEI_MCP_API_KEY"] == (
        "${input:shomei-mcp-api-key}" if name == "vscode" else "shm_old"
    )
    backup = path.with_name(path.name + ".before-shomei")
    assert json.loads(backup.read_text("utf-8-sig"))[section]["shomei-memory"] == ours
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, backup)] == [0o600, 0o600]
    assert "shm_old" not in "".join(capsys.readouterr())


def test_vscode_asks_for_the_key_once(tmp_path: Path) -> None:
    other = {"type": "promptString", "id": "other"}
    path = tmp_path / FILES["vscode"]
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"inputs": [other]}))
    assert run(tmp_path, "vscode") == 0
    assert run(tmp_path, "vscode", SHOMEI_MCP_TIMEOUT_S="5") == 0
    inputs = json.loads(path.read_text())["inputs"]
    assert [each["id"] for each in inputs] == ["other", "shomei-mcp-api-key"]
    assert inputs[1]["password"] is True
    assert KEY not in path.read_text()


TOML = """# my settings
model = "o3"

[mcp_servers.other]
command = "x"  # kept
args = ["[not a table]"]

[mcp_servers.shomei-memory]
command = "old"
startup_timeout_sec = 20
enabled_tools = ["search_memory"]

[mcp_servers.shomei-memory.env]
SHOMEI_MCP_API_KEY = "shm_old"
EXTRA = "k\\u00e9pt"

[profiles.fast]
model = "mini"
"""


def test_a_toml_file_keeps_everything_else(tmp_path: Path) -> None:
    path = tmp_path / FILES["codex"]
    path.parent.mkdir()
    path.write_text(TOML)
    assert run(tmp_path, "codex", SHOMEI_MCP_API_KEY="") == 0
    former, whole = tomllib.loads(TOML), tomllib.loads(path.read_text())
    merged = whole["mcp_servers"].pop("shomei-memory")
    del former["mcp_servers"]["shomei-memory"]
    assert whole == former
    assert (merged["command"], merged["startup_timeout_sec"]) == (sys.executable, 20)
    assert merged["enabled_tools"] == ["search_memory"]
    assert merged["env"] == {
        "SHOMEI_MCP_API_KEY": "shm_old",
        "EXTRA": "k\u00e9pt",
        "SHOMEI_MCP_BASE_URL": "https://memory.example.test/",
    }
    assert "# my settings" in path.read_text()
    assert "# kept" in path.read_text()
    assert path.with_name("config.toml.before-shomei").read_text() == TOML


@pytest.mark.parametrize("name", HOSTS)
def test_connecting_again_changes_nothing(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, name) == 0
    before = (tmp_path / FILES[name]).read_text()
    assert run(tmp_path, name) == 0
    assert (tmp_path / FILES[name]).read_text() == before
    assert not (tmp_path / (FILES[name] + ".before-shomei")).exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cursor", '{"mcpServers": {} // comment\n}'),
        ("cursor", "[]"),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", '{"mcpServers": {"shomei-memory": "x"}}'),
        ("cursor", '{"a": 1, "a": 2}'),
        ("cursor", "{" * 100_000),
        ("vscode", '{"inputs": {}}'),
        ("codex", "not toml"),
        ("codex", 'mcp_servers = { shomei-memory = { command = "old" } }'),
        ("codex", 'mcp_servers.shomei-memory.command = "old"'),
        ("codex", '[mcp_servers]\nshomei-memory = { command = "old" }'),
        ("codex", '[mcp_servers.other]\nargs = ["""\n[mcp_servers.shomei-memory]\n"""]'),
        ("codex", "[mcp_servers.shomei-memory]\nsince = 2020-01-01"),
    ],
)
def test_a_file_that_cannot_be_kept_whole_is_left_alone(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / FILES[name]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert run(tmp_path, name) == 1
    assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]
    shown = capsys.readouterr()
    assert "shomei_memory_mcp.server" in shown.out
    assert "was left as it is" in shown.err
    assert KEY not in shown.out + shown.err


@pytest.mark.parametrize("name", HOSTS)
def test_print_writes_nothing_and_shows_no_secret(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = "http://user:pw-s3cret@proxy.example.test:3128"
    assert run(tmp_path, name, "--print", SHOMEI_MCP_PROXY=proxy) == 0
    shown = capsys.readouterr()
    whole: dict[str, Any] = tomllib.loads(shown.out) if name == "codex" else json.loads(shown.out)
    assert whole[HOSTS[name].section]["shomei-memory"]["command"] == sys.executable
    assert KEY not in shown.out + shown.err
    assert "s3cret" not in shown.out + shown.err
    assert list(tmp_path.iterdir()) == []


def test_links_stay_links_and_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "claude.json").write_text("{}")
    (tmp_path / ".claude.json").symlink_to("dotfiles/claude.json")
    assert run(tmp_path, "claude-code", SHOMEI_MCP_CA_FILE=authority.file.name) == 0
    assert (tmp_path / ".claude.json").is_symlink()
    assert entry(tmp_path, "claude-code")["env"]["SHOMEI_MCP_CA_FILE"] == str(authority.file)
    assert entry(tmp_path, "claude-code")["type"] == "stdio"


def test_wrong_settings_are_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "cursor", SHOMEI_MCP_BASE_URL="http://10.0.0.5/s3cret") == 2
    assert run(tmp_path, "cursor", SHOMEI_MCP_API_KEY="${KEY} s3cret") == 2
    assert list(tmp_path.iterdir()) == []
    assert "s3cret" not in "".join(capsys.readouterr())


def test_without_a_key_it_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "cursor", SHOMEI_MCP_API_KEY="") == 0
    assert "No key was given" in capsys.readouterr().out
    assert "SHOMEI_MCP_API_KEY" not in entry(tmp_path, "cursor")["env"]


def test_an_unwritable_place_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".cursor").write_text("a file where a directory belongs")
    assert run(tmp_path, "cursor") == 1
    assert "cannot be read or written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("platform", "environ", "desktop"),
    [
        ("linux", {}, "home/.config/Claude/claude_desktop_config.json"),
        ("linux", {"XDG_CONFIG_HOME": "/xdg"}, "/xdg/Claude/claude_desktop_config.json"),
        ("darwin", {}, "home/Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/Claude/claude_desktop_config.json"),
    ],
)
def test_where_applications_keep_their_files(platform: str, environ: dict[str, str], desktop: str) -> None:
    place = Place(Path("home"), platform, environ)
    assert HOSTS["claude-desktop"].file(place) == Path(desktop)


def test_codex_home_is_followed() -> None:
    assert HOSTS["codex"].file(Place(Path("home"), "linux", {"CODEX_HOME": "/c"})) == Path("/c/config.toml")


def test_the_command_and_what_it_wrote(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shomei_memory_mcp.server", "connect", "cursor"]
    env = environment("http://127.0.0.1:8088", HOME=str(tmp_path))
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert KEY.encode() not in done.stdout
    written = entry(tmp_path, "cursor")
    # What the host would start does start.
    again = subprocess.run(
        [written["command"], *written["args"]],
        env={"PATH": os.environ["PATH"], **written["env"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert (again.returncode, again.stdout, again.stderr) == (0, b"", b"")


def test_usage_of_connect(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        connect.main(["emacs"])
    assert ended.value.code == 2
    assert "claude-desktop" in capsys.readouterr().err


def service(holds: int) -> Any:
    def play(exchange: Exchange) -> None:
        statuses = {"/healthz": 200, "/v1/signer": 200, "/v1/holds": holds}
        exchange.answer(statuses[exchange.request.target], {"a": 1})

    return play


def examined(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = doctor.main(["--json"], environ={"PATH": os.environ["PATH"], **environ})
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err
    return code, json.loads(shown.out)


@pytest.mark.parametrize(
    ("holds", "good", "scope"),
    [
        (200, True, "admin: all ten tools"),
        (501, True, "admin: all ten tools"),
        (403, True, "data: update, delete,"),
        (500, False, "unclear: HTTP 500"),
    ],
)
def test_doctor_tells_the_scope(
    holds: int, good: bool, scope: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Stub(service(holds)) as stub:
        code, found = examined(environment(stub.url), capsys)
        assert {request.method for request in stub.requests} == {"GET"}
    assert code == (0 if good else 1)
    assert list(found) == ["versions", "key", "url", "tls", "health", "scope", "tools/list"]
    assert [name for name, each in found.items() if not each["ok"]] == ([] if good else ["scope"])
    assert found["scope"]["text"].startswith(scope)
    assert found["tools/list"]["text"].startswith("10 tools in ")


def test_doctor_finds_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closed_port() as url:
        code, found = examined(environment(url, SHOMEI_MCP_API_KEY=""), capsys)
    assert (code, [name for name, each in found.items() if not each["ok"]]) == (1, ["key", "health"])
    with Stub(lambda exchange: exchange.answer(401 if "v1" in exchange.request.target else 200, {})) as stub:
        code, found = examined(environment(stub.url), capsys)
    assert (code, found["scope"]["text"]) == (1, "the service does not accept SHOMEI_MCP_API_KEY")
    with Stub(tls=Authority(tmp_path).server("127.0.0.1")) as stub:
        code, found = examined(environment(stub.url), capsys)
    assert (code, found["tls"]["ok"]) == (1, False)
    assert found["tls"]["text"].startswith("TLS, the certificate is not trusted")
    code, found = examined({"SHOMEI_MCP_BASE_URL": "http://10.0.0.5/s3cret"}, capsys)
    assert (code, list(found)) == (1, ["versions", "settings"])


def test_doctor_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(service(200)) as stub:
        assert doctor.main([], environ=environment(stub.url)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert all(line.startswith("ok ") for line in lines)
