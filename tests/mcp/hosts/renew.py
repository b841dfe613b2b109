"""Compile the locks of every host anew, hashes in and addresses out: `python -m tests.mcp.hosts.renew`."""

import json
import subprocess

from tests.mcp.hosts.catalogue import HOSTS, LOCKS, OVERRIDES, Host

UV = "uv pip compile --quiet --universal --python-version 3.11 --generate-hashes"
UV_OUTPUT = "--no-emit-index-url --no-emit-find-links --no-annotate --no-header"
NPM = "npm install --package-lock-only --ignore-scripts --no-audit --no-fund"


def lock(host: Host) -> None:
    """Resolve what the host wants; needs uv or npm."""
    if host.is_python:
        command = [*UV.split(), *UV_OUTPUT.split(), "-", "-o", str(host.lock)]
        wanted = "\n".join(host.wanted)
        subprocess.run(command, input=wanted, text=True, check=True, stdout=subprocess.DEVNULL)
        return
    host.lock.mkdir(exist_ok=True)
    (host.lock / "package-lock.json").unlink(missing_ok=True)
    about = {"private": True, "license": "Apache-2.0", "overrides": OVERRIDES.get(host.environment, {})}
    (host.lock / "package.json").write_text(json.dumps(about))
    command = [*NPM.split(), "--omit-lockfile-registry-resolved", *host.wanted]
    subprocess.run(command, cwd=host.lock, check=True)


if __name__ == "__main__":
    LOCKS.mkdir(exist_ok=True)
    for each in {host.environment: host for host in HOSTS if host.wanted}.values():
        lock(each)
