"""What goes on by itself, called from one thread of the service: erasures, vectors, the log."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from . import deferral, disposal, hold_end, policy, rotation
from .custody import Punctured
from .duties import EMBEDDING, UPKEEP
from .errors import ErasurePending, IntegrityFault, NotFound
from .model import (
    SYSTEM_ACTOR,
    Cause,
    Life,
    MemoryId,
    MemoryRow,
    ObligationKind,
    ObligationState,
    Release,
    RowFacts,
    TenantId,
    new_id,
)
from .parts import Engine
from .recall.embedder import EmbedderFault, vectors_of
from .shared_embedder import SharedEmbedder
from .store import (
    consents,
    holds,
    leases,
    leaving,
    memories,
    obligations,
    recall,
    replays,
    tenants,
    tombstones,
)
from .store.backlogs import Backlogs
from .store.backlogs import count as backlogs_of
from .store.intents import Intent
from .store.unit import Unit

_EXPIRED_ROWS = 500
_REPLAYS_KEPT_S = 2 * 86_400
_SWEEP_EVERY_S = 3_600
_EMBED_ROWS = 16  # rows in one go; embedding takes about 30 ms a row


def upkeep(engine: Engine) -> bool:
    """Do one bounded round of everything that goes on by itself; say whether rows still lack vectors.

    Raises Fault when custody or storage does not answer: the work stays where it is and is tried again.
    """
    tend(engine)
    return embed(engine)


def tend(engine: Engine) -> bool:
    """Do all of it but embedding, which takes long; say that there is no more. Raises as `upkeep` does."""
    engine.store.room.hold()
    engine.custody.refresh()  # what other processes erased must not stay derivable from memory here
    try:
        finish_erasures(engine)
    finally:  # one erasure that can not end must not stop everything else
        engine.custody.prepare()
        if engine.duties.has(UPKEEP):
            end_expired_holds(engine)
            erase_expired(engine)
            erase_after_withdrawal(engine)
            purge(engine)
            rotation.finish(engine)
            drop_old_replays(engine)
        engine.signing.refresh()
        engine.indexes.tend()
        engine.mark_moved_logs()
        engine.audit.flush()
    return False


def embed(engine: Engine) -> bool:
    """Give a bounded number of rows their vectors; say whether more are waiting."""
    return engine.duties.has(EMBEDDING) and embed_pending(engine, _EMBED_ROWS)


def finish_erasures(engine: Engine) -> None:
    """Carry out every erasure that is durable, not finished, and nobody's.

    Raises ErasurePending if one could not be; one whose keys are damaged keeps no other from its end.
    """
    waiting = engine.duties.unattended()
    damaged: ErasurePending | None = None
    for tenant_id, intent_id in waiting:
        try:
            disposal.carry_out(engine, tenant_id, intent_id)
        except ErasurePending as pending:
            if not isinstance(pending.__cause__, IntegrityFault):
                raise
            damaged = pending
    if damaged is not None:
        raise damaged


def end_expired_holds(engine: Engine) -> None:
    """Release holds whose time is over; expiry never erases by itself, release does. SEMANTICS.md §7."""
    with engine.store.snapshot() as connection:
        over = holds.expired(connection, engine.clock.now())
    for tenant_id, hold_id in over:
        intent_id = new_id("obl_")
        try:
            with engine.unit(tenant_id) as unit:
                _, going = hold_end.let_go(
                    engine, unit, hold_id, Release.EXPIRED, intent_id, actor=SYSTEM_ACTOR, confirm=True
                )
        except NotFound:
            continue  # somebody released it a moment ago
        if going:
            disposal.carry_out(engine, tenant_id, intent_id)


def erase_expired(engine: Engine) -> None:
    """Erase what expired, where the tenant's policy says so; what is held or restricted is owed. §5."""
    with engine.store.snapshot() as connection:
        keeping = [
            one.tenant_id for one in tenants.everyone(connection) if not one.policies.erase_when_expired
        ]
        over = memories.expired(connection, engine.clock.now(), _EXPIRED_ROWS, keeping=keeping)
    by_tenant: dict[TenantId, list[MemoryId]] = {}
    for tenant_id, memory_id in over:
        by_tenant.setdefault(tenant_id, []).append(memory_id)
    for tenant_id, ids in by_tenant.items():
        intent = _intent(engine, Cause.RETENTION_EXPIRED)
        with engine.unit(tenant_id) as unit:
            begun = deferral.begin(engine, unit, _still_live(unit, ids), intent)
        if begun:
            disposal.carry_out(engine, tenant_id, intent.intent_id)


def erase_after_withdrawal(engine: Engine) -> None:
    """Erase what rested on a consent that was withdrawn long enough ago. SEMANTICS.md §13."""
    kind = ObligationKind.ERASE_AFTER_CONSENT_WITHDRAWAL
    with engine.store.snapshot() as connection:
        due = obligations.due(connection, kind, engine.clock.now())
    for tenant_id, owed in due:
        if owed.subject is None or owed.purpose is None:
            continue
        intent = _intent(engine, Cause.CONSENT_WITHDRAWN)
        with engine.unit(tenant_id) as unit:
            ids = [one for one, agreed in consents.resting_on(unit, owed.subject, owed.purpose) if not agreed]
            begun = deferral.begin(engine, unit, _still_live(unit, ids), intent)
            obligations.end(unit, [owed.obligation_id], ObligationState.DONE, at=engine.clock.now())
        if begun:
            disposal.carry_out(engine, tenant_id, intent.intent_id)
        with engine.unit(
            tenant_id
        ) as unit:  # after the act: a restored database does it again until it is told
            engine.journal(unit, "obligation_done", [owed.obligation_id])


def _intent(engine: Engine, cause: Cause) -> Intent:
    basis = policy.basis_of(cause)
    return disposal.new_intent(engine, new_id("obl_"), cause=cause, basis=basis, actor=SYSTEM_ACTOR)


def _still_live(unit: Unit, ids: Sequence[MemoryId]) -> list[RowFacts]:
    return [row for row in leaving.lock_all(unit, ids) if row.life is Life.LIVE]


def drop_old_replays(engine: Engine) -> None:
    """Forget results of calls older than two days; within one they may be asked for again. §16."""
    now = engine.clock.now()
    if 0 <= now - engine.swept_at < _SWEEP_EVERY_S:  # a clock that went back is not waited for
        return
    engine.swept_at = now
    with engine.store.transaction() as connection:
        replays.drop_before(connection, now - _REPLAYS_KEPT_S)
        leases.drop_old(connection, now=now)


def purge(engine: Engine) -> None:
    """Empty SQLite's log so that no page of an erased row is left, then say so. CUSTODY.md §4."""
    waiting = tombstones.not_purged(engine.store)
    if waiting and engine.store.truncate_log():
        tombstones.mark_purged(engine.store, waiting)


def backlogs(engine: Engine) -> Backlogs:
    """Return how much waits, over all tenants; without an embedder nothing waits for vectors."""
    with engine.store.snapshot() as connection:
        waiting = backlogs_of(connection, now=engine.clock.now())
    return waiting if engine.embedder is not None else replace(waiting, embeddings=0)


def embedding_backlog(engine: Engine) -> int:
    """Return how many rows still lack their vectors and can have them."""
    if engine.embedder is None:
        return 0
    with engine.store.snapshot() as connection:
        return memories.count_not_embedded(connection, but=sorted(engine.embedder.waiting.hopeless))


def embed_pending(engine: Engine, limit: int) -> bool:
    """Give up to `limit` rows their vectors; say whether there may be more behind them.

    A damaged row has no vectors to be made: it is passed over, and keeps none behind it from theirs.
    """
    if engine.embedder is None:
        return False
    queue = engine.embedder.waiting
    with engine.store.snapshot() as connection:
        if recall.embedder_id(connection) not in (None, engine.embedder.model_id):
            return False  # the rows are another model's, and so is the work
        rows = memories.not_embedded(connection, limit, after=queue.after)
    queue.met |= queue.hopeless & {row.memory_id for _, row in rows}
    fresh = [(tenant_id, row) for tenant_id, row in rows if row.memory_id not in queue.hopeless]
    done = all(
        _embed(engine, engine.embedder, tenant_id, [row for _, row in group])
        for tenant_id, group in groupby(sorted(fresh, key=itemgetter(0)), key=itemgetter(0))
    )
    more = done and len(rows) == limit
    if more:
        queue.after = rows[-1][1].address
    else:
        queue.end()
    return more


def _embed(engine: Engine, embedder: SharedEmbedder, tenant_id: TenantId, rows: Sequence[MemoryRow]) -> bool:
    """Say whether every row has its vectors now, or will never have any."""
    embedded: list[MemoryRow] = []
    done = True
    for row in rows:
        try:
            text = engine.rows.open_content(tenant_id, row).text
            features = engine.rows.open_features(tenant_id, row)
            vectors = vectors_of(embedder, text)
            embedded.append(engine.rows.reseal_features(tenant_id, row, replace(features, vectors=vectors)))
        except EmbedderFault:
            done = False
            break  # the next round tries again
        except (Punctured, IntegrityFault):  # erased while its vectors were made, or not what was sealed
            embedder.waiting.hopeless.add(row.memory_id)
            embedder.waiting.met.add(row.memory_id)
    if not embedded:
        return done
    with engine.unit(tenant_id) as unit:
        if not recall.claim(unit.connection, embedder.model_id):
            return False  # they became another model's meanwhile
        revision = tenants.take_sequence(unit, 0, now=engine.clock.now()).revision
        for row in embedded:
            memories.put_recall(unit, row, row.sealed_recall, revision=revision)
    return done
