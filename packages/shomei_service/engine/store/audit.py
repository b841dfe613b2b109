"""Audit events: who read or was refused what, append-only and chained by hash. SEMANTICS.md §14."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from sqlalchemy import RowMapping, insert, select

from ..model import MemoryId
from . import tenants
from .governance_tables import audit
from .records import record
from .unit import Unit

_START = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True)
class Access:
    """One read or refusal: opaque ids, codes and counts; never text, query, score or subject name."""

    at: int
    actor: str
    is_admin: bool
    verb: str
    outcome: str
    memory_ids: tuple[MemoryId, ...]
    count: int


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An access on record: its place in the tenant's chain and the hash of the event before."""

    seq: int
    prev_hash: str
    access: Access


def append(unit: Unit, accesses: Sequence[Access]) -> None:
    """Add accesses to the tenant's chain, in order."""
    tenants.lock(unit)
    newest = select(audit).where(audit.c.tenant_id == unit.tenant).order_by(audit.c.seq.desc()).limit(1)
    row = unit.connection.execute(newest).mappings().first()
    seq, link = (row["seq"] + 1, _hash(_event(row))) if row else (0, _START)
    rows: list[dict[str, object]] = []
    for access in accesses:
        event = AuditEvent(seq, link, access)
        rows.append(
            {
                "tenant_id": unit.tenant,
                "seq": seq,
                "prev_hash": link,
                **asdict(access),
                "memory_ids": json.dumps(access.memory_ids),
            }
        )
        seq, link = seq + 1, _hash(event)
    unit.connection.execute(insert(audit), rows)


def page(unit: Unit, after_seq: int, limit: int) -> list[AuditEvent]:
    """Return later events, in order."""
    query = (
        select(audit)
        .where(audit.c.tenant_id == unit.tenant, audit.c.seq > after_seq)
        .order_by(audit.c.seq)
        .limit(limit)
    )
    return [_event(row) for row in unit.connection.execute(query).mappings()]


def is_chained(events: Sequence[AuditEvent]) -> bool:
    """Say whether each event carries the hash of the one before."""
    return all(later.prev_hash == _hash(earlier) for earlier, later in pairwise(events))


def _event(row: RowMapping) -> AuditEvent:
    access = record(Access, row, memory_ids=tuple(json.loads(row["memory_ids"])))
    return AuditEvent(row["seq"], row["prev_hash"], access)


def _hash(event: AuditEvent) -> str:
    told = json.dumps(asdict(event), sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(told.encode()).hexdigest()
