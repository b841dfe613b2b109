"""Read memories by id or page by page: recallable rows only. CONTRACT.md §1."""

from .. import limits, policy
from ..custody import Punctured
from ..errors import IntegrityFault, Invalid, NotFound, RowDamaged
from ..model import Caller, MemoryPage, MemoryRow, Recalled, Scope
from ..parts import Engine
from ..store import memories, restrictions, tenants

_FIRST = "0"


def get(engine: Engine, caller: Caller, memory_id: str) -> Recalled:
    """Return one recallable memory. Raise NotFound for other ids, RowDamaged if its bytes changed."""
    caller.require(Scope.DATA)
    now = engine.clock.now()
    with engine.reading(caller.tenant) as unit:
        row = policy.require_recallable(memories.find(unit, memory_id), now)
        if restrictions.hidden_sources(unit, row.memory_id, now):
            raise NotFound("no such memory")
    engine.audit.note(caller, "get", [row.memory_id])
    try:
        return engine.rows.recalled(caller.tenant, row)
    except Punctured as gone:
        raise _absence(engine, caller, row) from gone


def _absence(engine: Engine, caller: Caller, row: MemoryRow) -> NotFound | RowDamaged:
    """Return why a row's key is gone: it was erased while it was read, or the row names another's leaf.

    An erasure takes the row out of life before it touches the key, so a living row with a dead key is none.
    """
    with engine.reading(caller.tenant) as unit:
        now = memories.find(unit, row.memory_id)
    if now is None or not policy.is_present(now):
        return NotFound("no such memory")
    return RowDamaged("what is stored of this memory is not what was sealed")


def page(
    engine: Engine, caller: Caller, *, user_id: str | None = None, cursor: str | None = None, limit: int = 50
) -> MemoryPage:
    """Return recallable memories in the order they were added, the subject's only if one is named.

    Raises Invalid for a cursor that no page gave out or a limit outside 1..500.
    """
    caller.require(Scope.DATA)
    policy.require_count(limit, largest=limits.PAGE_ROWS)
    after = _position(cursor or _FIRST)
    with engine.reading(caller.tenant) as unit:
        subject = None
        if user_id is not None:
            policy.require_subject(user_id)
            subject = engine.commitments(tenants.get(unit)).subject(user_id)
        rows = memories.page(
            unit,
            subject=subject,
            after=after,
            limit=limit + 1,
            hidden=restrictions.out_of_recall(unit, engine.clock.now()),
        )
    more = len(rows) > limit
    shown = rows[:limit]
    asked = [subject] if subject is not None else []
    engine.audit.note(caller, "list", [row.memory_id for row in shown], subjects=asked)
    return MemoryPage(
        memories=[memory for row in shown if (memory := _open(engine, caller, row)) is not None],
        next_cursor=format(shown[-1].address, "x") if more else None,
    )


def _open(engine: Engine, caller: Caller, row: MemoryRow) -> Recalled | None:
    """Open a row; None for one erased while it was read and for one whose bytes changed (I-16)."""
    try:
        return engine.rows.recalled(caller.tenant, row)
    except (Punctured, IntegrityFault):
        return None


def _position(cursor: str) -> int:
    if not 1 <= len(cursor) <= 14 or any(digit not in "0123456789abcdef" for digit in cursor):
        raise Invalid("cursor is not one that a page gave out")
    return int(cursor, 16)
