"""Settings to Engine: create an installation once, open it ever after. CUSTODY.md §2.

Opening never creates: a missing database, custody store or key refuses to start and changes nothing.
"""

from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from . import embedding, provider
from .embedding import Pair
from .engine import failpoints, recovery
from .engine.custody import Custody
from .engine.custody.holders import Holders
from .engine.errors import StartRefused
from .engine.indexes import Keep
from .engine.model import Scope, Tenant, new_id
from .engine.parts import Engine, Options, SystemClock
from .engine.receipts.signer import SeedFiles, Signers
from .engine.recovery import Recovered
from .engine.store import recall, tenants
from .engine.store.unit import Store
from .engine.verbs import access
from .engine.verbs.access import NewKey
from .home import held, make_private, require_vacant
from .settings import Settings, SignerKind


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
    require_vacant(settings)
    provider.require_reachable(settings)
    with embedding.built(settings):  # or refused, before anything is made
        pass
    for directory in (settings.data, settings.custody_store, settings.keys):
        make_private(directory)
    with held(settings, alone=True), closing(_create(settings)) as engine:
        tenant = access.create_tenant(engine, "default")
        admin = access.create_key(engine, tenant.tenant_id, Scope.ADMIN)
        data = access.create_key(engine, tenant.tenant_id, Scope.DATA)
        return Installed(tenant, admin, data, engine.signer.public_key_hex if engine.signer else None)


@contextmanager
def opened(settings: Settings, *, alone: bool = False, may_reembed: bool = False) -> Generator[Engine]:
    """Open what init made, prove that its parts belong together, and finish what a crash left.

    Raises StartRefused, with one sentence that says what to do, and changes nothing. Beside a running
    server nothing is recovered: that is the server's, and its erasures may be under way.
    """
    with held(settings, alone=alone) as is_alone:
        if alone and not may_reembed:
            _require_same_model(settings)
        with inside(settings, is_alone=is_alone) as (engine, _):
            yield engine


@contextmanager
def inside(settings: Settings, *, is_alone: bool) -> Generator[tuple[Engine, Recovered | None]]:
    """Open for one who holds the home; yield the engine and, when alone, what recovery found to do."""
    failpoints.arm(settings.failpoints)
    with embedding.built(settings) as pair, closing(_open(settings, pair)) as engine:
        yield engine, recovery.recover(engine) if is_alone else None


def require_fitting(settings: Settings, database: str) -> None:
    """Raise StartRefused unless this installation's custody could serve that database; leave no trace."""
    with Store.looking(database) as looked_at:
        installation_id, seen = recovery.seen(looked_at)
    _require_signer(settings)
    Custody.inspect(
        settings.custody_database,
        Holders(provider.opened(settings)),
        installation_id=installation_id,
        seen=seen,
        mirrors=settings.mirrors,
    )


def _create(settings: Settings) -> Engine:
    now = SystemClock().now()
    installation_id = new_id("ins_")
    keys = provider.initialised(settings)
    with ExitStack() as undo:
        custody = Custody.create(
            settings.custody_database,
            keys,
            installation_id=installation_id,
            now=now,
            mirrors=settings.mirrors,
        )
        undo.callback(custody.close)
        signers = _signers(settings, custody)
        if signers is not None:
            signers.create()
        store = Store.create(settings.database)
        undo.callback(store.close)
        with store.transaction() as connection:
            tenants.put_installation(connection, installation_id, at=now)
        engine = _engine(settings, store, custody, signers, None)
        undo.pop_all()
    return engine


def _open(settings: Settings, pair: Pair | None) -> Engine:
    # 1. Look at everything without a trace: a refusal must leave every byte as it was.
    with Store.looking(settings.database) as looked_at:
        installation_id, seen = recovery.seen(looked_at)
    keys = provider.opened(settings)
    _require_signer(settings)
    with ExitStack() as undo:
        # 2. Custody does the same before it repairs anything, and only then is the database opened.
        custody = Custody.open(
            settings.custody_database,
            keys,
            installation_id=installation_id,
            seen=seen,
            now=SystemClock().now(),
            mirrors=settings.mirrors,
            elsewhere=provider.elsewhere(settings),
        )
        undo.callback(custody.close)
        store = Store.existing(settings.database, pool=settings.database_pool)
        undo.callback(store.close)
        engine = _engine(settings, store, custody, _signers(settings, custody), pair)
        undo.pop_all()
    return engine


def _require_same_model(settings: Settings) -> None:
    """Raise StartRefused when the rows hold another model's vectors: comparing those is nonsense."""
    with Store.looking(settings.database) as store, store.snapshot() as connection:
        kept = recall.embedder_id(connection)
    with embedding.built(settings) as pair:
        meant = pair.queries.model_id if pair else kept
    if kept is not None and kept != meant:
        raise StartRefused(
            "the memories were embedded by another model than SHOMEI_EMBEDDER names; "
            "set it back, or run shomei reembed"
        )


def _engine(
    settings: Settings, store: Store, custody: Custody, signers: Signers | None, pair: Pair | None
) -> Engine:
    return Engine(
        store=store,
        custody=custody,
        signers=signers,
        embedder=pair.queries if pair else None,
        background_embedder=pair.passages if pair else None,
        clock=SystemClock(),
        options=Options(
            snapshot_retention_days=settings.snapshot_retention_days,
            lineage=settings.lineage == "on",
            strict_audit=settings.audit == "strict",
            indexes=Keep(settings.index_memory_mb * 1024 * 1024, float(settings.index_idle_s)),
        ),
    )


def _signers(settings: Settings, custody: Custody) -> Signers | None:
    """Return where seeds are: in the configured place; until a rotation brings one there, still in a file."""
    file = SeedFiles(settings.keys / "signer.key")
    match settings.signer:
        case SignerKind.NONE:
            return None
        case SignerKind.LOCAL_FILE:
            return Signers(file)
        case SignerKind.CUSTODY:
            return Signers(custody.seeds, [file])


def _require_signer(settings: Settings) -> None:
    """Raise StartRefused for a seed's file that is missing or damaged, before anything is opened."""
    found = SeedFiles(settings.keys / "signer.key").seeds() if settings.signer is not SignerKind.NONE else []
    if settings.signer is SignerKind.LOCAL_FILE and not found:
        raise StartRefused(
            "the signer key is missing; restore it, a new one is never made; if it was moved into custody, "
            "set SHOMEI_SIGNER=custody"
        )
