"""Before the first verb: prove that database and custody belong together, and undo what a restore undid.

CUSTODY.md §2 and §4, SEMANTICS.md §10. Everything is checked before anything is written; a database or a
custody store that does not fit refuses to open and is left byte for byte as it was.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from . import aftermath, deferral, disposal, journal, rotation, upkeep
from .custody import EpochEntry, Seen, address
from .custody.keytree import ROW_BITS
from .destruction import destroy, stated
from .errors import ErasurePending, StartRefused
from .failpoints import failpoint
from .model import (
    SYSTEM_ACTOR,
    Cause,
    Life,
    MemoryId,
    MemoryRow,
    ObligationState,
    Tenant,
    TenantId,
    new_id,
)
from .parts import Engine
from .receipts import bodies, log_bodies
from .receipts.bodies import Draft
from .store import memories, obligations, signing, tenants
from .store.unit import Store, Unit


def seen(store: Store) -> tuple[str, Seen]:
    """Return which installation the database belongs to and what it has seen its custody do.

    Custody checks it before it repairs anything: one that has done less was rolled back or lost.
    """
    with store.snapshot() as connection:
        found = tenants.read_installation(connection)
        if found is None:
            raise StartRefused("the database holds no installation; run shomei init first")
        journal_seq = tenants.journal_seen(connection)
        rows: dict[int, int] = {}
        for tenant in tenants.everyone(connection):
            first, last = address(tenant.number, 0), address(tenant.number, (1 << ROW_BITS) - 1)
            newest = tenants.highest_address(connection, first, last)
            rows[tenant.number] = 0 if newest is None else newest - first
    installation_id, epoch = found
    return installation_id, Seen(epoch=epoch, journal_seq=journal_seq, rows=rows)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What an opening found to do; all noughts after an orderly end."""

    erased_again: int
    lines_replayed: int
    logs_restarted: tuple[TenantId, ...]


def recover(engine: Engine) -> Recovered:
    """Finish every erasure that was begun, and erase again whatever a restored database brought back.

    One process at a time; what another one is carrying out is left to it.
    """
    with engine.duties.recovering() as go_on:
        return _recover(engine, go_on)


def _recover(engine: Engine, go_on: Callable[[], object]) -> Recovered:
    _, done = seen(engine.store)
    returned = [
        (tenant_id, rows, entry)
        for entry in engine.custody.epochs_after(done.epoch)
        for tenant_id, rows in _returned(engine, entry).items()
    ]
    restarted = _restart_logs(engine, {tenant_id for tenant_id, _, _ in returned})
    journal.replay_commitment_keys(engine)  # first: closures follow, and name the key in use
    failpoint("boot.reerase")
    going = frozenset(row.memory_id for _, rows, _ in returned for row in rows)
    for tenant_id, rows, entry in returned:
        _reerase(engine, tenant_id, rows, entry, going)
        go_on()
        failpoint("boot.reerase")
    replayed = journal.replay(engine)
    deferral.owe_what_is_deferred(engine)
    # What can not end now stays out of recall and is tried again; it is no reason to keep the rest closed.
    with suppress(ErasurePending):
        upkeep.finish_erasures(engine)
    with engine.store.transaction() as connection:
        tenants.advance_epoch(connection, engine.custody.epoch)
    rotation.finish(engine)
    upkeep.purge(engine)
    _mark_logs(engine)
    return Recovered(len(going), replayed, tuple(restarted))


def _mark_logs(engine: Engine) -> None:
    """Catch up on marks that a kill prevented: from here on a database behind this state is noticed."""
    marks = engine.custody.log_marks()
    for tenant in _everyone(engine):
        mark = marks.get(tenant.tenant_id)
        if mark is None or (mark.origin, mark.seq + 1) != (tenant.log_origin, tenant.next_seq):
            engine.mark_log(tenant.tenant_id)


def _everyone(engine: Engine) -> list[Tenant]:
    with engine.store.snapshot() as connection:
        return tenants.everyone(connection)


def _returned(engine: Engine, entry: EpochEntry) -> dict[TenantId, list[MemoryRow]]:
    """Return rows, by tenant, whose keys are gone although they live: only a restored database has them.

    The successor of an update counts: it lived when it was erased, whatever the backup caught of it. Rows
    on their way out are finished by their own intents.
    """
    with engine.store.snapshot() as connection:
        rows = memories.at_addresses(connection, entry.addresses)
    returned: dict[TenantId, list[MemoryRow]] = {}
    for tenant_id, row in rows:
        if row.life is not Life.ERASING:
            returned.setdefault(tenant_id, []).append(row)
    return returned


def _restart_logs(engine: Engine, restored: set[TenantId]) -> list[TenantId]:
    """Begin a new receipt log for every tenant whose database is behind what custody saw. RECEIPTS.md §2."""
    marks, restarted = engine.custody.log_marks(), list[TenantId]()
    for tenant in _everyone(engine):
        mark = marks.get(tenant.tenant_id)
        behind = mark is not None and (mark.origin != tenant.log_origin or mark.seq >= tenant.next_seq)
        lost = _signer_lost(engine, tenant)
        if not behind and tenant.tenant_id not in restored and lost is None:
            continue
        origin, next_seq = tenant.log_origin, tenant.next_seq
        if mark is not None:
            # The database may know more of its own origin than the last mark did, of another one nothing.
            known = next_seq if mark.origin == origin else 0
            origin, next_seq = mark.origin, max(mark.seq + 1, known)
        with engine.unit(tenant.tenant_id) as unit:
            tenants.restart_log(unit, new_id("shomei/"))
            drafts = [log_bodies.log_restart(previous_origin=origin, previous_next_seq=next_seq)]
            if lost is not None:
                drafts.append(lost)
            engine.attest(unit, drafts, actor=SYSTEM_ACTOR)
        engine.mark_log(tenant.tenant_id)
        restarted.append(tenant.tenant_id)
    return restarted


def _signer_lost(engine: Engine, tenant: Tenant) -> Draft | None:
    """Return the statement that another key signs now, when the one a restored log was at is gone."""
    available = engine.signing.available
    with engine.reading(tenant.tenant_id) as unit:
        at = signing.latest(unit, tenant.log_origin)
    if available is None or at is None or available.find(at) is not None:
        return None
    return rotation.signer_follows(at, available.newest)


def _reerase(
    engine: Engine,
    tenant_id: TenantId,
    rows: Sequence[MemoryRow],
    entry: EpochEntry,
    going: frozenset[MemoryId],
) -> None:
    """Delete rows that came back; their tombstones get the ids, times and causes they had before.

    What was made from them leaves recall again, unless it is among those that are going as well.
    """
    cause = Cause(entry.cause)
    destruction = stated(engine, destroy(engine, [row.address for row in rows], cause))
    with engine.unit(tenant_id) as unit:
        commitments = engine.commitments(tenants.get(unit))
        drafts = [
            bodies.reerase(
                memory_id=row.memory_id,
                tombstone_id=commitments.tombstone_id(row.memory_id),
                original_epoch=entry.epoch,
                destruction=destruction,
            )
            for row in rows
        ]
        attested = engine.attest(unit, drafts, actor=SYSTEM_ACTOR)
        disposal.bury(unit, rows, attested, at=entry.at, cause=cause)
        ids = [row.memory_id for row in rows]
        is_update = cause is Cause.SUPERSEDED_UPDATE
        aftermath.suppress_derived(
            engine, unit, ids, is_update=is_update, actor=SYSTEM_ACTOR, at=entry.at, going=going
        )
        _discharge(engine, unit, ids)


def _discharge(engine: Engine, unit: Unit, ids: Sequence[MemoryId]) -> None:
    """What the restored database still owes for these is done, and requests that waited hear of it."""
    owed = obligations.erasures_owed(unit, ids)
    done = [one.obligation_id for one in owed.values()]
    obligations.end(unit, done, ObligationState.DONE, at=engine.clock.now())
    intent_id = new_id("obl_")
    obligations.discharge(unit, ids, intent_id)
    aftermath.state_closures(engine, unit, intent_id, actor=SYSTEM_ACTOR)
