"""The way to the service: explicit trust and proxy, a second try for a connection, nothing ambient."""

import ssl
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeAlias

from shomei_memory_mcp.settings import Settings

if TYPE_CHECKING:
    import httpx

CONNECT_TIMEOUT_S = 3.0  # a service on the same host or network answers in milliseconds
CONNECT_SHARE = 0.4  # of the whole time, so that two attempts fit and are told apart from a slow answer
POOL_TIMEOUT_S = 5.0
MAX_CONNECTIONS = 100  # calls beyond these wait for POOL_TIMEOUT_S
NO_CONNECTION = "no connection to SHOMEI_MCP_BASE_URL"

Opener: TypeAlias = Callable[[Settings, str], "httpx.AsyncClient"]


class Sending:
    """Learns, as httpx's trace, whether any of the request went out."""

    started: bool = False

    async def __call__(self, event: str, _: object) -> None:
        self.started = self.started or event.endswith("send_request_headers.started")


def open_client(settings: Settings, key: str) -> "httpx.AsyncClient":
    """Build the one client: explicit trust and proxy, nothing from the environment, no memory of cookies."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    return httpx.AsyncClient(
        headers={
            "Authorization": f"Bearer {key}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"shomei-memory-mcp/{version('shomei-governed-memory')}",
        },
        verify=trust(settings),
        # Stock behaviour would hand loopback requests, bearer and all, to HTTP_PROXY.
        trust_env=False,
        proxy=settings.proxy,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        timeout=httpx.Timeout(
            settings.timeout_s,
            connect=min(CONNECT_TIMEOUT_S, settings.timeout_s * CONNECT_SHARE),
            pool=POOL_TIMEOUT_S,
        ),
        # A connection for each call: on a kept one, an answer too many would answer the next question. Agents
        # call seconds apart, when services have closed kept connections anyway.
        limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0),
    )


def trust(settings: Settings) -> ssl.SSLContext:
    """Return a verifying context: the CA file alone, else the system's and certifi's roots; http: none."""
    # The bare class, unlike create_default_context, does not write session keys to SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not settings.base_url.startswith("https:"):
        return context
    if settings.ca_file is not None:
        context.load_verify_locations(cafile=settings.ca_file)
        return context
    import certifi

    context.load_default_certs()
    context.load_verify_locations(cafile=certifi.where())
    return context


async def send(client: "httpx.AsyncClient", request: "httpx.Request") -> "httpx.Response":
    """Send a request and return the response unread; only a connection that was not made is tried again."""
    import httpx

    other = request.url
    if request.url.scheme == "http" and request.url.host == "localhost":
        # RFC 6761 §6.3: localhost is this host whatever a resolver says; services listen on either family.
        request.url, other = (request.url.copy_with(host=host) for host in ("127.0.0.1", "::1"))
    try:
        return await client.send(request, stream=True)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        if _tls_error(error) is not None:
            raise
        # No connection was made, so nothing can be applied twice.
        request.url = other
        return await client.send(request, stream=True)


def connect_reason(error: BaseException) -> str:
    """Say in fixed words why there was no connection."""
    tls = _tls_error(error)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return f"TLS, {_certificate_reason(tls.verify_code)}"
    return NO_CONNECTION if tls is None else "TLS, no secure connection could be agreed"


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _certificate_reason(code: int) -> str:
    # OpenSSL x509_vfy.h: 10 has expired, 62 host name mismatch, 64 address mismatch.
    reasons = {10: "the certificate has expired", 62: "the certificate is for another host"}
    reasons[64] = reasons[62]
    return reasons.get(code, "the certificate is not trusted (private CA: set SHOMEI_MCP_CA_FILE)")
