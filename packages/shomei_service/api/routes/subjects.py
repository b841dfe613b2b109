"""Verbs over everything one data subject is in. SEMANTICS.md §8."""

from typing import Final

from ...engine.model import Scope
from ...engine.verbs import forget
from ..answers import ErasureProof, ForgetAnswer
from ..exchange import Ask, Operation
from ..lanes import Lane
from ..schemas import ForgetBody
from ..shapes import Nothing

_NOTE: Final = (
    "This covers the memories this store held for the subject at the stated time. It does not reach copies "
    "elsewhere, and it is as strong as the custody of the keys."
)


def forget_subject(ask: Ask[ForgetBody, Nothing]) -> ForgetAnswer:
    """Erase every memory of a subject, with a closure that adds up."""
    forgotten = forget.forget(ask.engine, ask.caller, ask.body.user_id)
    answer = ForgetAnswer(
        subject=forgotten.subject,
        matched_count=forgotten.matched_count,
        erased_count=len(forgotten.erased),
        deferred_count=len(forgotten.deferred_ids),
        restricted_now_count=len(forgotten.restricted_now),
        already_erased_count=forgotten.already_erased_count,
        derived_erased_count=forgotten.derived_erased_count,
        external_artifact_count=forgotten.external_artifact_count,
        erased_ids=[erased.memory_id for erased in forgotten.erased],
        deferred_ids=list(forgotten.deferred_ids),
        signed_receipts=[
            ErasureProof(id=erased.memory_id, signed_receipt=erased.receipt.envelope)
            for erased in forgotten.erased
            if erased.receipt.envelope is not None
        ],
        obligations=forgotten.obligation_ids,
        note=_NOTE,
    )
    if forgotten.closure is not None:
        answer["closure_receipt"] = forgotten.closure.body
        answer["closure_receipt_hash"] = forgotten.closure.receipt_hash
        if forgotten.closure.envelope is not None:
            answer["signed_closure_receipt"] = forgotten.closure.envelope
    return answer


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/forget",
        scope=Scope.ADMIN,
        act=forget_subject,
        answer=ForgetAnswer,
        body=ForgetBody,
        query=Nothing,
        lane=Lane.GOVERN,
    ),
)
