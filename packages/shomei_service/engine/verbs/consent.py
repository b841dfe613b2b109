"""Consent: what a subject agreed to, and what withdrawing it does. SEMANTICS.md §13 (GDPR Art. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .. import agreement, deferral, disposal, policy, retries
from ..model import (
    Attested,
    Basis,
    Caller,
    Cause,
    ConsentAction,
    JsonObject,
    Life,
    MemoryId,
    Obligation,
    ObligationKind,
    ObligationState,
    Policies,
    Pseudonym,
    Scope,
    Withdrawal,
    new_id,
)
from ..parts import Engine
from ..receipts import bodies
from ..store import consents, leaving, obligations, tenants
from ..store.consents import Consent
from ..store.unit import Unit

_SECONDS_A_DAY: Final = 86_400
_EVIDENCE_BYTES: Final = 256
_REVIEWS: Final = (
    ObligationKind.REVIEW_AFTER_CONSENT_WITHDRAWAL,
    ObligationKind.ERASE_AFTER_CONSENT_WITHDRAWAL,
)


@dataclass(frozen=True, slots=True)
class NewConsent:
    """What is to be recorded: who, for what, which way, and the proof of it."""

    user_id: str
    purpose: str
    action: ConsentAction
    evidence_ref: str | None = None
    policy_version: str | None = None
    channel_code: str | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The answer: whether anything changed, how many memories it concerns, and the receipt if it did."""

    changed: bool
    affected: int
    receipt: Attested | None


def record(engine: Engine, caller: Caller, new: NewConsent) -> Recorded:
    """Record a grant or a withdrawal; it takes effect for every memory in the same transaction.

    Repeating what already holds changes nothing and leaves no receipt. Raises Invalid for a purpose or a
    code that is not registered for the tenant.
    """
    caller.require(Scope.ADMIN)
    with engine.unit(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            receipt = retries.statement(unit, again["receipt"])
            return Recorded(receipt is not None, retries.count(again["affected"]), receipt)
        tenant = tenants.get(unit)
        _require_codes(new, tenant.policies)
        commitments = engine.commitments(tenant)
        subject = commitments.subject(new.user_id)
        if consents.standing(unit, subject).get(new.purpose) is new.action:
            retries.keep(engine, unit, caller, {"affected": 0, "receipt": None})
            return Recorded(changed=False, affected=0, receipt=None)
        evidence = commitments.evidence(new.evidence_ref) if new.evidence_ref else None
        affected = agreement.take_effect(unit, _row(engine, new, subject, evidence))
        owed, over = _owed(engine, unit, new, subject, affected), _over(unit, new, subject, affected)
        # One line says it all: what comes of a withdrawal must not be lost between two of them.
        engine.journal(unit, "consent", over, pseudonym=subject, codes=_told(new, evidence, owed))
        obligations.put(unit, [owed] if owed is not None else [])
        obligations.end(unit, over, ObligationState.CANCELLED, at=engine.clock.now())
        draft = bodies.consent(
            subject=subject,
            purpose=new.purpose,
            action=new.action,
            affected=len(affected),
            evidence_ref_hmac=evidence,
        )
        receipt = engine.attest(unit, [draft], actor=caller.actor)[0]
        kept: JsonObject = {"affected": len(affected), "receipt": receipt.receipt_hash}
        retries.keep(engine, unit, caller, kept)
        intent_id = _erase_now(engine, unit, new, affected, caller.actor)
    if intent_id is not None:
        disposal.carry_out(engine, caller.tenant, intent_id)
    return Recorded(changed=True, affected=len(affected), receipt=receipt)


def listing(engine: Engine, caller: Caller, user_id: str) -> list[Consent]:
    """Return the subject's records, oldest first."""
    caller.require(Scope.ADMIN)
    policy.require_subject(user_id)
    with engine.reading(caller.tenant) as unit:
        subject = engine.commitments(tenants.get(unit)).subject(user_id)
        found = consents.of_subject(unit, subject)
    engine.audit.note(caller, "consents", count=len(found), subjects=[subject])
    return found


def _row(engine: Engine, new: NewConsent, subject: Pseudonym, evidence: str | None) -> Consent:
    return Consent(
        number=0,
        subject=subject,
        purpose=new.purpose,
        action=new.action,
        at=engine.clock.now(),
        evidence_ref_hmac=evidence,
        policy_version=new.policy_version,
        channel_code=new.channel_code,
    )


def _told(new: NewConsent, evidence: str | None, owed: Obligation | None) -> dict[str, str | int]:
    told = {
        "purpose": new.purpose,
        "action": new.action,
        "evidence": evidence,
        "policy_version": new.policy_version,
        "channel_code": new.channel_code,
    }
    known: dict[str, str | int] = {name: value for name, value in told.items() if value is not None}
    if owed is not None and owed.due_at is not None:
        known |= {"owes": owed.obligation_id, "owes_kind": owed.kind, "due_at": owed.due_at}
    return known


def _require_codes(new: NewConsent, policies: Policies) -> None:
    policy.require_subject(new.user_id)
    policy.require_registered([new.purpose], policies.purposes, "purpose must be registered for the tenant")
    if new.policy_version is not None:
        policy.require_registered(
            [new.policy_version], policies.policy_versions, "policy_version must be registered for the tenant"
        )
    if new.channel_code is not None:
        policy.require_registered(
            [new.channel_code], policies.channel_codes, "channel_code must be registered for the tenant"
        )
    policy.require_reference(
        new.evidence_ref, largest=_EVIDENCE_BYTES, message="evidence_ref must be 1 to 256 bytes"
    )


def _owed(
    engine: Engine, unit: Unit, new: NewConsent, subject: Pseudonym, affected: Sequence[MemoryId]
) -> Obligation | None:
    """Return what a withdrawal leaves to be done in its time, as the tenant's policy says."""
    if new.action is ConsentAction.GRANTED:
        return None
    rule = tenants.get(unit).policies
    erases, within = rule.withdrawal is not Withdrawal.SUPPRESS, rule.withdrawal_days * _SECONDS_A_DAY
    if rule.withdrawal is Withdrawal.ERASE_NOW:
        if not any(row.life is Life.PENDING for row in leaving.lock_all(unit, affected)):
            return None
        within = 0  # an update's successor goes once it is there
    now = engine.clock.now()
    kind = _REVIEWS[erases]
    return agreement.owed_after(new_id("obl_"), kind, subject, new.purpose, at=now, due_at=now + within)


def _over(unit: Unit, new: NewConsent, subject: Pseudonym, affected: Sequence[MemoryId]) -> Sequence[str]:
    """Return what is owed no more for want of this consent. SEMANTICS.md §13: a new grant restores."""
    if new.action is ConsentAction.WITHDRAWN:
        return ()
    owed = obligations.erasures_owed(unit, affected).values()
    ids = [one.obligation_id for one in obligations.about_subject(unit, subject, new.purpose, _REVIEWS)]
    return [*ids, *(one.obligation_id for one in owed if one.cause is Cause.CONSENT_WITHDRAWN)]


def _erase_now(
    engine: Engine, unit: Unit, new: NewConsent, affected: Sequence[MemoryId], actor: str
) -> str | None:
    """Begin what a withdrawal erases at once, if that is the tenant's policy; return an intent."""
    is_now = tenants.get(unit).policies.withdrawal is Withdrawal.ERASE_NOW
    if new.action is ConsentAction.GRANTED or not is_now:
        return None
    intent = disposal.new_intent(
        engine, new_id("obl_"), cause=Cause.CONSENT_WITHDRAWN, basis=Basis.CONSENT_WITHDRAWN, actor=actor
    )
    rows = [row for row in leaving.lock_all(unit, affected) if row.life is Life.LIVE]
    return intent.intent_id if deferral.begin(engine, unit, rows, intent) else None
