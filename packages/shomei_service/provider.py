"""Settings to the provider of epoch keys: which one, and whether it may be used here. CUSTODY.md §5.

Every misconfiguration is one sentence that names the setting to look at; none ever holds a PIN or a token.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, LiteralString

from pydantic import SecretStr

from .engine.custody.providers.aws_kms import AwsKms
from .engine.custody.providers.kms_wire import KmsPlace
from .engine.custody.providers.local_file import LocalFile
from .engine.custody.providers.pkcs11 import Pkcs11, TokenPlace
from .engine.custody.providers.protocol import Handle, KeyCustody, Provider
from .engine.custody.providers.vault_transit import VaultTransit
from .engine.custody.providers.vault_wire import VaultPlace
from .engine.errors import CustodyUnavailable, StartRefused
from .settings import CustodyKind, Environment, Settings

_SECRET_BYTES: Final = 4_096  # a token or a PIN, not a file named by mistake
_NO_KEY: Final = Handle("epoch-none")
_KINDS: Final = {
    KeyCustody.DEV_LOCAL_FILE: CustodyKind.LOCAL_FILE,
    KeyCustody.HSM_PKCS11: CustodyKind.PKCS11,
    KeyCustody.VAULT_TRANSIT: CustodyKind.VAULT,
    KeyCustody.KMS_AWS: CustodyKind.AWS_KMS,
}
_NOTICES: Final = {
    KeyCustody.DEV_LOCAL_FILE: (
        "shomei: key custody is dev_local_file, for development only: "
        "keys are files, and their destruction is not assured"
    ),
    KeyCustody.HSM_PKCS11: (
        "shomei: key custody is a token in software (SoftHSM), for development only: "
        "its keys are files, and their destruction is not assured"
    ),
}


def opened(settings: Settings) -> Provider:
    """Return the provider that init used; raise StartRefused, saying what to look at."""
    _require_no_files_in_production(settings)
    return _allowed(settings, _provider(settings, create=False))


def initialised(settings: Settings) -> Provider:
    """Return the provider for a custody that is about to be made; otherwise as `opened`."""
    _require_no_files_in_production(settings)
    return _allowed(settings, _provider(settings, create=True))


def goal(settings: Settings, kind: CustodyKind) -> Provider:
    """Return the provider that custody is to be moved to, made ready; otherwise as `opened`."""
    moved = settings.model_copy(update={"custody": kind})
    is_there = kind is CustodyKind.LOCAL_FILE and is_described(settings, kind)
    _require_no_files_in_production(moved)
    return _allowed(moved, _provider(moved, create=not is_there))


def require_reachable(settings: Settings) -> None:
    """Ask a provider elsewhere something, before anything is made here; raise what it fails with."""
    _require_no_files_in_production(settings)
    if settings.custody is not CustodyKind.LOCAL_FILE:
        _provider(settings, create=True).state(_NO_KEY)


def elsewhere(settings: Settings) -> Callable[[KeyCustody], Provider | None]:
    """Return what finds the other providers these settings describe, for keys that a move left with them."""

    def find(code: KeyCustody) -> Provider | None:
        kind = _KINDS.get(code)
        if kind is None or not is_described(settings, kind):
            return None
        return _provider(settings.model_copy(update={"custody": kind}), create=False)

    return find


def is_described(settings: Settings, kind: CustodyKind) -> bool:
    """Say whether the settings tell where a kind of provider is, in use or not."""
    match kind:
        case CustodyKind.LOCAL_FILE:
            return (settings.keys / "custody").is_dir()
        case CustodyKind.PKCS11:
            return settings.pkcs11_module is not None
        case CustodyKind.VAULT:
            return settings.vault_url is not None
        case CustodyKind.AWS_KMS:
            return settings.aws_region is not None or settings.custody is kind


def _provider(settings: Settings, *, create: bool) -> Provider:
    match settings.custody:
        case CustodyKind.LOCAL_FILE:
            place = settings.keys / "custody"
            return LocalFile.initialise(place) if create else LocalFile(place)
        case CustodyKind.PKCS11:
            return _pkcs11(settings, create=create)
        case CustodyKind.VAULT:
            return _vault(settings)
        case CustodyKind.AWS_KMS:
            return AwsKms(
                KmsPlace(
                    region=settings.aws_region,
                    deletion_days=settings.aws_deletion_days,
                    endpoint_url=settings.aws_endpoint_url,
                    timeout_s=settings.custody_timeout_s,
                )
            )


def _pkcs11(settings: Settings, *, create: bool) -> Pkcs11:
    module, token = settings.pkcs11_module, settings.pkcs11_token
    if module is None or token is None:
        raise StartRefused("PKCS#11 custody needs SHOMEI_PKCS11_MODULE and SHOMEI_PKCS11_TOKEN")
    pin = _secret(settings.pkcs11_pin, settings.pkcs11_pin_file, "SHOMEI_PKCS11_PIN")
    return Pkcs11(TokenPlace(module, token), pin, initialise=create)


def _vault(settings: Settings) -> VaultTransit:
    if settings.vault_url is None:
        raise StartRefused("Vault custody needs SHOMEI_VAULT_URL")
    place = VaultPlace(
        url=settings.vault_url,
        mount=settings.vault_mount,
        namespace=settings.vault_namespace,
        ca_file=None if settings.vault_ca_file is None else str(settings.vault_ca_file),
        timeout_s=settings.custody_timeout_s,
    )
    return VaultTransit(place, _secret(settings.vault_token, settings.vault_token_file, "SHOMEI_VAULT_TOKEN"))


def _secret(value: SecretStr | None, file: Path | None, setting: LiteralString) -> Callable[[], str]:
    """Return what reads the secret each time it is needed; raise StartRefused if there is none to read."""
    if (value is None) == (file is None):
        raise StartRefused("custody needs either " + setting + "_FILE or " + setting)

    def read() -> str:
        if value is not None:
            return value.get_secret_value()
        try:
            text = _first_line(file) if file is not None else ""
        except (OSError, ValueError) as exc:
            raise CustodyUnavailable("the file that " + setting + "_FILE names can not be read") from exc
        return text

    try:
        secret = read()
    except CustodyUnavailable as exc:
        raise StartRefused("the file that " + setting + "_FILE names can not be read") from exc
    if not secret or not secret.isprintable() or not secret.isascii():
        raise StartRefused(setting + " is empty, or is not one line of plain characters")
    return read


def _first_line(file: Path) -> str:
    with file.open(encoding="utf-8") as opened_file:
        return opened_file.read(_SECRET_BYTES).rstrip("\r\n")


def _require_no_files_in_production(settings: Settings) -> None:
    if settings.custody is CustodyKind.LOCAL_FILE and settings.env is Environment.PRODUCTION:
        raise StartRefused(
            "production refuses development custody; set SHOMEI_CUSTODY to a production provider"
        )


def _allowed(settings: Settings, provider: Provider) -> Provider:
    """Return the provider; say aloud that it is for development, or raise StartRefused in production."""
    about = provider.describe()
    if about.is_development:
        if settings.env is Environment.PRODUCTION:
            raise StartRefused("production refuses a token in software; use one in hardware")
        print(_NOTICES[about.key_custody], file=sys.stderr)  # noqa: T201
    return provider
