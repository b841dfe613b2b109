"""Restriction as a mechanism: grounds opened and lifted, each on record. SEMANTICS.md §6."""

from collections.abc import Sequence

from .model import SOURCE_GROUNDS, Attested, Ground, Lift, MemoryId
from .parts import Engine
from .receipts import bodies
from .store import restrictions
from .store.unit import Unit


def apply(
    engine: Engine, unit: Unit, ids: Sequence[MemoryId], ground: Ground, *, actor: str
) -> dict[MemoryId, Attested]:
    """Open a ground on memories; those that have it already are left alone and get no receipt."""
    fresh: list[tuple[MemoryId, int]] = []
    for memory_id in ids:
        known = restrictions.grounds_of(unit, memory_id)
        if ground not in known:
            fresh.append((memory_id, len(known) + 1))
    if not fresh:
        return {}
    now = engine.clock.now()
    if ground not in SOURCE_GROUNDS:  # those follow from what was erased, also after a restore
        ids = [memory_id for memory_id, _ in fresh]
        engine.journal(unit, "restricted", ids, codes={"ground": ground.value})
    for memory_id, _ in fresh:
        restrictions.open_ground(unit, memory_id, ground, at=now)
    drafts = [
        bodies.restriction(memory_id=memory_id, action="applied", reason=ground.value, ground_count=count)
        for memory_id, count in fresh
    ]
    attested = engine.attest(unit, drafts, actor=actor)
    return {memory_id: receipt for (memory_id, _), receipt in zip(fresh, attested, strict=True)}


def lift(
    engine: Engine,
    unit: Unit,
    memory_id: MemoryId,
    lifted: Sequence[Ground],
    reason: Lift,
    *,
    actor: str,
    notice_recorded: bool = False,
) -> Attested | None:
    """Close those of the grounds that are open; None when none was."""
    known = restrictions.grounds_of(unit, memory_id)
    closing = [ground for ground in lifted if ground in known]
    if not closing:
        return None
    engine.journal(
        unit, "lifted", [memory_id], codes={f"ground{at}": ground.value for at, ground in enumerate(closing)}
    )
    restrictions.lift(unit, memory_id, closing)
    draft = bodies.restriction(
        memory_id=memory_id,
        action="lifted",
        reason=reason.value,
        ground_count=len(known) - len(closing),
        notice_recorded=notice_recorded,
    )
    return engine.attest(unit, [draft], actor=actor)[0]
