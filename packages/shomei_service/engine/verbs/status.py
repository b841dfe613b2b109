"""Say how a memory stands: valid, safe to recall, purged. Not a signed receipt. SEMANTICS.md §5, §20."""

import re

from .. import policy
from ..custody import Punctured
from ..errors import IntegrityFault
from ..model import Caller, Life, MemoryId, MemoryRow, MemoryStatus, Scope
from ..parts import Engine
from ..store import memories, restrictions, tombstones
from ..store.unit import Unit

_NOT_FOUND = MemoryStatus(valid=None)
_DAMAGED = MemoryStatus(valid=False, failures=("integrity_error",))


def status(engine: Engine, caller: Caller, memory_id: str) -> MemoryStatus:
    """Return the memory's state; unknown, foreign and, for a data key, hidden ids are one answer."""
    caller.require(Scope.DATA)
    engine.audit.note(caller, "verify", [MemoryId(memory_id)] if _is_opaque(memory_id) else [])
    with engine.reading(caller.tenant) as unit:
        row = memories.find(unit, memory_id)
        if row is None or row.life is not Life.LIVE:
            return _on_its_way(unit, memory_id, row)
        hidden = _hidden_because(unit, row, engine.clock.now())
    if hidden and Scope.ADMIN not in caller.scopes:
        return _NOT_FOUND
    try:
        engine.rows.require_whole(caller.tenant, row)
    except Punctured:
        with engine.reading(caller.tenant) as unit:
            now = memories.find(unit, memory_id)
            if now is None or now.life is not Life.LIVE:
                return _on_its_way(unit, memory_id, now)
        return _DAMAGED  # it lives, and the leaf it names is one that was erased: not its own
    except IntegrityFault:
        return _DAMAGED
    return MemoryStatus(valid=True, retrieval_safe=not hidden, failures=hidden)


def _is_opaque(memory_id: str) -> bool:
    """Say whether an id is one of ours; what a caller made up does not go on record."""
    return re.fullmatch(r"lm_[0-9a-f]{32}", memory_id) is not None


def _on_its_way(unit: Unit, memory_id: str, row: MemoryRow | None) -> MemoryStatus:
    """Answer for a memory that is not there, not there yet, or being erased."""
    if row is not None and row.life is Life.ERASING:
        return MemoryStatus(valid=False, failures=("erasure_pending",))
    stone = tombstones.of_memory(unit, memory_id)
    if stone is None:
        return _NOT_FOUND
    return MemoryStatus(
        valid=False, embedding_retired=True, physically_purged=stone.physically_purged, failures=("erased",)
    )


def _hidden_because(unit: Unit, row: MemoryRow, now: int) -> tuple[str, ...]:
    """Return why recall passes the memory over; empty when it does not."""
    reasons = (
        ("restricted", row.grounds > 0),
        ("consent_invalid", not row.consented),
        ("expired", row.expires_at is not None and row.expires_at <= now),
    )
    found = tuple(reason for reason, applies in reasons if applies)
    if not found and policy.is_recallable(row, now) and restrictions.hidden_sources(unit, row.memory_id, now):
        return ("restricted",)
    return found
