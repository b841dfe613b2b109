"""The MCP hosts we know: where each keeps its configuration and how it spells a server."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shomei_memory_mcp.inputs import JsonObject

SERVER_NAME: Final = "shomei-memory"
KEY_VARIABLE: Final = "SHOMEI_MCP_API_KEY"
ARGUMENTS: Final = ["-m", "shomei_memory_mcp.server"]

# VS Code asks once and keeps the answer in the system's secret store: the key never lies in the file.
_PROMPT_ID = "shomei-mcp-api-key"
_PROMPT: JsonObject = {
    "type": "promptString",
    "id": _PROMPT_ID,
    "description": "Shomei API key",
    "password": True,
}


@dataclass(frozen=True, slots=True)
class Place:
    """One user's machine."""

    home: Path = field(default_factory=Path.home)
    platform: str = sys.platform
    environ: Mapping[str, str] = field(default_factory=dict[str, str])

    def applications(self) -> Path:
        """Return the directory in which desktop applications keep their configuration."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming")
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")


@dataclass(frozen=True, slots=True)
class Host:
    """One MCP host."""

    title: str
    file: Callable[[Place], Path]
    section: str = "mcpServers"
    typed: bool = False
    prompts: bool = False

    def entry(self, interpreter: str, environment: Mapping[str, str]) -> JsonObject:
        """Return this host's entry for the relay; with a prompting host the key is asked for, not written."""
        given = dict(environment)
        if self.prompts:
            given[KEY_VARIABLE] = f"${{input:{_PROMPT_ID}}}"
        kind: JsonObject = {"type": "stdio"} if self.typed else {}
        return kind | {"command": interpreter, "args": list(ARGUMENTS), "env": given}

    def prompt(self) -> JsonObject | None:
        """Return the question a prompting host asks for the key."""
        return dict(_PROMPT) if self.prompts else None


HOSTS: Final[Mapping[str, Host]] = {
    "cursor": Host("Cursor", lambda place: place.home / ".cursor" / "mcp.json"),
    "claude-desktop": Host(
        "Claude Desktop", lambda place: place.applications() / "Claude" / "claude_desktop_config.json"
    ),
    "claude-code": Host("Claude Code", lambda place: place.home / ".claude.json", typed=True),
    "vscode": Host(
        "VS Code",
        lambda place: place.applications() / "Code" / "User" / "mcp.json",
        section="servers",
        typed=True,
        prompts=True,
    ),
    "codex": Host(
        "Codex",
        lambda place: Path(place.environ.get("CODEX_HOME") or place.home / ".codex") / "config.toml",
        section="mcp_servers",
    ),
    "gemini": Host("Gemini CLI", lambda place: place.home / ".gemini" / "settings.json"),
}
