"""What custody sends over a network goes through TLS, or does not leave this machine."""

import ipaddress
from typing import LiteralString
from urllib.parse import SplitResult, urlsplit

from ...errors import StartRefused


def require_private(url: str, setting: LiteralString) -> None:
    """Raise StartRefused unless the URL is https, or plain http to this machine, and holds no password."""
    parts = _split(url, setting)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query or parts.fragment:
        raise StartRefused(setting + " is not a URL such as https://vault.example:8200")
    if parts.username or parts.password:
        raise StartRefused(setting + " must not carry a user or a password")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise StartRefused(setting + " must be https: only this machine itself may be asked in the clear")


def _split(url: str, setting: LiteralString) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is what raises
    except ValueError as exc:
        raise StartRefused(setting + " is not a URL such as https://vault.example:8200") from exc
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
