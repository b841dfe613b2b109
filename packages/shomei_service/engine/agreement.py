"""A consent record taking effect on the memories that rest on it. SEMANTICS.md §13."""

from .model import (
    Cause,
    ConsentAction,
    MemoryId,
    Obligation,
    ObligationKind,
    ObligationState,
    Pseudonym,
)
from .store import consents
from .store.consents import Consent
from .store.unit import Unit


def take_effect(unit: Unit, consent: Consent) -> list[MemoryId]:
    """Store the record and return the memories whose standing it changed."""
    consents.append(unit, consent)
    said = consents.standing(unit, consent.subject)
    resting = consents.resting_on(unit, consent.subject, consent.purpose)
    agreed = {
        memory_id
        for memory_id, _ in resting
        if any(said.get(one) is ConsentAction.GRANTED for one in consents.purposes_of(unit, memory_id))
    }
    changed = [memory_id for memory_id, was in resting if was != (memory_id in agreed)]
    consents.set_consented(unit, [one for one in changed if one in agreed], consented=True)
    consents.set_consented(unit, [one for one in changed if one not in agreed], consented=False)
    return changed


def owed_after(
    obligation_id: str, kind: ObligationKind, subject: Pseudonym, purpose: str, *, at: int, due_at: int
) -> Obligation:
    """Return what a withdrawal leaves to be done about everything that rested on the consent."""
    return Obligation(
        obligation_id=obligation_id,
        kind=kind,
        state=ObligationState.OPEN,
        memory_id=None,
        subject=subject,
        purpose=purpose,
        artifact_id=None,
        cause=Cause.CONSENT_WITHDRAWN if kind is ObligationKind.ERASE_AFTER_CONSENT_WITHDRAWAL else None,
        requested_at=at,
        due_at=due_at,
        ended_at=None,
    )
