"""Settings to Engine: create an installation once, open it ever after. CUSTODY.md §2.

Opening never creates: a missing database, custody store or key refuses to start and changes nothing.
"""

import sys
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

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
from .home import held, make_private, require_vacant
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
    require_vacant(settings)
    for directory in (settings.data, settings.custody_store, settings.keys):
        make_private(directory)
    with held(settings, alone=True), closing(_create(settings)) as engine:
        tenant = access.create_tenant(engine, "default")
        admin = access.create_key(engine, tenant.tenant_id, Scope.ADMIN)
        data = access.create_key(engine, tenant.tenant_id, Scope.DATA)
        return Installed(tenant, admin, data, engine.signer.public_key_hex if engine.signer else None)


@contextmanager
def opened(settings: Settings, *, alone: bool = False) -> Generator[Engine]:
    """Open what init made, prove that its parts belong together, and finish what a crash left.

    Raises StartRefused, with one sentence that says what to do, and changes nothing. Beside a running
    server nothing is recovered: that is the server's, and its erasures may be under way.
    """
    _require_allowed(settings)
    failpoints.arm(settings.failpoints)
    with held(settings, alone=alone) as is_alone, closing(_open(settings)) as engine:
        if is_alone:
            recovery.recover(engine)
        yield engine


def _create(settings: Settings) -> Engine:
    now = SystemClock().now()
    installation_id = new_id("ins_")
    signer = _signer(settings, create=True)
    provider = LocalFile.initialise(settings.keys / "custody")
    with ExitStack() as undo:
        custody = Custody.create(
            settings.custody_database, provider, installation_id=installation_id, now=now
        )
        undo.callback(custody.close)
        store = Store.create(settings.database)
        undo.callback(store.close)
        with store.transaction() as connection:
            tenants.put_installation(connection, installation_id, at=now)
        engine = _engine(settings, store, custody, signer)
        undo.pop_all()
    return engine


def _open(settings: Settings) -> Engine:
    # 1. Look at everything without a trace: a refusal must leave every byte as it was.
    with Store.looking(settings.database) as looked_at:
        installation_id, seen = recovery.seen(looked_at)
    signer = _signer(settings, create=False)
    provider = LocalFile(settings.keys / "custody")
    with ExitStack() as undo:
        # 2. Custody does the same before it repairs anything, and only then is the database opened.
        custody = Custody.open(
            settings.custody_database,
            provider,
            installation_id=installation_id,
            seen=seen,
            now=SystemClock().now(),
        )
        undo.callback(custody.close)
        store = Store.existing(settings.database)
        undo.callback(store.close)
        engine = _engine(settings, store, custody, signer)
        undo.pop_all()
    return engine


def _engine(settings: Settings, store: Store, custody: Custody, signer: ReceiptSigner | None) -> Engine:
    return Engine(
        store=store,
        custody=custody,
        signer=signer,
        embedder=build_embedder(settings.embedder),
        clock=SystemClock(),
        options=Options(
            snapshot_retention_days=settings.snapshot_retention_days,
            lineage=settings.lineage == "on",
            strict_audit=settings.audit == "strict",
        ),
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
