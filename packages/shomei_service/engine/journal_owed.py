"""Replay of what was asked for and is owed: obligations, forget requests, acknowledgements. CUSTODY.md §4."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from . import aftermath, disposal, policy, suppression
from .custody import JournalEntry
from .model import (
    SYSTEM_ACTOR,
    Basis,
    Cause,
    Ground,
    Lift,
    MemoryId,
    Obligation,
    ObligationKind,
    ObligationState,
    Pseudonym,
)
from .parts import Engine
from .receipts.bodies import Schema
from .rotation import ORIGIN
from .store import holds, leaving, lineage, memories, obligations, receipts, tombstones
from .store.obligations import Request
from .store.unit import Unit

_PUT_OFF: Final = (Ground.DEFERRED_HOLD,)

Replay = Callable[[Engine, Unit, JournalEntry], None]


def text_of(codes: Mapping[str, str | int], name: str) -> str | None:
    """Return a code of the line; None for one that it has not."""
    return str(codes[name]) if name in codes else None


def time_of(codes: Mapping[str, str | int], name: str) -> int | None:
    """Return a time of the line; None for one that it has not."""
    return int(codes[name]) if name in codes else None


def log_of(codes: Mapping[str, str | int]) -> str:
    """Return the receipt log that the line names."""
    return ORIGIN + str(codes["log"])


def owe_again(_: Engine, unit: Unit, line: JournalEntry) -> None:
    """Owe it again; what was erased meanwhile was erased again and is owed no more."""
    obligation_id, *memory_ids = line.ids
    memory_id = MemoryId(memory_ids[0]) if memory_ids else None
    cause = text_of(line.codes, "cause")
    owed = Obligation(
        obligation_id=obligation_id,
        kind=ObligationKind(str(line.codes["kind"])),
        state=ObligationState.OPEN,
        memory_id=memory_id,
        subject=Pseudonym(line.pseudonym) if line.pseudonym is not None else None,
        purpose=text_of(line.codes, "purpose"),
        artifact_id=None,
        cause=Cause(cause) if cause is not None else None,
        requested_at=line.at,
        due_at=time_of(line.codes, "due_at"),
        ended_at=None,
    )
    known = obligations.lock(unit, obligation_id)
    if known is not None:
        if owed.cause is not None and owed.cause is not known.cause:
            obligations.set_cause(unit, [obligation_id], owed.cause)
        return
    if memory_id is not None and obligations.erasures_owed(unit, [memory_id]):
        return
    if memory_id is not None and memories.find(unit, memory_id) is None:
        stone = tombstones.of_memory(unit, memory_id)
        if stone is None:
            return  # it was added after the backup and is not there
        owed = replace(owed, state=ObligationState.DONE, ended_at=stone.erased_at)
    obligations.put(unit, [owed])


def ended(state: ObligationState) -> Replay:
    """Return what brings obligations to this end again."""

    def replayed(engine: Engine, unit: Unit, line: JournalEntry) -> None:
        for obligation_id in line.ids:
            owed = obligations.lock(unit, obligation_id)
            if owed is None or owed.memory_id is None:
                continue
            obligations.undefer(unit, owed.memory_id)
            if state is ObligationState.CANCELLED:
                suppression.lift(engine, unit, owed.memory_id, _PUT_OFF, Lift.LIFTED, actor=SYSTEM_ACTOR)
        obligations.end(unit, line.ids, state, at=line.at)

    return replayed


def ask_again(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    """Put the request back: what it erased was erased again, what it deferred is owed again.

    Where it never came to erase anything, because a crash or a restore came first, it does so now; what
    was admitted since it was asked is not concerned.
    """
    request_id, *concerned = line.ids
    deferred = [one for one in concerned if one.startswith("lm_")]
    artifacts = [one for one in concerned if lineage.find_artifact(unit, one) is not None]
    subject = Pseudonym(str(line.pseudonym))
    if obligations.subject_of(unit, request_id) is not None:
        return
    about = lineage.about(unit, subject)
    below = [MemoryId(one) for one in lineage.closure(unit, about) if one.startswith("lm_")]
    later = _admitted_since(unit, line)
    known = [one for one in (*about, *below) if one not in later]
    present = [row for row in leaving.lock_all(unit, known) if policy.is_present(row)]
    held = holds.held_among(unit, [row.memory_id for row in present])
    going = [row for row in present if row.memory_id not in held]
    waiting = [row for row in present if row.memory_id in held and row.memory_id in deferred]
    left, derived = len(present), sum(row.subject != subject for row in present)
    gone = max(0, int(line.codes["matched"]) - left)
    derived_gone = max(0, int(line.codes["derived"]) - derived)
    request = Request(
        request_id=request_id,
        subject=subject,
        requested_at=line.at,
        matched_count=gone + len(going) + len(waiting),
        erased_count=gone,
        derived_matched_count=derived_gone + sum(row.subject != subject for row in (*going, *waiting)),
        derived_erased_count=derived_gone,
        closure_hash=None,
        owed_by=request_id if going else None,
    )
    obligations.put_request(unit, request)
    obligations.put_request_artifacts(unit, request_id, artifacts)
    aftermath.request_external_erasure(unit, artifacts, at=line.at)
    obligations.defer(unit, request_id, [(row.memory_id, row.subject != subject) for row in waiting])
    if going:
        intent = disposal.new_intent(
            engine, request_id, cause=Cause.SUBJECT_FORGET, basis=Basis.SUBJECT_REQUEST, actor=SYSTEM_ACTOR
        )
        disposal.intend(engine, unit, intent, going)


def _admitted_since(unit: Unit, line: JournalEntry) -> set[str]:
    """Return the memories whose first receipt is none of those there were when the line was written."""
    if "log" not in line.codes:
        return set()
    seq = int(line.codes["next_seq"])
    return receipts.about_since(unit, log_of(line.codes), seq, [Schema.MEMORY_ADD, Schema.MEMORY_UPDATE])


def artifact_acknowledged(_: Engine, unit: Unit, line: JournalEntry) -> None:
    """Its owner has erased it: nothing is owed for it any more."""
    artifact_id = line.ids[0]
    lineage.acknowledge(unit, artifact_id, at=line.at)
    owed = [one.obligation_id for one in obligations.of_artifact(unit, artifact_id)]
    obligations.end(unit, owed, ObligationState.DONE, at=line.at)
