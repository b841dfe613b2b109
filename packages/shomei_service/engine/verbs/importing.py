"""Take memories in from a file, each line once, and none that was erased. docs/spec/export.md §9."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from .. import admission
from ..errors import Refusal
from ..model import Caller, MemoryId, NewMemory, Scope, SourceKind
from ..parts import Engine
from ..receipts.commitments import Commitments
from ..store import imports, memories, tenants, tombstones
from ..store.imports import Imported
from ..store.unit import Unit

_OURS: Final = re.compile(r"lm_[0-9a-f]{32}")


class Fate(StrEnum):
    """What became of a line."""

    TAKEN = "taken"
    KNOWN = "already_here"
    ERASED = "erased"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Line:
    """One memory of a file: where it stands, what it is known by, and what it says.

    `identity` is the id that the file gives it; one without an id is known by all that it says, which is
    forgotten when the memory is erased.
    """

    number: int
    identity: str
    has_id: bool
    new: NewMemory
    created_at: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a line; the reason of a refusal is one of our fixed sentences."""

    number: int
    fate: Fate
    memory_id: MemoryId | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Keyed:
    line: Line
    key: str


def take_in(engine: Engine, caller: Caller, form: str, lines: Sequence[Line]) -> list[Outcome]:
    """Remember the lines that are new; those that are refused one by one do not stop the others."""
    caller.require(Scope.ADMIN)
    with engine.reading(caller.tenant) as unit:
        commitments = engine.commitments(tenants.get(unit))
        keyed = [_keyed(commitments, form, one) for one in lines]
        outcomes = _settled(unit, keyed)
    new = _first_of_each([one for one in keyed if one.line.number not in outcomes])
    try:
        outcomes |= _admit(engine, caller, form, new)
    except Refusal:
        for one in new:  # somebody among them may not be remembered; the others may
            try:
                outcomes |= _admit(engine, caller, form, [one])
            except Refusal as refused:
                outcomes[one.line.number] = Outcome(one.line.number, Fate.REFUSED, reason=refused.message)
    repeated = (one.number for one in lines if one.number not in outcomes)
    outcomes |= {number: Outcome(number, Fate.KNOWN) for number in repeated}
    return [outcomes[one.number] for one in lines]


def look(engine: Engine, caller: Caller, form: str, lines: Sequence[Line]) -> list[Outcome]:
    """Say what would become of the lines as far as can be told without taking any in."""
    caller.require(Scope.ADMIN)
    with engine.reading(caller.tenant) as unit:
        commitments = engine.commitments(tenants.get(unit))
        keyed = [_keyed(commitments, form, one) for one in lines]
        outcomes = _settled(unit, keyed)
    return [outcomes.get(one.number, Outcome(one.number, Fate.TAKEN)) for one in lines]


def _keyed(commitments: Commitments, form: str, line: Line) -> _Keyed:
    kind = "id" if line.has_id else "said"  # no id can pass for what another line says
    return _Keyed(line, commitments.import_line(form, f"{kind}\0{line.identity}"))


def _settled(unit: Unit, keyed: Sequence[_Keyed]) -> dict[int, Outcome]:
    """Return what is already known of lines: that they are here, or that they were erased."""
    taken = imports.find(unit, [one.key for one in keyed])
    outcomes: dict[int, Outcome] = {}
    for one in keyed:
        memory_id = taken.get(one.key)
        if memory_id is None and _OURS.fullmatch(one.line.identity):
            memory_id = MemoryId(one.line.identity)
        fate = _fate(unit, memory_id) if memory_id is not None else None
        if fate is not None:
            outcomes[one.line.number] = Outcome(one.line.number, fate, memory_id)
    return outcomes


def _fate(unit: Unit, memory_id: MemoryId) -> Fate | None:
    if tombstones.of_memory(unit, memory_id) is not None:
        return Fate.ERASED
    return Fate.KNOWN if memories.find(unit, memory_id) is not None else None


def _first_of_each(keyed: Sequence[_Keyed]) -> list[_Keyed]:
    first: dict[str, _Keyed] = {}
    for one in keyed:
        first.setdefault(one.key, one)
    return list(first.values())


def _admit(engine: Engine, caller: Caller, form: str, keyed: Sequence[_Keyed]) -> dict[int, Outcome]:
    """Store lines and what they are known by, all or none. Raise a Refusal for any that may not be."""
    if not keyed:
        return {}
    with engine.reading(caller.tenant) as unit:
        tenant = tenants.get(unit)
    news = [replace(one.line.new, source_kind=SourceKind.IMPORTED) for one in keyed]
    sealed = admission.prepare(engine, tenant, news)
    with engine.unit(caller.tenant) as unit:
        tenants.lock(unit)  # two imports of one file take turns
        settled = _settled(unit, keyed)
        fresh = [
            (one, ready) for one, ready in zip(keyed, sealed, strict=True) if one.line.number not in settled
        ]
        added = admission.admit(engine, unit, [ready for _, ready in fresh], actor=caller.actor)
        imports.put(
            unit,
            [
                Imported(one.key, memory.memory_id, one.line.has_id, form, one.line.created_at)
                for (one, _), memory in zip(fresh, added, strict=True)
            ],
        )
    engine.embed_now.set()
    return settled | {
        one.line.number: Outcome(one.line.number, Fate.TAKEN, memory.memory_id)
        for (one, _), memory in zip(fresh, added, strict=True)
    }
