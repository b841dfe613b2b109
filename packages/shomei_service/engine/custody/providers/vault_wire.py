"""Asking Vault: one call, one answer that was understood, within one time limit. CUSTODY.md §5."""

import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast
from weakref import finalize

from ...errors import CustodyUnavailable, StartRefused
from .transport import require_private

Data = dict[str, object]

_MOUNT: Final = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
_ANSWER_BYTES: Final = 65_536  # a key's description is under 1 KB
_NOT_SERVING: Final = {429, 472, 473, 503}  # as sys/health tells them apart; to us they are one


@dataclass(frozen=True, slots=True)
class VaultPlace:
    """Where Vault is and which transit mount is ours; `ca_file` is None for the system's own authorities."""

    url: str
    mount: str = "transit"
    namespace: str | None = None
    ca_file: str | None = None
    timeout_s: float = 10.0


class Absent(Exception):
    """Vault has nothing at this path, and says so itself."""


class Declined(Exception):
    """Vault understood and will not: the key, its versions or the bytes do not allow it."""


class Denied(Exception):
    """The token's policy does not reach so far."""


class VaultWire:
    """A client of one transit mount. Any thread may ask."""

    def __init__(self, place: VaultPlace, token: Callable[[], str]) -> None:
        """Prepare, asking nothing yet; raise StartRefused for what can never work.

        The token is read for each call, so that an agent may renew it in its file.
        """
        import httpx

        require_private(place.url, "SHOMEI_VAULT_URL")
        if not _MOUNT.fullmatch(place.mount):
            raise StartRefused("SHOMEI_VAULT_MOUNT is not the path of a mount, such as transit")
        self._failures: Final = (httpx.HTTPError, httpx.InvalidURL)
        self._token: Final = token
        self._timeout_s: Final = place.timeout_s
        self._namespace: Final = {"X-Vault-Namespace": place.namespace} if place.namespace else {}
        self._client: Final = httpx.Client(
            base_url=f"{place.url.rstrip('/')}/v1/{place.mount}/",
            verify=_authorities(place.ca_file),
            timeout=place.timeout_s,
            trust_env=False,  # a proxy from the environment would see the token
            follow_redirects=False,  # nor does the token follow an answer elsewhere
        )
        finalize(self, self._client.close)

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Data:
        """Return the answer's data; raise Absent, Declined, Denied, or CustodyUnavailable for the rest."""
        try:
            status, text = self._exchange(method, path, body)
        except self._failures as exc:
            if _is_untrusted(exc):
                raise CustodyUnavailable(
                    "Vault's certificate is not one to trust; name its authority in SHOMEI_VAULT_CA_FILE"
                ) from exc
            raise CustodyUnavailable("Vault does not answer; look at SHOMEI_VAULT_URL") from exc
        return _understood(status, text)

    def _exchange(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, bytes]:
        deadline = time.monotonic() + self._timeout_s
        headers = {"X-Vault-Token": self._token(), "X-Vault-Request": "true", **self._namespace}
        text = b""
        with self._client.stream(method, path, json=body, headers=headers) as response:
            for part in response.iter_bytes():
                text += part
                # httpx bounds each read, not all of them together.
                if len(text) > _ANSWER_BYTES or time.monotonic() > deadline:
                    raise CustodyUnavailable("Vault's answer takes too long, or is none of Vault's")
            return response.status_code, text


def _understood(status: int, text: bytes) -> Data:
    match status:
        case 204:
            return {}
        case 400:
            raise Declined
        case 403:
            raise Denied
        case _ if status in _NOT_SERVING:
            raise CustodyUnavailable("Vault is sealed, not initialised or on standby")
        case _:
            answer = _parsed(text)
    data = answer.get("data")
    if status == 404 and answer == {"errors": []}:
        raise Absent
    if status == 404:  # it then names no route, which is not a word about keys
        raise CustodyUnavailable("Vault has no such mount; see SHOMEI_VAULT_MOUNT and SHOMEI_VAULT_NAMESPACE")
    if status != 200 or not isinstance(data, dict):
        raise CustodyUnavailable("Vault answered with an error; look at its log")
    return cast(Data, data)


def _parsed(text: bytes) -> Data:
    try:
        answer: object = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise CustodyUnavailable("what answers is not Vault; look at SHOMEI_VAULT_URL") from exc
    if not isinstance(answer, dict):
        raise CustodyUnavailable("what answers is not Vault; look at SHOMEI_VAULT_URL")
    return cast(Data, answer)


def _authorities(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as exc:  # ssl.SSLError is one
        raise StartRefused("SHOMEI_VAULT_CA_FILE is not a readable file of PEM certificates") from exc


def _is_untrusted(exc: BaseException | None) -> bool:
    while exc is not None:
        if isinstance(exc, ssl.SSLError):
            return True
        exc = exc.__cause__ or exc.__context__
    return False
