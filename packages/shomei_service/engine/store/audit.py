"""Audit events: who read or was refused what, append-only and chained by hash. docs/spec/export.md §8."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Final

from sqlalchemy import RowMapping, insert, select
from sqlalchemy.exc import SQLAlchemyError

from shomei_memory_verify.canonical import canonical_bytes

from ..errors import StorageUnavailable
from ..model import SYSTEM_ACTOR, JsonObject, MemoryId, Pseudonym
from . import tenants
from .bound import TENANT, any_of, one_of
from .governance_tables import audit, audit_subjects
from .records import record
from .tables import memory_subjects
from .unit import Unit

_START: Final = "sha256:" + "0" * 64
_IDS: Final = 100  # of one event; the count says how many there were
_ABOUT: Final = select(memory_subjects.c.memory_id, memory_subjects.c.subject).where(
    memory_subjects.c.tenant_id == TENANT, one_of(memory_subjects.c.memory_id)
)
_SUBJECTS: Final = (
    select(audit_subjects.c.seq, audit_subjects.c.subject)
    .where(audit_subjects.c.tenant_id == TENANT, one_of(audit_subjects.c.seq))
    .order_by(audit_subjects.c.seq, audit_subjects.c.subject)
)


@dataclass(frozen=True, slots=True)
class Access:
    """One read or refusal: opaque ids, codes and counts; never text, query, score or subject name.

    Whom the memories are about is found out when it is written; `subjects` names others that were asked for.
    """

    at: int
    actor: str
    is_admin: bool
    verb: str
    outcome: str
    memory_ids: tuple[MemoryId, ...]
    count: int
    subjects: tuple[Pseudonym, ...] = ()
    http_status: int | None = None
    purpose: str | None = None
    latency_ms: int | None = None
    request_id: str | None = None
    receipt_hash: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An access on record: its place in the tenant's chain and the hash of the event before."""

    seq: int
    prev_hash: str
    access: Access

    def told(self) -> JsonObject:
        """Return the event as it is shown, and as its hash is taken."""
        access = self.access
        is_system = access.actor == SYSTEM_ACTOR
        return {
            "seq": self.seq,
            "prev_hash": self.prev_hash,
            "at": access.at,
            "actor_ref": access.actor,
            "actor_kind": "system" if is_system else "admin" if access.is_admin else "data",
            "verb": access.verb,
            "outcome_code": access.outcome,
            "http_status": access.http_status,
            "purpose_code": access.purpose,
            "memory_ids": [*access.memory_ids],
            "subject_pseudonyms": [*access.subjects],
            "count": access.count,
            "latency_ms": access.latency_ms,
            "request_id": access.request_id,
            "receipt_hash": access.receipt_hash,
        }

    def link(self) -> str:
        """Return the hash that the next event carries."""
        return "sha256:" + hashlib.sha256(canonical_bytes(self.told())).hexdigest()


def append(unit: Unit, accesses: Sequence[Access]) -> None:
    """Add accesses to the tenant's chain, in order. Raise StorageUnavailable when they can not be written."""
    try:
        _append(unit, accesses)
    except SQLAlchemyError as exc:
        raise StorageUnavailable("the audit can not be written") from exc


def _append(unit: Unit, accesses: Sequence[Access]) -> None:
    tenants.lock(unit)
    newest = select(audit).where(audit.c.tenant_id == unit.tenant).order_by(audit.c.seq.desc()).limit(1)
    row = unit.connection.execute(newest).mappings().first()
    seq, link = 0, _START
    if row is not None:
        last = _events(unit, [row])[0]
        seq, link = last.seq + 1, last.link()
    rows: list[Mapping[str, object]] = []
    about: list[Mapping[str, object]] = []
    for access, counts in zip(accesses, _counted(unit, accesses), strict=True):
        kept = replace(access, memory_ids=access.memory_ids[:_IDS], subjects=tuple(sorted(counts)))
        event = AuditEvent(seq, link, kept)
        rows.append(_stored(unit, event))
        about += [
            {"tenant_id": unit.tenant, "seq": seq, "subject": subject, "count": count}
            for subject, count in counts.items()
        ]
        seq, link = seq + 1, event.link()
    unit.connection.execute(insert(audit), rows)
    if about:
        unit.connection.execute(insert(audit_subjects), about)


def _stored(unit: Unit, event: AuditEvent) -> Mapping[str, object]:
    fields: dict[str, object] = asdict(event.access)
    del fields["subjects"]
    return fields | {
        "tenant_id": unit.tenant,
        "seq": event.seq,
        "prev_hash": event.prev_hash,
        "memory_ids": json.dumps(event.access.memory_ids),
    }


def _counted(unit: Unit, accesses: Sequence[Access]) -> Iterator[Mapping[Pseudonym, int]]:
    """Yield for each access whom it is about, and with how many of its memories."""
    ids = sorted({one for access in accesses for one in access.memory_ids})
    about: dict[MemoryId, list[Pseudonym]] = {}
    for memory_id, subject in unit.connection.execute(_ABOUT, any_of(unit, ids)):
        about.setdefault(memory_id, []).append(subject)
    for access in accesses:
        counts = Counter(dict.fromkeys(access.subjects, 0))
        for memory_id in access.memory_ids:
            counts.update(about.get(memory_id, ()))
        yield counts


def page(unit: Unit, after_seq: int, limit: int, *, subject: Pseudonym | None = None) -> list[AuditEvent]:
    """Return later events, in order; those about one subject only if it is named."""
    query = select(audit).where(audit.c.tenant_id == unit.tenant, audit.c.seq > after_seq)
    if subject is not None:
        query = query.join(
            audit_subjects,
            (audit_subjects.c.tenant_id == audit.c.tenant_id) & (audit_subjects.c.seq == audit.c.seq),
        ).where(audit_subjects.c.subject == subject)
    rows = unit.connection.execute(query.order_by(audit.c.seq).limit(limit)).mappings()
    return _events(unit, rows.all())


def count_for(unit: Unit, subject: Pseudonym, seqs: Sequence[int]) -> dict[int, int]:
    """Return, for each of these events, how many memories about the subject it is about."""
    query = select(audit_subjects.c.seq, audit_subjects.c.count).where(
        audit_subjects.c.tenant_id == TENANT,
        audit_subjects.c.subject == subject,
        one_of(audit_subjects.c.seq),
    )
    return {row[0]: row[1] for row in unit.connection.execute(query, any_of(unit, seqs))}


def is_chained(events: Sequence[AuditEvent]) -> bool:
    """Say whether each event carries the hash of the one before."""
    return all(later.prev_hash == earlier.link() for earlier, later in pairwise(events))


def _events(unit: Unit, rows: Sequence[RowMapping]) -> list[AuditEvent]:
    subjects: dict[int, list[Pseudonym]] = {}
    seqs: list[int] = [row["seq"] for row in rows]
    for seq, subject in unit.connection.execute(_SUBJECTS, any_of(unit, seqs)):
        subjects.setdefault(seq, []).append(subject)
    return [
        AuditEvent(
            row["seq"],
            row["prev_hash"],
            record(
                Access,
                row,
                memory_ids=tuple(json.loads(row["memory_ids"])),
                subjects=tuple(subjects.get(row["seq"], ())),
            ),
        )
        for row in rows
    ]
