"""Legal holds and what is owed because of them. SEMANTICS.md §7, §21."""

from typing import Final

from ...engine.errors import ConfirmRequired, ErasureInProgress, Invalid, NotFound
from ...engine.model import Attested, Hold, Obligation, ObligationState, Scope
from ...engine.verbs import hold, obligation
from ..answers import ErasureProof, possible_proof, proof
from ..exchange import Ask, Operation
from ..governed_answers import (
    CancelAnswer,
    ClosureProof,
    HoldAnswer,
    HoldListed,
    HoldsAnswer,
    ObligationListed,
    ObligationsAnswer,
    ReleaseAnswer,
)
from ..lanes import Lane
from ..schemas import HoldBody, HoldsQuery, ObligationsQuery, ReleaseQuery
from ..shapes import Nothing


def place_hold(ask: Ask[HoldBody, Nothing]) -> HoldAnswer:
    """Forbid the erasure of a memory, or of everything about a subject."""
    body = ask.body
    new = hold.NewHold(
        authority=body.authority_code,
        memory_id=body.memory_id,
        user_id=body.user_id,
        matter_ref=body.matter_ref,
        review_at=body.review_at,
        expires_at=body.expires_at,
    )
    placed = hold.place(ask.engine, ask.caller, new)
    return HoldAnswer(hold_id=placed.hold.hold_id, scope=placed.hold.scope.value, **proof(placed.receipt))


def list_holds(ask: Ask[Nothing, HoldsQuery]) -> HoldsAnswer:
    """List holds, open and released, oldest first."""
    page = hold.page(ask.engine, ask.caller, cursor=ask.query.cursor, limit=ask.query.limit)
    return {"results": [_listed(one) for one in page.holds], "next_cursor": page.next_cursor}


def release_hold(ask: Ask[Nothing, ReleaseQuery]) -> ReleaseAnswer:
    """End a hold and carry out the erasures it was the last to forbid."""
    released = hold.release(
        ask.engine,
        ask.caller,
        ask.path_id,
        ask.query.release_code,
        confirm=ask.query.confirm == "true",
    )
    done = released.disposed
    return ReleaseAnswer(
        hold_id=released.hold_id,
        released=True,
        obligations={"fired": len(done.erased), "completed": len(done.erased), "pending": 0},
        erased_ids=[one.memory_id for one in done.erased],
        signed_receipts=[
            ErasureProof(id=one.memory_id, signed_receipt=one.receipt.envelope)
            for one in done.erased
            if one.receipt.envelope is not None
        ],
        closures=[_closure(request_id, closure) for request_id, closure in sorted(done.closures.items())],
        **proof(released.receipt),
    )


def list_obligations(ask: Ask[Nothing, ObligationsQuery]) -> ObligationsAnswer:
    """List what is still owed, and how what was owed ended, oldest first."""
    now = ask.engine.clock.now()
    page = obligation.page(ask.engine, ask.caller, cursor=ask.query.cursor, limit=ask.query.limit)
    return {"results": [_owed(one, now) for one in page.obligations], "next_cursor": page.next_cursor}


def cancel_obligation(ask: Ask[Nothing, Nothing]) -> CancelAnswer:
    """Cancel an erasure that its subject takes back."""
    receipt = obligation.cancel(ask.engine, ask.caller, ask.path_id)
    return CancelAnswer(obligation_id=ask.path_id, cancelled=True, **possible_proof(receipt))


def _closure(request_id: str, closure: Attested) -> ClosureProof:
    written = ClosureProof(
        request_id=request_id,
        closure_receipt=closure.body,
        closure_receipt_hash=closure.receipt_hash,
    )
    if closure.envelope is not None:
        written["signed_closure_receipt"] = closure.envelope
    return written


def _listed(one: Hold) -> HoldListed:
    return {
        "hold_id": one.hold_id,
        "scope": one.scope.value,
        "memory_id": one.memory_id,
        "subject_pseudonym": one.subject,
        "authority_code": one.authority.value,
        "placed_by": one.placed_by,
        "placed_at": one.placed_at,
        "review_at": one.review_at,
        "expires_at": one.expires_at,
        "released_at": one.released_at,
        "release_code": one.release.value if one.release is not None else None,
    }


def _owed(one: Obligation, now: int) -> ObligationListed:
    is_open = one.state is ObligationState.OPEN
    return {
        "obligation_id": one.obligation_id,
        "kind": one.kind.value,
        "state": one.state.value,
        "overdue": is_open and one.due_at is not None and one.due_at < now,
        "memory_id": one.memory_id,
        "subject_pseudonym": one.subject,
        "purpose": one.purpose,
        "artifact_id": one.artifact_id,
        "requested_at": one.requested_at,
        "due_at": one.due_at,
        "ended_at": one.ended_at,
    }


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/holds",
        scope=Scope.ADMIN,
        act=place_hold,
        answer=HoldAnswer,
        body=HoldBody,
        query=Nothing,
        lane=Lane.GOVERN,
        success=201,
        refused={NotFound: {}, ErasureInProgress: {}},
    ),
    Operation(
        method="GET",
        path="/v1/holds",
        scope=Scope.ADMIN,
        act=list_holds,
        answer=HoldsAnswer,
        body=Nothing,
        query=HoldsQuery,
        lane=Lane.READ,
    ),
    Operation(
        method="DELETE",
        path="/v1/holds/{hold_id}",
        scope=Scope.ADMIN,
        act=release_hold,
        answer=ReleaseAnswer,
        body=Nothing,
        query=ReleaseQuery,
        lane=Lane.GOVERN,
        refused={ConfirmRequired: {}},
    ),
    Operation(
        method="GET",
        path="/v1/obligations",
        scope=Scope.ADMIN,
        act=list_obligations,
        answer=ObligationsAnswer,
        body=Nothing,
        query=ObligationsQuery,
        lane=Lane.READ,
    ),
    Operation(
        method="POST",
        path="/v1/obligations/{obligation_id}/cancel",
        scope=Scope.ADMIN,
        act=cancel_obligation,
        answer=CancelAnswer,
        body=Nothing,
        query=Nothing,
        lane=Lane.GOVERN,
        refused={ErasureInProgress: {}, Invalid: {}},
    ),
)
