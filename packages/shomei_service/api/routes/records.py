"""The records themselves: receipts, tombstones, the read audit. CONTRACT.md §1."""

from typing import Final, cast

from ...engine.model import Scope
from ...engine.store.audit import AuditEvent
from ...engine.verbs import records
from ..answers import proof
from ..exchange import Ask, Operation
from ..governed_answers import AuditAnswer, AuditListed, ReceiptsAnswer, TombstonesAnswer
from ..lanes import Lane
from ..schemas import AuditQuery, LogQuery, Nothing, TombstoneQuery


def list_receipts(ask: Ask[Nothing, LogQuery]) -> ReceiptsAnswer:
    """Read the receipt log page by page."""
    query = ask.query
    page = records.receipt_page(
        ask.engine, ask.caller, origin=query.origin, after_seq=query.after_seq, limit=query.limit
    )
    return {
        "origin": page.origin,
        "origins": page.origins,
        "results": [proof(one) for one in page.receipts],
    }


def list_tombstones(ask: Ask[Nothing, TombstoneQuery]) -> TombstonesAnswer:
    """Read what is left of erased memories."""
    query = ask.query
    page = records.tombstone_page(
        ask.engine, ask.caller, subject=query.subject_pseudonym, cursor=query.cursor, limit=query.limit
    )
    return {
        "results": [
            {
                "tombstone_id": one.tombstone_id,
                "memory_id": one.memory_id,
                "subject_pseudonym": one.subject,
                "erased_at": one.erased_at,
                "cause": one.cause.value,
                "receipt_hash": one.receipt_hash,
                "physically_purged": one.physically_purged,
            }
            for one in page.tombstones
        ],
        "next_cursor": page.next_cursor,
    }


def list_accesses(ask: Ask[Nothing, AuditQuery]) -> AuditAnswer:
    """Read who read or was refused what, of one subject only if it is named."""
    query = ask.query
    found = records.audit_page(
        ask.engine,
        ask.caller,
        after_seq=query.after_seq,
        limit=query.limit,
        user_id=query.user_id,
        subject=query.subject_pseudonym,
    )
    return {"results": [_accessed(one) for one in found]}


def _accessed(one: AuditEvent) -> AuditListed:
    return cast(AuditListed, cast(object, one.told()))


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/receipts",
        scope=Scope.ADMIN,
        act=list_receipts,
        answer=ReceiptsAnswer,
        body=Nothing,
        query=LogQuery,
        lane=Lane.READ,
    ),
    Operation(
        method="GET",
        path="/v1/tombstones",
        scope=Scope.ADMIN,
        act=list_tombstones,
        answer=TombstonesAnswer,
        body=Nothing,
        query=TombstoneQuery,
        lane=Lane.READ,
    ),
    Operation(
        method="GET",
        path="/v1/audit",
        scope=Scope.ADMIN,
        act=list_accesses,
        answer=AuditAnswer,
        body=Nothing,
        query=AuditQuery,
        lane=Lane.READ,
    ),
)
