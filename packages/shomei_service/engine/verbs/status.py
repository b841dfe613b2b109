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


def status(engine: Engine, caller: Caller, memory_id: str) -> MemoryStatus:
    """Return the memory's state; unknown, foreign and, for a data key, hidden ids are one answer."""
    caller.require(Scope.DATA)
    engine.audit.note(caller, "verify", [MemoryId(memory_id)] if _is_opaque(memory_id) else [])
    with engine.reading(caller.tenant) as unit:
        row = memories.find(unit, memory_id)
        if row is None or row.life is Life.PENDING:
            return _without_row(unit, memory_id)
        if row.life is Life.ERASING:
            return MemoryStatus(valid=False, failures=("erasure_pending",))
        hidden = _hidden_because(unit, row, engine.clock.now())
    if hidden and Scope.ADMIN not in caller.scopes:
        return _NOT_FOUND
    try:
        engine.rows.open_content(caller.tenant, row)
        engine.rows.open_features(caller.tenant, row)
    except Punctured:
        return MemoryStatus(valid=False, failures=("key_unavailable",))
    except IntegrityFault:
        return MemoryStatus(valid=False, failures=("integrity_error",))
    return MemoryStatus(valid=True, retrieval_safe=not hidden, failures=hidden)


def _is_opaque(memory_id: str) -> bool:
    """Say whether an id is one of ours; what a caller made up does not go on record."""
    return re.fullmatch(r"lm_[0-9a-f]{32}", memory_id) is not None


def _without_row(unit: Unit, memory_id: str) -> MemoryStatus:
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
