"""The environment as frozen Settings: the service's only reader of it. CONTRACT.md §4."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from .engine.errors import StartRefused

_FASTEST = 1_000_000_000  # for an operator who limits elsewhere


class CustodyKind(StrEnum):
    """Who holds the epoch key."""

    LOCAL_FILE = "local-file"
    PKCS11 = "pkcs11"
    VAULT = "vault"
    AWS_KMS = "aws-kms"


class SignerKind(StrEnum):
    """Who signs receipts."""

    LOCAL_FILE = "local-file"
    CUSTODY = "custody"
    NONE = "none"


class Environment(StrEnum):
    """Production refuses what is for development only."""

    DEVELOPMENT = "development"
    PRODUCTION = "production"


class Settings(BaseSettings):
    """The effective settings; each is SHOMEI_ and its name in upper case.

    Rates are for each API key and second, a batch counting by its memories; failed keys are for each
    source or key id and minute. RELIABILITY.md §6. Rates and the database pool are each worker's own.
    """

    model_config = SettingsConfigDict(env_prefix="SHOMEI_", frozen=True, extra="ignore")

    home: Path = Path("shomei")
    data_dir: Path | None = None
    custody_dir: Path | None = None
    key_dir: Path | None = None
    database_url: str | None = None
    custody_url: str | None = None
    custody: CustodyKind = CustodyKind.LOCAL_FILE
    custody_mirrors: str = ""  # directories, with colons between them
    custody_timeout_s: float = Field(default=10, gt=0, le=300)
    pkcs11_module: Path | None = None
    pkcs11_token: str | None = None
    pkcs11_pin: SecretStr | None = None
    pkcs11_pin_file: Path | None = None
    vault_url: str | None = None
    vault_token: SecretStr | None = None
    vault_token_file: Path | None = None
    vault_mount: str = "transit"
    vault_namespace: str | None = None
    vault_ca_file: Path | None = None
    aws_region: str | None = None
    aws_endpoint_url: str | None = None
    aws_deletion_days: int = Field(default=7, ge=7, le=30)  # what KMS allows
    signer: SignerKind = SignerKind.LOCAL_FILE
    lineage: Literal["on", "off"] = "on"
    audit: Literal["batched", "strict"] = "batched"
    env: Environment = Environment.DEVELOPMENT
    snapshot_retention_days: int | None = Field(default=None, ge=0, le=36_500)
    embedder: str = "builtin"  # or the address of one elsewhere, which is told every text
    embedder_model: str = Field(default="", max_length=128)
    embedder_key: SecretStr | None = None
    embedder_dimensions: int = Field(default=0, ge=0, le=8_192)
    embedder_hosts: str = ""  # those it may be at, with commas between them
    index_memory_mb: int = Field(default=512, ge=1, le=1_000_000)
    index_idle_s: int = Field(default=1_800, ge=1, le=31_536_000)
    host: str = "127.0.0.1"
    port: int = Field(default=8088, ge=0, le=65_535)
    workers: int = Field(default=1, ge=1, le=64)
    database_pool: int = Field(default=10, ge=1, le=1_000)
    insecure_http: bool = False
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")
    rate_requests: int = Field(default=5_000, ge=1, le=_FASTEST)
    rate_adds: int = Field(default=20_000, ge=1, le=_FASTEST)
    rate_searches: int = Field(default=1_000, ge=1, le=_FASTEST)
    rate_governed: int = Field(default=1_000, ge=1, le=_FASTEST)
    rate_failed_keys: int = Field(default=10, ge=1, le=_FASTEST)
    failpoints: str = ""

    @property
    def data(self) -> Path:
        """Where the database lives when it is SQLite."""
        return self.data_dir or self.home / "data"

    @property
    def custody_store(self) -> Path:
        """Where the custody store lives when it is SQLite; never with the database's backups."""
        return self.custody_dir or self.home / "custody"

    @property
    def keys(self) -> Path:
        """Where local-file custody and the local-file signer keep their keys."""
        return self.key_dir or self.home / "keys"

    @property
    def database(self) -> str:
        """The database's SQLAlchemy URL."""
        return self.database_url or f"sqlite:///{(self.data / 'shomei.db').absolute()}"

    @property
    def custody_database(self) -> str:
        """The custody store's SQLAlchemy URL."""
        return self.custody_url or f"sqlite:///{(self.custody_store / 'custody.db').absolute()}"

    @property
    def mirrors(self) -> tuple[Path, ...]:
        """The directories that each get a copy of the custody store."""
        return tuple(Path(part) for part in self.custody_mirrors.split(":") if part)

    def shown(self) -> dict[str, str]:
        """Return the effective settings without anything secret: URLs are shown without user and password."""
        values = {
            f"SHOMEI_{name.upper()}": str(value)
            for name, value in self.model_dump().items()
            if value is not None
        }
        for name in ("SHOMEI_DATABASE_URL", "SHOMEI_CUSTODY_URL"):
            if name in values:
                values[name] = values[name].split("://", 1)[0] + "://(set)"
        for name in ("SHOMEI_VAULT_URL", "SHOMEI_AWS_ENDPOINT_URL"):
            if "@" in values.get(name, ""):
                values[name] = "(refused: it holds a password)"
        return values


def read_settings() -> Settings:
    """Return this process's settings; name the wrong ones on stderr and raise StartRefused."""
    try:
        return Settings()
    except ValidationError as exc:
        for error in exc.errors(include_input=False, include_url=False):
            name = "SHOMEI_" + "_".join(str(part) for part in error["loc"]).upper()
            print(f"{name}: {error['msg']}", file=sys.stderr)  # noqa: T201
        raise StartRefused("a setting is not valid") from None
