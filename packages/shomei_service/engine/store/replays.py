"""Results of calls that carried an Idempotency-Key, content-free. SEMANTICS.md §16."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, tuple_, update

from ..model import MemoryId
from ..prepared import Prepared
from .bound import TENANT, any_of, one_of
from .governance_tables import replay_memories, replays
from .records import record
from .tables import api_keys
from .unit import Unit

_ABOUT = select(replay_memories.c.actor, replay_memories.c.route, replay_memories.c.key_hmac).where(
    replay_memories.c.tenant_id == TENANT, one_of(replay_memories.c.memory_id)
)
_FORGET = Prepared(
    update(replays)
    .where(
        replays.c.tenant_id == TENANT,
        tuple_(replays.c.actor, replays.c.route, replays.c.key_hmac).in_(_ABOUT),
    )
    .values(fingerprint=None)
)


@dataclass(frozen=True, slots=True)
class Replay:
    """What is kept of one call: whose, where, under which key, of which body, and what it came to."""

    actor: str
    route: str
    key_hmac: str
    fingerprint: str | None
    result: str
    created_at: int


def find(unit: Unit, actor: str, route: str, key_hmac: str) -> Replay | None:
    """Return the call this caller made with this key on this route; until the unit ends, nobody makes it."""
    _take_turn(unit, actor)
    query = select(replays).where(
        replays.c.tenant_id == unit.tenant,
        replays.c.actor == actor,
        replays.c.route == route,
        replays.c.key_hmac == key_hmac,
    )
    row = unit.connection.execute(query).mappings().first()
    return record(Replay, row) if row else None


def _take_turn(unit: Unit, actor: str) -> None:
    """Wait for the caller's other calls that carry a key; on SQLite one writer waits for another anyway."""
    key_id = actor.removeprefix("key_")
    mine = select(api_keys.c.key_id).where(api_keys.c.tenant_id == unit.tenant, api_keys.c.key_id == key_id)
    unit.connection.execute(mine.with_for_update())


def put(unit: Unit, replay: Replay, about: Sequence[MemoryId]) -> None:
    """Keep a call's result, in the transaction of its effect, with the memories whose text its body held."""
    name = {
        "tenant_id": unit.tenant,
        "actor": replay.actor,
        "route": replay.route,
        "key_hmac": replay.key_hmac,
    }
    kept = {"fingerprint": replay.fingerprint, "result": replay.result, "created_at": replay.created_at}
    unit.connection.execute(insert(replays).values(name | kept))
    if about:
        unit.connection.execute(
            insert(replay_memories), [name | {"memory_id": memory_id} for memory_id in about]
        )


def forget(unit: Unit, ids: Sequence[MemoryId]) -> None:
    """Drop the fingerprints of bodies that held the text of erased memories."""
    _FORGET.run(unit.connection, any_of(unit, ids))


def drop_before(connection: Connection, at: int) -> None:
    """Drop the results of calls made before a time, of every tenant."""
    old = select(replays.c.tenant_id, replays.c.actor, replays.c.route, replays.c.key_hmac).where(
        replays.c.created_at < at
    )
    columns = replay_memories.c
    connection.execute(
        delete(replay_memories).where(
            tuple_(columns.tenant_id, columns.actor, columns.route, columns.key_hmac).in_(old)
        )
    )
    connection.execute(delete(replays).where(replays.c.created_at < at))
