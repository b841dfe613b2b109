"""The compose file, without containers: its OpenBao, its PostgreSQL roles, its settings, and the service."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from shomei_memory_verify import verify_signed_receipt
from tests.engine.custody.postgres import Server, programs, running
from tests.service import taken_port

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PATIENCE_S = 120
OWNER = "memories"  # instead of shomei, which is the superuser of the server that tests share
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text())


@dataclass(frozen=True, slots=True)
class Bao:
    """A running OpenBao, as its operator handles it."""

    program: str
    address: str
    root: str = ""

    def say(self, *words: str | Path, stdin: str | None = None) -> str:
        """Run one command of its client and return what it prints."""
        environment = {**os.environ, "BAO_ADDR": self.address, "BAO_TOKEN": self.root}
        done = subprocess.run(
            [self.program, *words], env=environment, input=stdin, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def bao_server(folder: Path) -> Iterator[Bao]:
    """Run deploy/openbao/server.hcl with other ports and another place; initialise and unseal it."""
    program = shutil.which("bao") or shutil.which("bao", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("must: OpenBao is not on this machine")
    data = folder / "openbao"
    data.mkdir()
    with taken_port() as port, taken_port() as cluster_port:
        others = {"8200": str(port), "8201": str(cluster_port), "/openbao/file": str(data)}
        written = re.sub(
            "8200|8201|/openbao/file", lambda m: others[m[0]], (DEPLOY / "openbao/server.hcl").read_text()
        )
        (folder / "server.hcl").write_text(written)
        with (folder / "openbao.log").open("wb") as log:
            running = subprocess.Popen(
                [program, "server", f"-config={folder}/server.hcl"], stdout=log, stderr=log
            )
        try:
            yield opened(Bao(program, f"http://127.0.0.1:{port}"), running, folder / "openbao.log")
        finally:
            running.terminate()
            running.wait(PATIENCE_S)


def opened(bao: Bao, running: "subprocess.Popen[bytes]", log: Path) -> Bao:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and running.poll() is None:
        try:
            if (
                httpx.get(f"{bao.address}/v1/sys/health", trust_env=False).status_code == 501
            ):  # not initialised
                break
        except httpx.TransportError:
            time.sleep(0.1)
    assert "unknown" not in log.read_text().lower()
    made = json.loads(bao.say("operator", "init", "-key-shares=1", "-key-threshold=1", "-format=json"))
    bao.say("operator", "unseal", made["unseal_keys_b64"][0])
    unsealed = Bao(bao.program, bao.address, made["root_token"])
    while time.monotonic() < deadline:
        if httpx.get(f"{bao.address}/v1/sys/health", trust_env=False).status_code == 200:
            break
        time.sleep(0.1)
    return unsealed


def roles_of(postgres: Server, folder: Path) -> None:
    """Run deploy/postgres/roles.sh as the image does, with its secrets where they are here."""
    (folder / "shomei_password").write_text("one")
    (folder / "custody_password").write_text("two")
    script = (DEPLOY / "postgres/roles.sh").read_text().replace("/run/secrets", str(folder))
    script = script.replace("owner shomei ", f"owner {OWNER} ")
    binaries = programs()
    assert binaries is not None
    environment = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PGHOST": str(postgres.url("x").partition("host=")[2]),
        "POSTGRES_USER": "shomei_admin",
    }
    postgres.say("CREATE ROLE shomei_admin LOGIN SUPERUSER")
    subprocess.run(["/bin/sh", "-c", script], env=environment, check=True)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return compose's own settings for the service, with addresses of this machine."""
    folder = tmp_path_factory.mktemp("together")
    with bao_server(folder) as bao, running() as postgres, taken_port() as port:
        bao.say("secrets", "enable", "transit")
        bao.say("policy", "write", "shomei", DEPLOY / "openbao/shomei.policy.hcl")
        token = bao.say(
            *(
                "token",
                "create",
                "-policy=shomei",
                "-no-default-policy",
                "-orphan",
                "-period=768h",
                "-field=token",
            )
        )
        (folder / "vault_token").write_text(token)
        roles_of(postgres, folder)
        settings = {name: str(value) for name, value in COMPOSE["services"]["shomei"]["environment"].items()}
        at = postgres.url("x").partition("host=")[2]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHOMEI_", "PG"))}
        yield {
            **kept,
            **{
                name: re.sub("shomei@postgres/shomei$", f"{OWNER}@/{OWNER}", value)
                for name, value in settings.items()
            },
            "SHOMEI_CUSTODY_URL": settings["SHOMEI_CUSTODY_URL"].replace("@postgres/", "@/"),
            "PGHOST": at,
            "SHOMEI_VAULT_URL": bao.address,
            "SHOMEI_VAULT_TOKEN_FILE": str(folder / "vault_token"),
            "SHOMEI_HOME": str(folder / "home"),
            "SHOMEI_PORT": str(port),
            "SHOMEI_EMBEDDER": "none",
        }


def test_init_and_serve_with_the_settings_of_compose(environment: dict[str, str], tmp_path: Path) -> None:
    main = [sys.executable, "-m", "shomei_service.cli.main", "--json"]
    done = subprocess.run([*main, "init"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    with (tmp_path / "log").open("wb") as log:
        serving = subprocess.Popen([*main, "serve"], env=environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{environment['SHOMEI_PORT']}"
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and serving.poll() is None:
            try:
                if httpx.get(f"{url}/readyz", trust_env=False).status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        assert serving.poll() is None, (tmp_path / "log").read_text()
        with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
            client.headers["authorization"] = f"Bearer {made['admin_key']}"
            added = client.post("/v1/memories", json={"messages": "kept by another's keys"}).json()[
                "results"
            ][0]
            erased = client.delete(f"/v1/memories/{added['id']}").json()
        receipt = erased["signed_receipt"]
        assert verify_signed_receipt(receipt, expected_public_key_hex=made["pin"]).authenticated
        body = receipt["body"]
        assert (body["key_custody"], body["finality"]) == ("vault_transit", "final")
    finally:
        serving.terminate()
        serving.wait(PATIENCE_S)
