"""Asking AWS KMS: one call, one answer that was understood, no retries underneath. CUSTODY.md §5."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Final, Protocol, cast
from weakref import finalize

from ...errors import CustodyUnavailable, Fault, IntegrityFault, StartRefused
from .transport import require_private

Answer = Mapping[str, object]

_OTHER_BYTES: Final = {"InvalidCiphertextException", "IncorrectKeyException"}
_REFUSED: Final = {
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "UnrecognizedClientException",
}


@dataclass(frozen=True, slots=True)
class KmsPlace:
    """Where KMS is, and after how many days it deletes what it was told to; 7 to 30."""

    region: str | None  # None: what AWS's own settings say
    deletion_days: int
    endpoint_url: str | None = None
    timeout_s: float = 10.0


class NotFound(Exception):
    """KMS has no key of this name, and says so itself."""


class KmsWire:
    """A client with the credentials that AWS's own settings name. Any thread may ask."""

    def __init__(self, place: KmsPlace) -> None:
        """Prepare, asking nothing yet; raise StartRefused for what can never work."""
        if place.endpoint_url is not None:
            require_private(place.endpoint_url, "SHOMEI_AWS_ENDPOINT_URL")
        failures = _imported("botocore.exceptions")
        self._declined: Final[type[Exception]] = failures.ClientError
        self._nobody: Final = (failures.NoCredentialsError, failures.PartialCredentialsError)
        parser_errors = _imported("botocore.parsers").ResponseParserError
        # A mangled answer fails in several ways on its way through botocore.
        self._failures: Final = (failures.BotoCoreError, parser_errors, ValueError, TypeError, AttributeError)
        self._client: Final = _connected(place, (failures.BotoCoreError, ValueError))
        finalize(self, self._client.close)
        # At DEBUG botocore writes down what it sends and receives: here that is keys.
        logging.getLogger("botocore").setLevel(logging.INFO)

    def ask(self, act: str, **asked: object) -> Answer:
        """Return the answer; raise NotFound, IntegrityFault, or CustodyUnavailable for the rest."""
        try:
            answer: object = getattr(self._client, act)(**asked)
        except self._declined as exc:
            if _code(exc) == "NotFoundException":
                raise NotFound from exc
            raise _refusal(_code(exc)) from exc
        except self._nobody as exc:
            raise CustodyUnavailable("there are no AWS credentials; give them as AWS's own tools do") from exc
        except self._failures as exc:
            raise CustodyUnavailable(
                "KMS does not answer; look at SHOMEI_AWS_REGION, SHOMEI_AWS_ENDPOINT_URL and the network"
            ) from exc
        return mapping(answer)


def mapping(found: object) -> Answer:
    """Return what must be a mapping; raise CustodyUnavailable if it is none."""
    if not isinstance(found, dict):
        raise CustodyUnavailable("what KMS answers can not be understood")
    return cast(Answer, found)


class _Client(Protocol):
    """What is named of boto3's client; its calls are made by name."""

    def close(self) -> None: ...


def _connected(place: KmsPlace, failures: tuple[type[Exception], ...]) -> _Client:
    # No retries: a second CreateKey after a lost answer would leave a key that nobody names.
    config = _imported("botocore.config").Config(
        connect_timeout=place.timeout_s, read_timeout=place.timeout_s, retries={"total_max_attempts": 1}
    )
    try:
        return _imported("boto3").client(
            "kms", region_name=place.region, endpoint_url=place.endpoint_url, config=config
        )
    except failures as exc:
        raise StartRefused("SHOMEI_AWS_REGION or the AWS configuration is not one to connect with") from exc


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as exc:
        raise StartRefused("KMS custody needs the extra: pip install 'shomei-governed-memory[aws]'") from exc


def _code(exc: Exception) -> str:
    response: object = getattr(exc, "response", None)
    error = cast("dict[str, object]", response).get("Error") if isinstance(response, dict) else None
    code = cast("dict[str, object]", error).get("Code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""


def _refusal(code: str) -> Fault:
    match code:
        case _ if code in _OTHER_BYTES:
            return IntegrityFault("the wrapped key does not open: altered, moved or under another key")
        case _ if code in _REFUSED:
            return CustodyUnavailable(
                "AWS refuses the credentials, or their policy does not allow the KMS call"
            )
        case "LimitExceededException":
            return CustodyUnavailable("AWS has no room for another KMS key; raise the quota of keys")
        case "ThrottlingException":
            return CustodyUnavailable("AWS is asked more often than it allows; it is tried again")
        case _:
            return CustodyUnavailable("KMS would not do it now; look at the key and at the region")
