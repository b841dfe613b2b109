"""Replay of the governance journal: what a restored database forgot is in force before the port opens.

CUSTODY.md §4. A line is applied as far as it is not true yet, with the receipts its act owes, so replaying
one that the database saw already changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from . import agreement, deferral, disposal, hold_end, journal_owed, policy, rotation, suppression
from .custody import JournalEntry
from .custody.journal import WITHDRAWN, not_withdrawn
from .errors import NotFound
from .failpoints import failpoint
from .journal_owed import Replay, log_of, text_of, time_of
from .model import (
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
from .store import (
    access,
    commitments,
    consents,
    holds,
    leaving,
    memories,
    obligations,
    restrictions,
    signing,
    tenants,
)
from .store.consents import Consent
from .store.signing import Range
from .store.unit import Unit


def replay(engine: Engine) -> int:
    """Apply every journal line that the database has not seen, in order; return how many there were."""
    lines, standing = _unseen(engine)
    for line in lines:
        failpoint("boot.journal")
        with engine.unit(TenantId(line.tenant), replaying=True) as unit:
            if line.seq <= tenants.journal_seen(unit.connection, lock=True):
                continue  # the process that wrote it has just committed what it says
            if line.seq in standing and not _was_withdrawn(engine, line):
                _KINDS[line.kind](engine, unit, line)
            tenants.advance_journal(unit.connection, line.seq)
    for number, line in enumerate(lines):
        if line.kind == "consent" and line.seq in standing:
            told = {one for later in lines[number:] if later.kind == "owed" for one in later.ids}
            subject, purpose = Pseudonym(str(line.pseudonym)), str(line.codes["purpose"])
            deferral.owe_what_was_withdrawn(engine, TenantId(line.tenant), subject, purpose, told)
    return len(lines)


def replay_commitment_keys(engine: Engine) -> None:
    """Bring every tenant to its newest commitment key before anything is stated; the lines stay unseen."""
    lines, standing = _unseen(engine)
    for line in lines:
        if line.kind == rotation.COMMITMENT_LINE and line.seq in standing:
            with engine.unit(TenantId(line.tenant), replaying=True) as unit:
                _commitment_key_rotated(engine, unit, line)


def _unseen(engine: Engine) -> tuple[list[JournalEntry], set[int]]:
    """Return the lines the database has not seen, and the numbers of those that are to be applied."""
    with engine.store.snapshot() as connection:
        seen = tenants.journal_seen(connection)
        known = {tenant.tenant_id for tenant in tenants.everyone(connection)}
    lines = engine.custody.journal_after(seen)
    # A tenant made after the backup is not there to be governed.
    return lines, {line.seq for line in not_withdrawn(lines) if line.tenant in known}


def _was_withdrawn(engine: Engine, line: JournalEntry) -> bool:
    """Say whether whoever wrote a line took it back between its being read and the lock being had."""
    return line not in not_withdrawn([line, *engine.custody.journal_after(line.seq, WITHDRAWN)])


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
        if suppression.lift(engine, unit, memory_id, grounds, Lift.LIFTED, actor=SYSTEM_ACTOR) is not None:
            left = restrictions.grounds_of(unit, memory_id)
            deferral.fire(engine, unit, memory_id, left, actor=SYSTEM_ACTOR)


def _hold_placed(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    hold_id, *memory_ids = line.ids
    if holds.lock(unit, hold_id) is not None:
        return
    matter = text_of(line.codes, "matter")
    hold = Hold(
        hold_id=hold_id,
        scope=HoldScope(str(line.codes["scope"])),
        memory_id=MemoryId(memory_ids[0]) if memory_ids else None,
        subject=Pseudonym(line.pseudonym) if line.pseudonym is not None else None,
        authority=Authority(str(line.codes["authority"])),
        placed_by=str(line.codes["placed_by"]),
        placed_at=line.at,
        review_at=time_of(line.codes, "review_at"),
        expires_at=time_of(line.codes, "expires_at"),
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
    evidence = text_of(line.codes, "evidence")
    version, channel = text_of(line.codes, "policy_version"), text_of(line.codes, "channel_code")
    said = Consent(0, subject, purpose, action, line.at, evidence, version, channel)
    affected = agreement.take_effect(unit, said)
    obligations.end(unit, line.ids, ObligationState.CANCELLED, at=line.at)
    if "owes" in line.codes:
        owes, kind = str(line.codes["owes"]), ObligationKind(str(line.codes["owes_kind"]))
        at, due_at = line.at, int(line.codes["due_at"])
        obligations.put(unit, [agreement.owed_after(owes, kind, subject, purpose, at=at, due_at=due_at)])
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
    rows = [row for row in leaving.lock_all(unit, ids) if policy.is_present(row)]
    cause, basis = Cause.CONSENT_WITHDRAWN, Basis.CONSENT_WITHDRAWN
    going = deferral.free_to_go(unit, rows, cause)
    if going:
        intent = disposal.new_intent(engine, new_id("obl_"), cause=cause, basis=basis, actor=SYSTEM_ACTOR)
        disposal.intend(engine, unit, intent, going)


def _signer_rotated(_: Engine, unit: Unit, line: JournalEntry) -> None:
    """List the key in the log that the restore ended; in the present log the rotation itself says it."""
    origin = log_of(line.codes)
    if origin != tenants.get(unit).log_origin:
        new, key = str(line.codes["new"]), str(line.codes["key"])
        signing.begin(unit, Range(origin, int(line.codes["first_seq"]), new, key))


def _commitment_key_rotated(engine: Engine, unit: Unit, line: JournalEntry) -> None:
    (key_id,) = line.ids
    if key_id not in commitments.leaves(unit):
        rotation.follow_commitment_key(engine, unit, key_id, int(line.codes["leaf"]))


_KINDS: Final[Mapping[str, Replay]] = {
    "key_revoked": _key_revoked,
    "restricted": _restricted,
    "lifted": _lifted,
    "hold_placed": _hold_placed,
    "hold_released": _hold_released,
    "consent": _consent,
    "owed": journal_owed.owe_again,
    "obligation_cancelled": journal_owed.ended(ObligationState.CANCELLED),
    "obligation_done": journal_owed.ended(ObligationState.DONE),
    "forget": journal_owed.ask_again,
    "artifact_acknowledged": journal_owed.artifact_acknowledged,
    rotation.LINE: _signer_rotated,
    rotation.COMMITMENT_LINE: _commitment_key_rotated,
}
