"""Consent: what a subject agreed to, and what withdrawing it does. SEMANTICS.md §13 (GDPR Art. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .. import agreement, deferral, disposal, policy, retries
from ..model import (
    ERASURES_OWED,
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
from ..store import consents, memories, obligations, tenants
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
        told = {
            "purpose": new.purpose,
            "action": new.action,
            "evidence": evidence,
            "policy_version": new.policy_version,
            "channel_code": new.channel_code,
        }
        codes = {name: value for name, value in told.items() if value is not None}
        engine.journal(unit, "consent", pseudonym=subject, codes=codes)
        affected = agreement.take_effect(unit, _row(engine, new, subject, evidence))
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
        intent_id = _follow_up(engine, unit, subject, new, affected, caller.actor)
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


def _follow_up(
    engine: Engine, unit: Unit, subject: Pseudonym, new: NewConsent, affected: Sequence[MemoryId], actor: str
) -> str | None:
    """Do what the tenant's policy says of a withdrawal, or end what an earlier one left; return an intent."""
    if new.action is ConsentAction.GRANTED:
        _take_back(engine, unit, subject, new.purpose, affected)
        return None
    rule = tenants.get(unit).policies
    if rule.withdrawal is not Withdrawal.ERASE_NOW:
        erases = rule.withdrawal is Withdrawal.ERASE_AFTER
        _owe(engine, unit, subject, new.purpose, erases=erases, within=rule.withdrawal_days * _SECONDS_A_DAY)
        return None
    rows = memories.lock_all(unit, affected)
    if any(row.life is Life.PENDING for row in rows):  # an update's successor goes once it is there
        _owe(engine, unit, subject, new.purpose, erases=True, within=0)
    intent = disposal.new_intent(
        engine, new_id("obl_"), cause=Cause.CONSENT_WITHDRAWN, basis=Basis.CONSENT_WITHDRAWN, actor=actor
    )
    begun = deferral.begin(engine, unit, [row for row in rows if row.life is Life.LIVE], intent)
    return intent.intent_id if begun else None


def _take_back(
    engine: Engine, unit: Unit, subject: Pseudonym, purpose: str, affected: Sequence[MemoryId]
) -> None:
    """Nothing is owed any more for want of this consent. SEMANTICS.md §13: a new grant restores."""
    owed = obligations.open_for(unit, affected, ERASURES_OWED).values()
    ids = [one.obligation_id for one in obligations.about_subject(unit, subject, purpose, _REVIEWS)]
    ids += [one.obligation_id for one in owed if one.cause is Cause.CONSENT_WITHDRAWN]
    if ids:
        obligations.end(unit, ids, ObligationState.CANCELLED, at=engine.clock.now())
        engine.journal(unit, "obligation_cancelled", ids)


def _owe(engine: Engine, unit: Unit, subject: Pseudonym, purpose: str, *, erases: bool, within: int) -> None:
    now = engine.clock.now()
    one = Obligation(
        obligation_id=new_id("obl_"),
        kind=_REVIEWS[erases],
        state=ObligationState.OPEN,
        memory_id=None,
        subject=subject,
        purpose=purpose,
        artifact_id=None,
        cause=Cause.CONSENT_WITHDRAWN if erases else None,
        requested_at=now,
        due_at=now + within,
        ended_at=None,
    )
    deferral.owe(engine, unit, [one])
