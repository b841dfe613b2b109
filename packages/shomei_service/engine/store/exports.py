"""What an export reads of a subject, page by page and inside one snapshot. docs/spec/export.md §2."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Column, ColumnElement, literal, select

from ..model import (
    ArtifactKind,
    EdgeKind,
    LawfulBasis,
    Life,
    MemoryId,
    MemoryRow,
    Pseudonym,
    SourceKind,
)
from .bound import TENANT, any_of, one_of
from .governance_tables import artifacts, edges, grounds, imports, requests
from .lineage import Artifact
from .records import record
from .tables import memories, memory_purposes, memory_subjects
from .unit import Unit

_PAGE: Final = 250
_NOT_READ: Final = ("sealed_recall",)  # vectors and term counts are not the person's words
_COLUMNS: Final = [
    literal(b"").label(column.name) if column.name in _NOT_READ else column
    for column in memories.c
    if column.name not in {"tenant_id", "semantic_ref", "revision"}
]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of memories beside their rows, each by memory id; absent where there is nothing."""

    purposes: Mapping[str, Sequence[str]]
    grounds: Mapping[str, Sequence[str]]
    subjects: Mapping[str, Sequence[str]]
    sources: Mapping[str, Sequence[str]]
    imported: Mapping[str, tuple[str, int | None]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to be forgotten, and how far it has come."""

    request_id: str
    requested_at: int
    matched_count: int
    erased_count: int


def pages(unit: Unit, subject: Pseudonym) -> Iterator[list[MemoryRow]]:
    """Yield the live memories about a subject, derived ones included, in the order they were admitted."""
    after = -1
    while True:
        query = (
            select(*_COLUMNS)
            .join(
                memory_subjects,
                (memory_subjects.c.tenant_id == memories.c.tenant_id)
                & (memory_subjects.c.memory_id == memories.c.memory_id),
            )
            .where(
                memories.c.tenant_id == unit.tenant,
                memory_subjects.c.subject == subject,
                memories.c.life == Life.LIVE,
                memories.c.address > after,
            )
            .order_by(memories.c.address)
            .limit(_PAGE)
        )
        rows = [
            record(
                MemoryRow,
                row,
                life=Life(row["life"]),
                lawful_basis=LawfulBasis(row["lawful_basis"]),
                source_kind=SourceKind(row["source_kind"]),
            )
            for row in unit.connection.execute(query).mappings()
        ]
        if not rows:
            return
        yield rows
        after = rows[-1].address


def ids_by_life(unit: Unit, subject: Pseudonym) -> dict[Life, list[MemoryId]]:
    """Return the ids of all memories about a subject that have a row, by where they are in their life."""
    query = (
        select(memories.c.life, memories.c.memory_id)
        .join(
            memory_subjects,
            (memory_subjects.c.tenant_id == memories.c.tenant_id)
            & (memory_subjects.c.memory_id == memories.c.memory_id),
        )
        .where(memories.c.tenant_id == unit.tenant, memory_subjects.c.subject == subject)
    )
    found: dict[Life, list[MemoryId]] = {life: [] for life in Life}
    for life, memory_id in unit.connection.execute(query):
        found[Life(life)].append(MemoryId(memory_id))
    return found


def facts(unit: Unit, ids: Sequence[MemoryId]) -> Facts:
    """Return what is known of these memories beside their rows."""
    derived = (edges.c.kind == EdgeKind.DERIVED_FROM,)
    query = select(imports.c.memory_id, imports.c.format, imports.c.created_at).where(
        imports.c.tenant_id == TENANT, one_of(imports.c.memory_id)
    )
    known = {row[0]: (row[1], row[2]) for row in unit.connection.execute(query, any_of(unit, ids))}
    return Facts(
        purposes=_grouped(unit, ids, memory_purposes.c.memory_id, memory_purposes.c.purpose),
        grounds=_grouped(unit, ids, grounds.c.memory_id, grounds.c.code),
        subjects=_grouped(unit, ids, memory_subjects.c.memory_id, memory_subjects.c.subject),
        sources=_grouped(unit, ids, edges.c.derived_id, edges.c.source_id, *derived),
        imported=known,
    )


def artifacts_among(unit: Unit, ids: Sequence[str]) -> list[Artifact]:
    """Return those of the ids that are artifacts, in the order of their ids."""
    query = select(artifacts).where(artifacts.c.tenant_id == TENANT, one_of(artifacts.c.artifact_id))
    found = [
        record(Artifact, row, kind=ArtifactKind(row["kind"]))
        for row in unit.connection.execute(query, any_of(unit, ids)).mappings()
    ]
    return sorted(found, key=lambda one: one.artifact_id)


def asked(unit: Unit, subject: Pseudonym) -> list[Asked]:
    """Return the subject's requests to be forgotten, oldest first."""
    query = (
        select(requests)
        .where(requests.c.tenant_id == unit.tenant, requests.c.subject == subject)
        .order_by(requests.c.requested_at, requests.c.request_id)
    )
    return [record(Asked, row) for row in unit.connection.execute(query).mappings()]


def _grouped(
    unit: Unit,
    ids: Sequence[MemoryId],
    key: Column[str],
    value: Column[str],
    *conditions: ColumnElement[bool],
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    table = key.table
    query = select(key, value).where(table.c.tenant_id == TENANT, one_of(key), *conditions)
    for memory_id, told in unit.connection.execute(query.order_by(key, value), any_of(unit, ids)):
        found.setdefault(memory_id, []).append(told)
    return found
