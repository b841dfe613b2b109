"""Replay of the governance journal: what a restored database forgot is in force before the port opens.

CUSTODY.md §4. A line is applied as far as it is not true yet, with the receipts its act owes, so replaying
one that the database saw already changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from . import aftermath, agreement, deferral, disposal, hold_end, policy, rotation, suppression
from .custody import JournalEntry
from .custody.journal import WITHDRAWN
from .errors import NotFound
from .failpoints import failpoint
from .model import (
    ERASURES_OWED,
    SYSTEM_ACTOR,
    Authority,
    Basis,
    Cause,
    ConsentAction,
    Ground,
    Hold,
    HoldScope,
    Lift,
    MemoryId,
    Obligation,
    ObligationKind,
    ObligationState,
    Pseudonym,
    Release,
    TenantId,
    Withdrawal,
    new_id,
)
from .parts import Engine
from .receipts import bodies
from .store import access, consents, holds, lineage, memories, obligations, signing, tenants, tombstones
from .store.consents import Consent
from .store.obligations import Request
from .store.signing import Range
from .store.unit import Unit

Replay = Callable[[Engine, Unit, JournalEntry], None]


def replay(engine: Engine) -> int:
    """Apply every journal line that the database has not seen, in order; return how many there were."""
    with engine.store.snapshot() as connection:
        seen = tenants.journal_seen(connection)
        known = {tenant.tenant_id for tenant in tenants.everyone(connection)}
    lines = engine.custody.journal_after(seen)
    withdrawn = {line.codes["line"] for line in lines if line.kind == WITHDRAWN}
    engine.is_replaying = True
    try:
        for line in lines:
            failpoint("boot.journal")
            with engine.unit(TenantId(line.tenant)) as unit:
                if line.seq <= tenants.journal_seen(unit.connection, lock=True):
                    continue  # the process that wrote it has just committed what it says
                # A tenant made after the backup is not there to be governed.
                if unit.tenant in known and line.seq not in withdrawn and line.kind != WITHDRAWN:
                    _KINDS[line.kind](engine, unit, line)
                tenants.advance_journal(unit.connection, line.seq)
    finally:
        engine.is_replaying = False
    return len(lines)


def owe_what_is_deferred(engine: Engine) -> None:
    """Owe the erasure of every row that a forget deferred, where a crash came between the two."""
    with engine.store.snapshot() as connection:
        waiting = obligations.deferred_unowed(connection)
    for tenant_id, memory_id in waiting:
        with engine.unit(tenant_id) as unit:
            rows = memories.lock_all(unit, [memory_id])
            deferral.defer(engine, unit, rows, Cause.SUBJECT_FORGET, actor=SYSTEM_ACTOR)


def _key_revoked(_: Engine, unit: Unit, line: JournalEntry) -> None:
    access.revoke(unit, line.ids[0], at=line.at)


def _restricted(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    present = memories.live(unit, [MemoryId(one) for one in line.ids])
    ground = Ground(str(line.codes["ground"]))
    suppression.apply(engine, unit, sorted(present), ground, actor=SYSTEM_ACTOR)


def _lifted(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    memory_id = MemoryId(line.ids[0])
    if memory_id in memories.live(unit, [memory_id]):
        grounds = [Ground(str(code)) for code in line.codes.values()]
        suppression.lift(engine, unit, memory_id, grounds, Lift.LIFTED, actor=SYSTEM_ACTOR)


def _hold_placed(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    hold_id, *memory_ids = line.ids
    if holds.lock(unit, hold_id) is not None:
        return
    matter = _text(line.codes, "matter")
    hold = Hold(
        hold_id=hold_id,
        scope=HoldScope(str(line.codes["scope"])),
        memory_id=MemoryId(memory_ids[0]) if memory_ids else None,
        subject=Pseudonym(line.pseudonym) if line.pseudonym is not None else None,
        authority=Authority(str(line.codes["authority"])),
        placed_by=str(line.codes["placed_by"]),
        placed_at=line.at,
        review_at=_time(line.codes, "review_at"),
        expires_at=_time(line.codes, "expires_at"),
        released_at=None,
        release=None,
    )
    # The matter's words were sealed in the database that is gone; its keyed hash is what remains.
    holds.put(unit, hold, matter_ref_hmac=matter, matter=None)
    draft = bodies.legal_hold(
        hold, action="placed", code=hold.authority.value, matter_ref_hmac=matter, obligations_fired=0
    )
    engine.attest(unit, [draft], actor=SYSTEM_ACTOR)


def _hold_released(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    release = Release(str(line.codes["release"]))
    try:
        hold_end.let_go(engine, unit, line.ids[0], release, new_id("obl_"), actor=SYSTEM_ACTOR, confirm=True)
    except NotFound:
        return  # released already


def _consent(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    subject, purpose = Pseudonym(str(line.pseudonym)), str(line.codes["purpose"])
    action = ConsentAction(str(line.codes["action"]))
    if consents.standing(unit, subject).get(purpose) is action:
        return
    evidence = _text(line.codes, "evidence")
    version, channel = _text(line.codes, "policy_version"), _text(line.codes, "channel_code")
    said = Consent(0, subject, purpose, action, line.at, evidence, version, channel)
    affected = agreement.take_effect(unit, said)
    draft = bodies.consent(
        subject=subject, purpose=purpose, action=action, affected=len(affected), evidence_ref_hmac=evidence
    )
    engine.attest(unit, [draft], actor=SYSTEM_ACTOR)
    if action is ConsentAction.WITHDRAWN:
        _erase_now(engine, unit, affected)


def _erase_now(engine: Engine, unit: Unit, ids: Sequence[MemoryId]) -> None:
    """Begin what a withdrawal was to erase at once, where a crash or a restore came first."""
    if tenants.get(unit).policies.withdrawal is not Withdrawal.ERASE_NOW:
        return
    rows = [row for row in memories.lock_all(unit, ids) if policy.is_present(row)]
    cause, basis = Cause.CONSENT_WITHDRAWN, Basis.CONSENT_WITHDRAWN
    going = deferral.free_to_go(unit, rows, cause)
    if going:
        intent = disposal.new_intent(engine, new_id("obl_"), cause=cause, basis=basis, actor=SYSTEM_ACTOR)
        disposal.intend(engine, unit, intent, going)


def _owed(_: Engine, unit: Unit, line: JournalEntry) -> None:
    """Owe it again; what was erased meanwhile was erased again and is owed no more."""
    obligation_id, *memory_ids = line.ids
    memory_id = MemoryId(memory_ids[0]) if memory_ids else None
    cause = _text(line.codes, "cause")
    owed = Obligation(
        obligation_id=obligation_id,
        kind=ObligationKind(str(line.codes["kind"])),
        state=ObligationState.OPEN,
        memory_id=memory_id,
        subject=Pseudonym(line.pseudonym) if line.pseudonym is not None else None,
        purpose=_text(line.codes, "purpose"),
        artifact_id=None,
        cause=Cause(cause) if cause is not None else None,
        requested_at=line.at,
        due_at=_time(line.codes, "due_at"),
        ended_at=None,
    )
    known = obligations.lock(unit, obligation_id)
    if known is not None:
        if owed.cause is not None and owed.cause is not known.cause:
            obligations.set_cause(unit, [obligation_id], owed.cause)
        return
    if memory_id is not None and obligations.open_for(unit, [memory_id], ERASURES_OWED):
        return
    if memory_id is not None and memories.find(unit, memory_id) is None:
        stone = tombstones.of_memory(unit, memory_id)
        if stone is None:
            return  # it was added after the backup and is not there
        owed = replace(owed, state=ObligationState.DONE, ended_at=stone.erased_at)
    obligations.put(unit, [owed])


def _ended(state: ObligationState) -> Replay:
    def replayed(_: Engine, unit: Unit, line: JournalEntry) -> None:
        for obligation_id in line.ids:
            owed = obligations.lock(unit, obligation_id)
            if owed is not None and owed.memory_id is not None:
                obligations.undefer(unit, owed.memory_id)
        obligations.end(unit, line.ids, state, at=line.at)

    return replayed


def _forget(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    """Put the request back: what it erased was erased again, what it deferred is owed again.

    Where it never came to erase anything, because a crash or a restore came first, it does so now.
    """
    request_id, *concerned = line.ids
    deferred = [one for one in concerned if one.startswith("lm_")]
    artifacts = [one for one in concerned if lineage.find_artifact(unit, one) is not None]
    subject = Pseudonym(str(line.pseudonym))
    if obligations.subject_of(unit, request_id) is not None:
        return
    about = lineage.about(unit, subject)
    below = [MemoryId(one) for one in lineage.closure(unit, about) if one.startswith("lm_")]
    present = [row for row in memories.lock_all(unit, [*about, *below]) if policy.is_present(row)]
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


def _artifact_acknowledged(_: Engine, unit: Unit, line: JournalEntry) -> None:
    artifact_id = line.ids[0]
    lineage.acknowledge(unit, artifact_id, at=line.at)
    owed = [one.obligation_id for one in obligations.of_artifact(unit, artifact_id)]
    obligations.end(unit, owed, ObligationState.DONE, at=line.at)


def _signer_rotated(_: Engine, unit: Unit, line: JournalEntry) -> None:
    """List the key in the log that the restore ended; in the present log the rotation itself says it."""
    origin = rotation.ORIGIN + str(line.codes["log"])
    if origin != tenants.get(unit).log_origin:
        new, key = str(line.codes["new"]), str(line.codes["key"])
        signing.begin(unit, Range(origin, int(line.codes["first_seq"]), new, key))


def _text(codes: Mapping[str, str | int], name: str) -> str | None:
    return str(codes[name]) if name in codes else None


def _time(codes: Mapping[str, str | int], name: str) -> int | None:
    return int(codes[name]) if name in codes else None


_KINDS: Final[Mapping[str, Replay]] = {
    "key_revoked": _key_revoked,
    "restricted": _restricted,
    "lifted": _lifted,
    "hold_placed": _hold_placed,
    "hold_released": _hold_released,
    "consent": _consent,
    "owed": _owed,
    "obligation_cancelled": _ended(ObligationState.CANCELLED),
    "obligation_done": _ended(ObligationState.DONE),
    "forget": _forget,
    "artifact_acknowledged": _artifact_acknowledged,
    rotation.LINE: _signer_rotated,
}
