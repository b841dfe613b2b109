"""Consent records. SEMANTICS.md §13 (GDPR Art. 7)."""

from typing import Final

from ...engine.model import Scope
from ...engine.verbs import consent
from ..answers import possible_proof
from ..exchange import Ask, Operation
from ..governed_answers import ConsentAnswer, ConsentsAnswer
from ..lanes import Lane
from ..schemas import ConsentBody, SubjectQuery
from ..shapes import Nothing


def record_consent(ask: Ask[ConsentBody, Nothing]) -> ConsentAnswer:
    """Record that a subject agrees to a purpose, or no longer does."""
    body = ask.body
    new = consent.NewConsent(
        user_id=body.user_id,
        purpose=body.purpose,
        action=body.action,
        evidence_ref=body.evidence_ref,
        policy_version=body.policy_version,
        channel_code=body.channel_code,
    )
    recorded = consent.record(ask.engine, ask.caller, new)
    return ConsentAnswer(
        user_id=body.user_id,
        purpose=body.purpose,
        action=body.action.value,
        changed=recorded.changed,
        affected_count=recorded.affected,
        **possible_proof(recorded.receipt),
    )


def list_consents(ask: Ask[Nothing, SubjectQuery]) -> ConsentsAnswer:
    """List what a subject agreed to and withdrew."""
    found = consent.listing(ask.engine, ask.caller, ask.query.user_id)
    return {
        "user_id": ask.query.user_id,
        "results": [
            {
                "purpose": one.purpose,
                "action": one.action.value,
                "at": one.at,
                "policy_version": one.policy_version,
                "channel_code": one.channel_code,
            }
            for one in found
        ],
    }


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/consent",
        scope=Scope.ADMIN,
        act=record_consent,
        answer=ConsentAnswer,
        body=ConsentBody,
        query=Nothing,
        lane=Lane.GOVERN,
    ),
    Operation(
        method="GET",
        path="/v1/consent",
        scope=Scope.ADMIN,
        act=list_consents,
        answer=ConsentsAnswer,
        body=Nothing,
        query=SubjectQuery,
        lane=Lane.READ,
    ),
)
