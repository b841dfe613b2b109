"""What goes on by itself, called from one thread of the service: erasures, vectors, the log."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from . import disposal
from .custody import Punctured
from .errors import IntegrityFault
from .model import MemoryRow, TenantId
from .parts import Engine
from .recall.embedder import Embedder, vectors_of
from .store import intents, memories, tenants, tombstones

_EMBED_ROWS = 16  # rows in one go; embedding takes about 30 ms a row


def upkeep(engine: Engine) -> bool:
    """Do one bounded round of background work; say whether more is waiting.

    Raises Fault when custody or storage does not answer: the work stays where it is and is tried again.
    """
    finish_erasures(engine)
    purge(engine)
    engine.mark_moved_logs()
    return embed_pending(engine, _EMBED_ROWS) > 0


def finish_erasures(engine: Engine) -> int:
    """Carry out every erasure that is durable and not finished; return how many there were."""
    with engine.store.snapshot() as connection:
        waiting = intents.unfinished(connection)
    for tenant_id, intent_id in waiting:
        disposal.carry_out(engine, tenant_id, intent_id)
    return len(waiting)


def purge(engine: Engine) -> None:
    """Empty SQLite's log so that no page of an erased row is left, then say so. CUSTODY.md §4."""
    waiting = tombstones.not_purged(engine.store)
    if waiting and engine.store.truncate_log():
        tombstones.mark_purged(engine.store, waiting)


def embedding_backlog(engine: Engine) -> int:
    """Return how many rows still lack their vectors."""
    if engine.embedder is None:
        return 0
    with engine.store.snapshot() as connection:
        return memories.count_not_embedded(connection)


def embed_pending(engine: Engine, limit: int) -> int:
    """Give up to `limit` rows their vectors; return how many were looked at."""
    if engine.embedder is None:
        return 0
    with engine.store.snapshot() as connection:
        waiting = memories.not_embedded(connection, limit)
    for tenant_id, group in groupby(sorted(waiting, key=itemgetter(0)), key=itemgetter(0)):
        _embed(engine, engine.embedder, tenant_id, [row for _, row in group])
    return len(waiting)


def _embed(engine: Engine, embedder: Embedder, tenant_id: TenantId, rows: Sequence[MemoryRow]) -> None:
    embedded: list[MemoryRow] = []
    for row in rows:
        try:
            text = engine.rows.open_content(tenant_id, row).text
            features = engine.rows.open_features(tenant_id, row)
            with engine.embedding:
                vectors = vectors_of(embedder, text)
            embedded.append(engine.rows.reseal_features(tenant_id, row, replace(features, vectors=vectors)))
        except (Punctured, IntegrityFault):
            continue  # erased while its vectors were made, or not what was sealed
    with engine.unit(tenant_id) as unit:
        revision = tenants.take_sequence(unit, 0, now=engine.clock.now()).revision
        for row in embedded:
            memories.put_recall(unit, row, row.sealed_recall, revision=revision)
