"""Read the records themselves, page by page: receipts, tombstones, the read audit. CONTRACT.md §1."""

from dataclasses import dataclass

from .. import limits, policy
from ..errors import Invalid
from ..model import Attested, Caller, Pseudonym, Scope, Tombstone
from ..parts import Engine
from ..store import audit, receipts, tenants, tombstones
from ..store.audit import AuditEvent


@dataclass(frozen=True, slots=True)
class ReceiptPage:
    """Receipts of one origin in order, and every origin the tenant's log has had."""

    origin: str
    origins: list[str]
    receipts: list[Attested]
    last_seq: int  # where the next page starts


@dataclass(frozen=True, slots=True)
class TombstonePage:
    """Tombstones by id, and after which id the next page starts."""

    tombstones: list[Tombstone]
    next_cursor: str | None


def receipt_page(
    engine: Engine, caller: Caller, *, origin: str | None = None, after_seq: int = -1, limit: int = 100
) -> ReceiptPage:
    """Return receipts after a sequence number; without an origin, those of the current one. Raise Invalid."""
    caller.require(Scope.ADMIN)
    policy.require_count(limit, largest=limits.PAGE_ROWS)
    with engine.reading(caller.tenant) as unit:
        asked = origin or tenants.get(unit).log_origin
        rows = receipts.page(unit, asked, after_seq, limit)
        told = [receipts.attested(row) for row in rows]
        return ReceiptPage(asked, receipts.origins(unit), told, rows[-1].seq if rows else after_seq)


def tombstone_page(
    engine: Engine,
    caller: Caller,
    *,
    subject: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> TombstonePage:
    """Return tombstones, those about one pseudonym only if it is named. Raise Invalid."""
    caller.require(Scope.ADMIN)
    policy.require_count(limit, largest=limits.PAGE_ROWS)
    with engine.reading(caller.tenant) as unit:
        pseudonym = Pseudonym(subject) if subject is not None else None
        found = tombstones.page(unit, pseudonym, cursor or "", limit + 1)
    return TombstonePage(found[:limit], found[limit - 1].tombstone_id if len(found) > limit else None)


def audit_page(
    engine: Engine,
    caller: Caller,
    *,
    after_seq: int = -1,
    limit: int = 100,
    user_id: str | None = None,
    subject: str | None = None,
) -> list[AuditEvent]:
    """Return accesses on record after a sequence number; those still in the buffer are written first.

    A subject is named by user_id or by pseudonym, not by both: Invalid otherwise.
    """
    caller.require(Scope.ADMIN)
    policy.require_count(limit, largest=limits.PAGE_ROWS)
    if user_id is not None and subject is not None:
        raise Invalid("name the subject by user_id or by subject_pseudonym, not by both")
    engine.audit.flush()
    with engine.reading(caller.tenant) as unit:
        about = Pseudonym(subject) if subject is not None else None
        if user_id is not None:
            policy.require_subject(user_id)
            about = engine.commitments(tenants.get(unit)).subject(user_id)
        return audit.page(unit, after_seq, limit, subject=about)
