"""Remember, read, delete and check single memories. CONTRACT.md §1."""

from collections.abc import Sequence
from typing import Final, cast

from ...engine.errors import Blocked, Held, LineageUnsupported, NotFound, RowDamaged
from ...engine.model import Added, JsonObject, NewMemory, Recalled, Scope
from ...engine.verbs import add, erase, read, status
from ..answers import AddAnswer, AddedMemory, DeleteAnswer, Memory, PageAnswer, StatusAnswer, proof
from ..bodies import BATCH
from ..exchange import Ask, Operation
from ..lanes import Lane
from ..schemas import BatchBody, DeleteQuery, NewMemoryBody, PageQuery
from ..shapes import Nothing

_DELETED: Final = "memory deleted (governed crypto-erasure)"


def add_memory(ask: Ask[NewMemoryBody, Nothing]) -> AddAnswer:
    """Remember one memory."""
    return {"results": [_added(add.add(ask.engine, ask.caller, _new(ask.body)))]}


def add_each(asks: Sequence[Ask[NewMemoryBody, Nothing]]) -> list[AddAnswer | Exception]:
    """Remember one memory for each of several callers."""
    asked = [(ask.caller, [_new(ask.body)]) for ask in asks]
    answers = add.add_each(asks[0].engine, asked)
    return [one if isinstance(one, Exception) else {"results": [*map(_added, one)]} for one in answers]


def add_memories(ask: Ask[BatchBody, Nothing]) -> AddAnswer:
    """Remember up to a thousand memories, all or none."""
    news = [_new(body) for body in ask.body.memories]
    return {"results": [_added(one) for one in add.add_batch(ask.engine, ask.caller, news)]}


def get_memory(ask: Ask[Nothing, Nothing]) -> Memory:
    """Read one recallable memory."""
    return written(read.get(ask.engine, ask.caller, ask.path_id))


def list_memories(ask: Ask[Nothing, PageQuery]) -> PageAnswer:
    """Read recallable memories page by page."""
    query = ask.query
    page = read.page(ask.engine, ask.caller, user_id=query.user_id, cursor=query.cursor, limit=query.limit)
    return {"results": [written(one) for one in page.memories], "next_cursor": page.next_cursor}


def delete_memory(ask: Ask[Nothing, DeleteQuery]) -> DeleteAnswer:
    """Erase one memory and prove it."""
    cascade = ask.query.derived is not None
    erased = erase.erase(ask.engine, ask.caller, ask.path_id, ask.query.basis, cascade=cascade)
    return {
        "message": _DELETED,
        "deleted": True,
        "key_custody": erased.key_custody,
        "retirement_hashes": erased.retirement_hashes,
        **proof(erased.receipt),
    }


def check_memory(ask: Ask[Nothing, Nothing]) -> StatusAnswer:
    """Say how one memory stands."""
    found = status.status(ask.engine, ask.caller, ask.path_id)
    if found.valid is None:
        return {"valid": None, "reason": "not_found"}
    return {
        "valid": found.valid,
        "retrieval_safe": found.retrieval_safe,
        "embedding_retired": found.embedding_retired,
        "physically_purged": found.physically_purged,
        "failures": list(found.failures),
    }


def _new(body: NewMemoryBody) -> NewMemory:
    return NewMemory(
        text=body.messages,
        user_id=body.user_id,
        semantic_type=body.semantic_type,
        metadata=cast(JsonObject, body.metadata),
        lawful_basis=body.lawful_basis,
        purposes=tuple(body.purposes),
        derived_from=tuple(body.derived_from),
        expires_at=body.expires_at,
    )


def _added(added: Added) -> AddedMemory:
    written = AddedMemory(id=added.memory_id, memory=added.text, event="ADD", **proof(added.receipt))
    if added.is_erased:
        written["erased"] = True
    return written


def written(recalled: Recalled) -> Memory:
    """Write a memory for the wire."""
    content = recalled.content
    return {
        "id": recalled.memory_id,
        "memory": content.text,
        "user_id": content.user_id,
        "semantic_type": content.semantic_type,
        "metadata": content.metadata,
        "created_at": recalled.created_at,
    }


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/memories",
        scope=Scope.DATA,
        act=add_memory,
        answer=AddAnswer,
        body=NewMemoryBody,
        query=Nothing,
        lane=Lane.REMEMBER,
        refused={NotFound: {}, Blocked: {}, LineageUnsupported: {}},
        together=add_each,
    ),
    Operation(
        method="POST",
        path="/v1/memories/batch",
        scope=Scope.DATA,
        act=add_memories,
        answer=AddAnswer,
        body=BatchBody,
        query=Nothing,
        lane=Lane.BATCH,
        allowance=BATCH,
        weigh=lambda body: len(body.memories),
        refused={NotFound: {}, Blocked: {}, LineageUnsupported: {}},
    ),
    Operation(
        method="GET",
        path="/v1/memories",
        scope=Scope.DATA,
        act=list_memories,
        answer=PageAnswer,
        body=Nothing,
        query=PageQuery,
        lane=Lane.READ,
    ),
    Operation(
        method="GET",
        path="/v1/memories/{memory_id}",
        scope=Scope.DATA,
        act=get_memory,
        answer=Memory,
        body=Nothing,
        query=Nothing,
        lane=Lane.READ,
        refused={RowDamaged: {}},
    ),
    Operation(
        method="DELETE",
        path="/v1/memories/{memory_id}",
        scope=Scope.ADMIN,
        act=delete_memory,
        answer=DeleteAnswer,
        body=Nothing,
        query=DeleteQuery,
        lane=Lane.GOVERN,
        refused={NotFound: {"deleted": False}, Held: {"deleted": False, "held": True}, Blocked: {}},
    ),
    Operation(
        method="GET",
        path="/v1/memories/{memory_id}/verify",
        scope=Scope.DATA,
        act=check_memory,
        answer=StatusAnswer,
        body=Nothing,
        query=Nothing,
        lane=Lane.READ,
    ),
)
