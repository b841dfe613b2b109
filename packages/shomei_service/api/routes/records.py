"""The records themselves: receipts, tombstones, the read audit. CONTRACT.md §1."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from ...engine import limits
from ...engine.model import Scope, Tombstone
from ...engine.store.audit import AuditEvent
from ...engine.verbs import records
from ..answers import proof
from ..exchange import Ask, Operation
from ..forms import LINES
from ..governed_answers import (
    AuditAnswer,
    AuditListed,
    ReceiptsAnswer,
    TombstoneListed,
    TombstonesAnswer,
)
from ..lanes import Lane
from ..replies import Streamed, streamed_lines
from ..schemas import AuditQuery, LogQuery, TombstoneQuery
from ..shapes import Nothing


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
    return {"results": [_buried(one) for one in page.tombstones], "next_cursor": page.next_cursor}


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


def stream_receipts(ask: Ask[Nothing, LogQuery]) -> Streamed:
    """Send every receipt from here on, one a line, as it was signed: what an auditor checks in one go."""

    def pages() -> Iterator[list[Mapping[str, object]]]:
        query = ask.query
        origin, after = query.origin, query.after_seq
        while True:
            page = records.receipt_page(
                ask.engine, ask.caller, origin=origin, after_seq=after, limit=limits.PAGE_ROWS
            )
            if not page.receipts:
                return
            yield [one.envelope or proof(one) for one in page.receipts]
            origin, after = page.origin, page.last_seq

    return streamed_lines(pages())


def stream_tombstones(ask: Ask[Nothing, TombstoneQuery]) -> Streamed:
    """Send every tombstone from here on, one a line."""

    def pages() -> Iterator[list[Mapping[str, object]]]:
        cursor = ask.query.cursor
        while True:
            page = records.tombstone_page(
                ask.engine,
                ask.caller,
                subject=ask.query.subject_pseudonym,
                cursor=cursor,
                limit=limits.PAGE_ROWS,
            )
            yield [_buried(one) for one in page.tombstones]
            cursor = page.next_cursor
            if cursor is None:
                return

    return streamed_lines(pages())


def stream_accesses(ask: Ask[Nothing, AuditQuery]) -> Streamed:
    """Send every access from here on, one a line."""

    def pages() -> Iterator[list[Mapping[str, object]]]:
        query, after = ask.query, ask.query.after_seq
        while True:
            found = records.audit_page(
                ask.engine,
                ask.caller,
                after_seq=after,
                limit=limits.PAGE_ROWS,
                user_id=query.user_id,
                subject=query.subject_pseudonym,
            )
            if not found:
                return
            yield [_accessed(one) for one in found]
            after = found[-1].seq

    return streamed_lines(pages())


def _buried(one: Tombstone) -> TombstoneListed:
    return {
        "tombstone_id": one.tombstone_id,
        "memory_id": one.memory_id,
        "subject_pseudonym": one.subject,
        "erased_at": one.erased_at,
        "cause": one.cause.value,
        "receipt_hash": one.receipt_hash,
        "physically_purged": one.physically_purged,
    }


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
        forms={LINES: stream_receipts},
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
        forms={LINES: stream_tombstones},
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
        forms={LINES: stream_accesses},
    ),
)
