"""Say how a memory stands: valid, safe to recall, purged. Not a signed receipt. SEMANTICS.md §5."""

from ..custody import Punctured
from ..errors import IntegrityFault
from ..model import Caller, Life, MemoryStatus, Scope
from ..parts import Engine
from ..store import memories, tombstones

_NOT_FOUND = MemoryStatus(valid=None)


def status(engine: Engine, caller: Caller, memory_id: str) -> MemoryStatus:
    """Return the memory's state; unknown and foreign ids are one answer, never an error."""
    caller.require(Scope.DATA)
    with engine.reading(caller.tenant) as unit:
        row = memories.find(unit, memory_id)
        stone = tombstones.of_memory(unit, memory_id) if row is None else None
    if stone is not None:
        return MemoryStatus(
            valid=False,
            embedding_retired=True,
            physically_purged=stone.physically_purged,
            failures=("erased",),
        )
    if row is None:
        return _NOT_FOUND
    if row.life is not Life.LIVE:
        return MemoryStatus(valid=False, failures=("erasure_pending",))
    try:
        engine.rows.open_content(caller.tenant, row)
        engine.rows.open_features(caller.tenant, row)
    except Punctured:
        return MemoryStatus(valid=False, failures=("key_unavailable",))
    except IntegrityFault:
        return MemoryStatus(valid=False, failures=("integrity_error",))
    return MemoryStatus(valid=True, retrieval_safe=True)
