"""TLS and proxies (DEV-05, DEV-40): the key goes to the service it was given for, or nowhere."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from shomei_memory_mcp import settings
from tests.mcp.authority import Authority
from tests.mcp.calls import call
from tests.mcp.host import KEY, Host, environment
from tests.mcp.stub import ADDED, Exchange, Stub

PROXIES = [name for lower in ("http_proxy", "https_proxy", "all_proxy") for name in (lower, lower.upper())]
UNTRUSTED = (
    "unreachable: TLS, the certificate is not trusted (private CA: set SHOMEI_MCP_CA_FILE); nothing was sent."
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("name", ["SHOMEI_MCP_CA_FILE", "SSL_CERT_FILE"])
def test_a_private_authority_is_honoured(authority: Authority, name: str) -> None:
    with Stub(tls=authority.server("127.0.0.1")) as stub:
        given = settings.read({"SHOMEI_MCP_BASE_URL": stub.url, name: str(authority.file)})
        assert call(stub.url, "add_memory", ca_file=given.ca_file).structured == ADDED


def test_the_relay_s_own_variable_comes_first(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path)
    with Stub(tls=authority.server("127.0.0.1")) as stub:
        environ = {"SHOMEI_MCP_BASE_URL": stub.url, "SSL_CERT_FILE": str(authority.file)}
        given = settings.read(environ | {"SHOMEI_MCP_CA_FILE": str(other.file)})
        assert call(stub.url, "add_memory", ca_file=given.ca_file).text == UNTRUSTED


@pytest.mark.parametrize(
    ("host", "expired", "trusted", "text"),
    [
        ("127.0.0.1", False, False, UNTRUSTED),
        ("127.0.0.1", True, True, "unreachable: TLS, the certificate has expired; nothing was sent."),
        (
            "127.0.0.2",
            False,
            True,
            "unreachable: TLS, the certificate is for another host; nothing was sent.",
        ),
        (
            "localhost",
            False,
            True,
            "unreachable: TLS, the certificate is for another host; nothing was sent.",
        ),
    ],
)
def test_a_wrong_certificate_gets_nothing(
    authority: Authority, host: str, expired: bool, trusted: bool, text: str
) -> None:
    with Stub(tls=authority.server(host, expired=expired)) as stub:
        answer = call(stub.url, "add_memory", ca_file=str(authority.file) if trusted else None)
        assert (answer.text, stub.requests, stub.connections) == (text, [], 1)


def test_host_names_are_checked_against_the_certificate(authority: Authority) -> None:
    with Stub(tls=authority.server("localhost")) as stub:
        url = f"https://localhost:{stub.port}"
        assert call(url, "add_memory", ca_file=str(authority.file)).structured == ADDED


class Plain(Stub):
    """What a server without TLS says to its beginning."""

    def _converse(self, connection: socket.socket) -> None:
        with suppress(OSError):
            self.received += connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 400 X\r\nConnection: close\r\n\r\n")
        connection.close()


def test_https_never_falls_back_to_http() -> None:
    with Plain() as stub:
        answer = call(stub.url.replace("http:", "https:"), "add_memory")
        assert answer.text == "unreachable: TLS, no secure connection could be agreed; nothing was sent."
        assert (stub.requests, KEY.encode() in stub.received) == ([], False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_never_meets_a_proxy(host: str) -> None:
    with Stub() as recorder, Stub(family=socket.AF_INET6 if host == "[::1]" else socket.AF_INET) as stub:
        surroundings = dict.fromkeys(PROXIES, recorder.url) | {"SHOMEI_MCP_PROXY": recorder.url}
        with Host(environment(f"http://{host}:{stub.port}", **surroundings)) as relay:
            relay.initialize()
            assert relay.call("search_memory", query="a")["structuredContent"] == ADDED
        assert (recorder.connections, len(stub.requests)) == (0, 1)


def test_ambient_proxies_are_not_used_for_remote_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stub() as recorder:
        for name in PROXIES:
            monkeypatch.setenv(name, recorder.url)
        assert call("https://memory.example.test", "add_memory", timeout_s=2.0).is_error
        assert recorder.connections == 0


def tunnel(exchange: Exchange) -> None:
    """Answer CONNECT and pass bytes both ways."""
    host, port = exchange.request.target.split(":")
    with socket.create_connection((host, int(port))) as far:
        exchange.raw(b"HTTP/1.1 200 OK\r\n\r\n")

        def back() -> None:
            with suppress(OSError):
                while data := far.recv(65_536):
                    exchange.connection.sendall(data)

        thread = threading.Thread(target=back)
        thread.start()
        with suppress(OSError):
            while data := exchange.connection.recv(65_536):
                far.sendall(data)
        with suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_given_proxy_sees_connect_and_no_key(authority: Authority) -> None:
    with Stub(tls=authority.server("127.0.0.1")) as stub, Stub(tunnel) as proxy:
        answer = call(stub.url, "add_memory", ca_file=str(authority.file), proxy=proxy.url)
        assert answer.structured == ADDED
    assert proxy.targets == [f"CONNECT 127.0.0.1:{stub.port}"]
    assert KEY.encode() not in proxy.received
    assert stub.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_proxy_that_refuses_gets_nothing(authority: Authority) -> None:
    with Stub(lambda exchange: exchange.answer(407, {"detail": "no"})) as proxy:
        answer = call("https://memory.example.test", "add_memory", proxy=proxy.url)
    assert answer.text == "unreachable: no connection to SHOMEI_MCP_BASE_URL; nothing was sent."
    assert KEY.encode() not in proxy.received
