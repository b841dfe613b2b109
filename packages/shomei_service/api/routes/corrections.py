"""Update, restrict and disclose one memory. SEMANTICS.md §6, §9."""

from collections.abc import Mapping
from typing import Final

from ...engine.errors import Blocked, EngineError, Held, NotFound
from ...engine.model import Json, Restricted, Scope
from ...engine.verbs import disclose, restrict, update
from ..answers import possible_proof, proof
from ..exchange import Ask, Operation
from ..governed_answers import DiscloseAnswer, RestrictAnswer, UpdateAnswer, UpdatedMemory
from ..lanes import Lane
from ..schemas import DiscloseBody, LiftQuery, RestrictBody, UpdateBody
from ..shapes import Nothing
from .memories import written

_MEMORY: Final = "/v1/memories/{memory_id}"
_NO_SUCH: Final[Mapping[type[EngineError], Mapping[str, Json]]] = {
    NotFound: {"restricted": None, "changed": False}
}


def update_memory(ask: Ask[UpdateBody, Nothing]) -> UpdateAnswer:
    """Erase a memory and put its successor in its place."""
    updated = update.update(ask.engine, ask.caller, ask.path_id, ask.body.data)
    result = UpdatedMemory(
        id=updated.memory_id, previous_id=updated.previous_id, event="UPDATE", **proof(updated.receipt)
    )
    return {"results": [result]}


def restrict_memory(ask: Ask[RestrictBody, Nothing]) -> RestrictAnswer:
    """Take a memory out of recall; it is kept."""
    return _restricted(restrict.restrict(ask.engine, ask.caller, ask.path_id, ask.body.reason))


def lift_restriction(ask: Ask[Nothing, LiftQuery]) -> RestrictAnswer:
    """Put a restricted memory back into recall."""
    notice = ask.query.notice_sent_at
    return _restricted(restrict.lift(ask.engine, ask.caller, ask.path_id, notice_sent_at=notice))


def disclose_memory(ask: Ask[DiscloseBody, Nothing]) -> DiscloseAnswer:
    """Read a memory outside recall, on a stated ground."""
    done = disclose.disclose(ask.engine, ask.caller, ask.path_id, ask.body.ground_code, ask.body.recipient)
    return DiscloseAnswer(disclosed=written(done.memory), **proof(done.receipt))


def _restricted(outcome: Restricted) -> RestrictAnswer:
    answer = RestrictAnswer(
        id=outcome.memory_id,
        restricted=outcome.restricted,
        changed=outcome.changed,
        **possible_proof(outcome.receipt),
    )
    if outcome.code is not None:
        answer["code"] = outcome.code
    return answer


OPERATIONS: Final = (
    Operation(
        method="PUT",
        path=_MEMORY,
        scope=Scope.ADMIN,
        act=update_memory,
        answer=UpdateAnswer,
        body=UpdateBody,
        query=Nothing,
        lane=Lane.GOVERN,
        refused={Held: {"held": True}, Blocked: {}},
    ),
    Operation(
        method="POST",
        path=f"{_MEMORY}/restrict",
        scope=Scope.ADMIN,
        act=restrict_memory,
        answer=RestrictAnswer,
        body=RestrictBody,
        query=Nothing,
        lane=Lane.GOVERN,
        refused=_NO_SUCH,
    ),
    Operation(
        method="DELETE",
        path=f"{_MEMORY}/restrict",
        scope=Scope.ADMIN,
        act=lift_restriction,
        answer=RestrictAnswer,
        body=Nothing,
        query=LiftQuery,
        lane=Lane.GOVERN,
        refused={**_NO_SUCH, Blocked: {}},
    ),
    Operation(
        method="POST",
        path=f"{_MEMORY}/disclose",
        scope=Scope.ADMIN,
        act=disclose_memory,
        answer=DiscloseAnswer,
        body=DiscloseBody,
        query=Nothing,
        lane=Lane.GOVERN,
    ),
)
