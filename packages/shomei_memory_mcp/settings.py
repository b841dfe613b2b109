"""Settings: the relay's only reader of the environment; a wrong value stops the start, unrepeated."""

import ipaddress
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from shomei_memory_mcp.refusals import SettingsRefused

DEFAULT_BASE_URL = "http://127.0.0.1:8088"
DEFAULT_TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 3600.0
MAX_KEY_CHARACTERS = 512  # our own keys have 64; a header far longer is refused by common proxies

_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_PLACEHOLDER = re.compile(r"""[$%{}<>"'`]|\.\.\.""")
_OFF, _ON = ("", "0", "false", "no", "off"), ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the relay was told; the key and the proxy stay out of its text form."""

    api_key: str | None = field(default=None, repr=False)
    base_url: str = DEFAULT_BASE_URL
    ca_file: str | None = None
    proxy: str | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    read_only: bool = False


def read(environ: Mapping[str, str]) -> Settings:
    """Return the checked settings; raise SettingsRefused for the first one that cannot be used."""
    base_url = _base_url(environ.get("SHOMEI_MCP_BASE_URL", DEFAULT_BASE_URL))
    secure = base_url.startswith("https:")
    return Settings(
        api_key=_api_key(environ.get("SHOMEI_MCP_API_KEY", "")),
        base_url=base_url,
        ca_file=_ca_file(environ) if secure else None,
        proxy=_proxy(environ.get("SHOMEI_MCP_PROXY", "")) if secure else None,
        timeout_s=_timeout(environ.get("SHOMEI_MCP_TIMEOUT_S", "")),
        read_only=_switch(environ.get("SHOMEI_MCP_READ_ONLY", "")),
    )


def _api_key(value: str) -> str | None:
    if not value:
        return None
    key = value.strip()
    if not _PRINTABLE.fullmatch(key) or len(key) > MAX_KEY_CHARACTERS or _PLACEHOLDER.search(key):
        raise SettingsRefused(
            "SHOMEI_MCP_API_KEY is not a key: it is blank, a placeholder, or has characters no key has"
        )
    return key


def _base_url(value: str) -> str:
    url = _split("SHOMEI_MCP_BASE_URL", value)
    if "@" in url.netloc:
        raise SettingsRefused("SHOMEI_MCP_BASE_URL must not carry a user name or password")
    if "?" in value or "#" in value:
        raise SettingsRefused("SHOMEI_MCP_BASE_URL must not have a query or a fragment")
    if {".", ".."} & set(url.path.split("/")):
        raise SettingsRefused("SHOMEI_MCP_BASE_URL must not have dot segments in its path")
    if url.scheme == "http" and not _is_loopback(url.hostname or ""):
        raise SettingsRefused(
            "SHOMEI_MCP_BASE_URL must use https: plain http is for 127.0.0.0/8, [::1] and localhost only"
        )
    return f"{url.scheme}://{url.netloc.lower()}{url.path.rstrip('/')}"


def _split(name: str, value: str) -> SplitResult:
    # urlsplit drops tabs and newlines, others read a backslash as a slash: neither may steer a key.
    text = value.strip()
    if not _PRINTABLE.fullmatch(text) or "\\" in text:
        raise SettingsRefused(f"{name} is not a URL")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise SettingsRefused(f"{name} is not a URL") from None
    if url.scheme not in ("http", "https") or not url.hostname or "%" in url.netloc or port == 0:
        raise SettingsRefused(f"{name} must be an http or https URL with a host")
    return url


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # ::ffff:127.0.0.1 and the like are left out on purpose: only the two spellings people mean.
    return address == ipaddress.IPv6Address("::1") or (address.version == 4 and address.is_loopback)


def _ca_file(environ: Mapping[str, str]) -> str | None:
    for name in ("SHOMEI_MCP_CA_FILE", "SSL_CERT_FILE"):
        path = environ.get(name, "")
        if path:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
            except (OSError, ValueError):
                raise SettingsRefused(f"{name} does not name a readable file of PEM certificates") from None
            return path
    return None


def _proxy(value: str) -> str | None:
    return _split("SHOMEI_MCP_PROXY", value).geturl() if value else None


def _timeout(value: str) -> float:
    try:
        seconds = float(value) if value.strip() else DEFAULT_TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= MAX_TIMEOUT_S:
        raise SettingsRefused("SHOMEI_MCP_TIMEOUT_S must be a number of seconds above 0, at most 3600")
    return seconds


def _switch(value: str) -> bool:
    spelled = value.strip().lower()
    if spelled not in _OFF + _ON:
        raise SettingsRefused("SHOMEI_MCP_READ_ONLY must be 1 or 0")
    return spelled in _ON
