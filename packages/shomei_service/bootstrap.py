"""Settings to Engine: create an installation once, open it ever after. CUSTODY.md §2.

Opening never creates: a missing database, custody store or key refuses to start and changes nothing.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from .engine import failpoints, recovery
from .engine.custody import Custody
from .engine.custody.providers.local_file import LocalFile
from .engine.errors import StartRefused
from .engine.model import Scope, Tenant, new_id
from .engine.parts import Engine, Options, SystemClock
from .engine.recall.embedder import build_embedder
from .engine.receipts.signer import LocalFileSigner, ReceiptSigner
from .engine.store import tenants
from .engine.store.unit import Store
from .engine.verbs import access
from .engine.verbs.access import NewKey
from .settings import CustodyKind, Environment, Settings, SignerKind

_DEVELOPMENT_NOTICE = (
    "shomei: key custody is dev_local_file, for development only: "
    "keys are files, and their destruction is not assured"
)


@dataclass(frozen=True, slots=True)
class Installed:
    """What init made; the two tokens are shown once."""

    tenant: Tenant
    admin_key: NewKey
    data_key: NewKey
    public_key_hex: str | None


def install(settings: Settings) -> Installed:
    """Make an installation: database, custody, signer, one tenant, one admin and one data key.

    Raises StartRefused if any part of one is already there; nothing is replaced.
    """
    _require_allowed(settings)
    _require_vacant(settings)
    for directory in (settings.data, settings.custody_store, settings.keys):
        _make_private(directory)
    now = SystemClock().now()
    installation_id = new_id("ins_")
    signer = _signer(settings, create=True)
    provider = LocalFile.initialise(settings.keys / "custody")
    custody = Custody.create(settings.custody_database, provider, installation_id=installation_id, now=now)
    store = Store.create(settings.database)
    with store.transaction() as connection:
        tenants.put_installation(connection, installation_id, at=now)
    engine = _engine(settings, store, custody, signer)
    try:
        tenant = access.create_tenant(engine, "default")
        admin = access.create_key(engine, tenant.tenant_id, Scope.ADMIN)
        data = access.create_key(engine, tenant.tenant_id, Scope.DATA)
    finally:
        engine.close()
    return Installed(tenant, admin, data, signer.public_key_hex if signer else None)


def open_engine(settings: Settings) -> Engine:
    """Open what init made, prove that its parts belong together, and finish what a crash left.

    Raises StartRefused, with one sentence that says what to do, and changes nothing.
    """
    _require_allowed(settings)
    failpoints.arm(settings.failpoints)
    store = Store.open(settings.database)
    installation_id, epoch = recovery.recorded(store)
    custody = Custody.open(
        settings.custody_database,
        LocalFile(settings.keys / "custody"),
        installation_id=installation_id,
        database_epoch=epoch,
        now=SystemClock().now(),
    )
    recovery.require_belonging(store, custody)
    engine = _engine(settings, store, custody, _signer(settings, create=False))
    recovery.recover(engine)
    return engine


def _engine(settings: Settings, store: Store, custody: Custody, signer: ReceiptSigner | None) -> Engine:
    return Engine(
        store=store,
        custody=custody,
        signer=signer,
        embedder=build_embedder(settings.embedder),
        clock=SystemClock(),
        options=Options(snapshot_retention_days=settings.snapshot_retention_days),
    )


def _signer(settings: Settings, *, create: bool) -> ReceiptSigner | None:
    if settings.signer is SignerKind.NONE:
        return None
    path = settings.keys / "signer.key"
    return LocalFileSigner.create(path) if create else LocalFileSigner.open(path)


def _require_allowed(settings: Settings) -> None:
    if settings.custody is CustodyKind.LOCAL_FILE:
        if settings.env is Environment.PRODUCTION:
            raise StartRefused(
                "production refuses development custody; set SHOMEI_CUSTODY to a production provider"
            )
        print(_DEVELOPMENT_NOTICE, file=sys.stderr)  # noqa: T201


def _require_vacant(settings: Settings) -> None:
    """Refuse before anything is made if any of the three places is already in use. CUSTODY.md §2."""
    for directory in (settings.data, settings.custody_store, settings.keys):
        if directory.is_dir() and any(directory.iterdir()):
            raise StartRefused(
                "an installation, or part of one, is already there; init creates, it never replaces"
            )


def _make_private(directory: Path) -> None:
    """Make the directory, open to its owner alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_mode & 0o077:
        directory.chmod(0o700)
