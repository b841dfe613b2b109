"""Try the relay with every real client, each in an environment of its own, against a running service.

python -m tests.mcp.hosts.run RELAY_BIN          all of them; writes result.json
python -m tests.mcp.hosts.run RELAY_BIN NAME...  those whose environment is named; writes nothing
python -m tests.mcp.hosts.run --lock             compile the locks anew (needs uv and npm)
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.fakes import Home, new_home
from tests.mcp.hosts.catalogue import DRIVERS, HOSTS, RESULT, ROOT, Host, Reach
from tests.mcp.hosts.judge import faults_of_job
from tests.mcp.hosts.snippets import snippet_of
from tests.service import serving

ENVIRONMENTS = ROOT / ".cache" / "environments"
PATIENCE_S = 120
ENDS_WITHIN_S = 5
REASON_CHARACTERS = 300
BUNDLE = ROOT / "dist" / "shomei-memory.mcpb"
ATTIC = "the blue lamp is in the attic"
# Package indexes and places on this machine stay out of the result.
_PLACE = re.compile(r"[a-z]+://\S+|(?<![\w.])/[\w./@-]+")


class NotDone(Exception):
    """A host could not be installed or driven; the message says why."""


@dataclass(frozen=True, slots=True)
class World:
    """The running service and the way to the relay."""

    home: Home
    url: str
    relay: Path

    def environment(self, host: Host, word: str) -> dict[str, str]:
        """Return what a driver is given: little, the relay on the path, the admin key."""
        return {
            "PATH": f"{self.relay}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONDONTWRITEBYTECODE": "1",
            # uv, which starts the bundle, may need the machine's own authorities.
            **{name: os.environ[name] for name in ("SSL_CERT_FILE",) if name in os.environ},
            "SHOMEI_JOB_BUNDLE": str(BUNDLE),
            "SHOMEI_MCP_API_KEY": self.home.admin_token,
            "SHOMEI_MCP_BASE_URL": self.url,
            "SHOMEI_JOB_WORD": word,
            "SHOMEI_JOB_PIN": self.home.pin or "",
            **host.given,
        }


def install(host: Host) -> Path:
    """Make the host's environment from its lock; raise NotDone with the reason when that fails."""
    name = f"hosts-{host.environment}"
    if host.is_python:
        script = '. scripts/environment; environment "$1" "$2"'
        return Path(_run(["bash", "-c", script, "hosts", name, str(host.lock)], ROOT, "installing"))
    place = ENVIRONMENTS / name
    lock = (host.lock / "package-lock.json").read_text()
    stamp = place / ".stamp"
    if not stamp.exists() or stamp.read_text() != lock:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(host.lock, place)
        # Whatever a package wants to run on arrival, it is not run.
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], place, "installing")
        stamp.write_text(lock)
    return place


def drive(host: Host, place: Path, world: World) -> dict[str, Any]:
    """Run the host's driver and judge what it saw."""
    word = f"zq7{uuid4().hex[:12]}"
    interpreter = str(place / "bin" / "python") if host.is_python else "node"
    command = [interpreter, str(DRIVERS / host.driver[0]), *host.driver[1:]]
    started = time.monotonic()
    said = _run(command, place, "driving", world.environment(host, word))
    seen = json.loads(said.splitlines()[-1])
    spent = round(time.monotonic() - started, 1)
    if host.reach is not Reach.JOB:
        faults = [] if seen[host.reach] is True else [f"not {host.reach}"]
    else:
        faults = faults_of_job(seen, word, world.home.pin or "")
        faults += _faults_of_snippet(host, place, world)
    if world.home.admin_token in said:
        faults.append("the host shows the key")
    if not _gone(world):
        faults.append("a relay outlived its host")
    if faults:
        raise NotDone("; ".join(faults))
    shown = {name: seen[name] for name in ("protocol", "started_by") if name in seen}
    return {"passed": True, "reach": host.reach, "versions": seen["versions"], **shown, "seconds": spent}


def _faults_of_snippet(host: Host, place: Path, world: World) -> list[str]:
    """Run what docs/hosts.md shows for this host, as it stands there."""
    snippet = snippet_of(host.environment)
    if snippet is None:
        return []
    name = "snippet.py" if host.is_python else "snippet.mjs"
    (place / name).write_text(snippet)
    interpreter = str(place / "bin" / "python") if host.is_python else "node"
    said = _run([interpreter, name], place, "running the snippet", world.environment(host, "none"))
    return [] if ATTIC in said else ["the snippet does not find the memory"]


def _run(command: list[str], folder: Path, doing: str, environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=None if doing == "installing" else PATIENCE_S,
        )
    except FileNotFoundError:
        raise NotDone(f"{doing}: {Path(command[0]).name} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise NotDone(f"{doing}: no end within {PATIENCE_S} s") from None
    if done.returncode != 0:
        raise NotDone(f"{doing}: exit status {done.returncode}: {_reason(done.stderr)}")
    return done.stdout.strip()


def _reason(said: str) -> str:
    told = [line for line in said.splitlines() if line.strip() and "complete log" not in line]
    # npm says first what is wrong, Python last.
    chosen = next((line for line in told if line.startswith("npm error ")), told[-1] if told else "no word")
    more = " ".join(told[1:4]) if chosen.startswith("npm") else ""
    return _PLACE.sub("(place)", f"{chosen} {more}".strip())[:REASON_CHARACTERS]


def _gone(world: World) -> bool:
    deadline = time.monotonic() + ENDS_WITHIN_S
    while _relays(world):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _relays(world: World) -> list[str]:
    """Return the processes that were told of this run's service and run the relay."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = world.url.encode() in (process / "environ").read_bytes()
            if is_ours and b"shomei" in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


@contextmanager
def running(relay: Path) -> Iterator[World]:
    """Run the service in a home of its own, with one memory for the snippets to find."""
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder))
        with serving(home, Path(folder)) as service:
            key = {"authorization": f"Bearer {home.admin_token}"}
            body = {"messages": ATTIC, "user_id": "bob"}
            url = f"{service.url}/v1/memories"
            httpx.post(url, json=body, headers=key, trust_env=False).raise_for_status()
            yield World(home, service.url, relay)


def attempt(host: Host, world: World) -> dict[str, Any]:
    """Return the host's entry in the result: passed, or why not."""
    try:
        return drive(host, install(host), world)
    except NotDone as reason:
        return {"passed": False, "reach": host.reach, "reason": str(reason)}


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def main(relay: Path, names: list[str]) -> int:
    """Try the named hosts, or all and keep the result; return 0 when every one passed."""
    chosen = [host for host in HOSTS if not names or host.environment in names]
    watched = ("packages", "bundle", "tests/mcp/hosts", "docs/hosts.md", "requirements")
    about = {
        "commit": _git("rev-parse", "HEAD"),
        "changed_since": sorted(
            line[3:]
            for line in _git("status", "--porcelain", "--", *watched).splitlines()
            if RESULT.name not in line
        ),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }
    entries: dict[str, Any] = {}
    with running(relay) as world:
        for host in chosen:
            entries[host.name] = entry = attempt(host, world)
            print(f"{host.name}: {'passed' if entry['passed'] else entry['reason']}", flush=True)
    if not names:
        RESULT.write_text(json.dumps(about | {"hosts": entries}, indent=2) + "\n")
    return 0 if all(entry["passed"] for entry in entries.values()) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
