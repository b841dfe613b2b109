"""Lineage: edges between memories and artifacts, and who a memory is about. SEMANTICS.md §11."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, insert, select, update

from ..model import ArtifactKind, EdgeKind, MemoryId, Pseudonym
from ..prepared import Prepared
from .bound import TENANT, WANTED, any_of, one_of, within
from .governance_tables import artifacts, edges
from .records import record
from .tables import memory_subjects
from .unit import Unit

_DERIVED = (edges.c.tenant_id == TENANT, edges.c.kind == EdgeKind.DERIVED_FROM)
_MADE_FROM = Prepared(select(edges.c.derived_id).where(*_DERIVED, one_of(edges.c.source_id)))
_SOURCES = Prepared(select(edges.c.source_id).where(*_DERIVED, edges.c.derived_id == WANTED))
_SUBJECTS = select(memory_subjects.c.subject).where(
    memory_subjects.c.tenant_id == TENANT, one_of(memory_subjects.c.memory_id)
)
_ABOUT = Prepared(
    select(memory_subjects.c.memory_id).where(
        memory_subjects.c.tenant_id == TENANT, memory_subjects.c.subject == WANTED
    )
)
_FIRST_BELOW = (
    select(edges.c.derived_id.label("id"))
    .where(*_DERIVED, one_of(edges.c.source_id))
    .cte("below", recursive=True)
)
_BELOW = _FIRST_BELOW.union(
    select(edges.c.derived_id).join(_FIRST_BELOW, edges.c.source_id == _FIRST_BELOW.c.id).where(*_DERIVED)
)
_CLOSURE = Prepared(select(_BELOW.c.id))
_ASK = (
    update(artifacts)
    .where(
        artifacts.c.tenant_id == TENANT,
        one_of(artifacts.c.artifact_id),
        artifacts.c.erasure_requested_at.is_(None),
    )
    .values(erasure_requested_at=bindparam("at"))
    .returning(artifacts.c.artifact_id, artifacts.c.acknowledged_at)
)


@dataclass(frozen=True, slots=True)
class Edge:
    """One step of lineage, from what was derived to what it came from."""

    kind: EdgeKind
    derived_id: str
    source_id: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something made from memories that lies outside the store."""

    artifact_id: str
    kind: ArtifactKind
    location_code: str | None
    created_at: int
    erasure_requested_at: int | None = None
    acknowledged_at: int | None = None


def put_subjects(unit: Unit, subjects: Mapping[MemoryId, Sequence[Pseudonym]]) -> None:
    """Record whom memories are about."""
    rows = [
        {"tenant_id": unit.tenant, "memory_id": memory_id, "subject": subject}
        for memory_id, several in subjects.items()
        for subject in several
    ]
    if rows:
        unit.connection.execute(insert(memory_subjects), rows)


def subjects_of(unit: Unit, ids: Sequence[str]) -> frozenset[Pseudonym]:
    """Return everyone the memories are about, sources' subjects included."""
    found = unit.connection.execute(_SUBJECTS, any_of(unit, ids)).scalars()
    return frozenset(Pseudonym(value) for value in found)


def about(unit: Unit, subject: Pseudonym) -> list[MemoryId]:
    """Return every memory, erased ones included, that is about the subject, by itself or through a source."""
    return _ABOUT.values(unit.connection, within(unit, subject))


def put_edges(unit: Unit, new: Sequence[Edge]) -> None:
    """Store edges."""
    if new:
        unit.connection.execute(
            insert(edges),
            [
                {
                    "tenant_id": unit.tenant,
                    "kind": edge.kind,
                    "derived_id": edge.derived_id,
                    "source_id": edge.source_id,
                }
                for edge in new
            ],
        )


def sources_of(unit: Unit, derived_id: str) -> list[str]:
    """Return the direct sources of a memory or artifact."""
    return _SOURCES.values(unit.connection, within(unit, derived_id))


def made_from(unit: Unit, ids: Sequence[str]) -> list[str]:
    """Return what was made directly from any of these."""
    return sorted(set(_MADE_FROM.values(unit.connection, any_of(unit, ids))))


def closure(unit: Unit, ids: Sequence[str]) -> list[str]:
    """Return everything made from these, transitively: memories and artifacts, not themselves."""
    found = set(_CLOSURE.values(unit.connection, any_of(unit, ids)))
    return sorted(found - set(ids))


def depth_of(unit: Unit, derived_id: str, limit: int) -> int:
    """Return how many generations of sources a memory has, counting at most to the limit."""
    depth, level = 0, [derived_id]
    while level and depth < limit:
        query = select(edges.c.source_id).where(
            edges.c.tenant_id == unit.tenant,
            edges.c.kind == EdgeKind.DERIVED_FROM,
            edges.c.derived_id.in_(level),
        )
        level = sorted(set(unit.connection.execute(query).scalars()))
        depth += bool(level)
    return depth


def touching(unit: Unit, node: str, *, as_derived: bool, as_source: bool, limit: int) -> list[Edge]:
    """Return the edges at a node, in a fixed order: to its sources, then to what was made from it."""
    found: list[Edge] = []
    for wanted, column in ((as_derived, edges.c.derived_id), (as_source, edges.c.source_id)):
        if wanted and len(found) < limit:
            query = (
                select(edges)
                .where(edges.c.tenant_id == unit.tenant, column == node)
                .order_by(edges.c.kind, edges.c.derived_id, edges.c.source_id)
                .limit(limit - len(found))
            )
            found += [
                record(Edge, row, kind=EdgeKind(row["kind"]))
                for row in unit.connection.execute(query).mappings()
            ]
    return found


def put_artifact(unit: Unit, artifact: Artifact) -> None:
    """Store a new artifact."""
    values = {
        column.name: getattr(artifact, column.name) for column in artifacts.c if column.name != "tenant_id"
    }
    unit.connection.execute(insert(artifacts).values(values | {"tenant_id": unit.tenant}))


def find_artifact(unit: Unit, artifact_id: str) -> Artifact | None:
    """Return an artifact by its id."""
    query = select(artifacts).where(
        artifacts.c.tenant_id == unit.tenant, artifacts.c.artifact_id == artifact_id
    )
    row = unit.connection.execute(query).mappings().first()
    return record(Artifact, row, kind=ArtifactKind(row["kind"])) if row else None


def request_erasure(unit: Unit, ids: Sequence[str], *, at: int) -> list[tuple[str, int | None]]:
    """Ask the owners of artifacts to erase them; return the newly asked, each with when it had answered."""
    done = unit.connection.execute(_ASK, any_of(unit, ids) | {"at": at})
    return sorted((row[0], row[1]) for row in done)


def acknowledge(unit: Unit, artifact_id: str, *, at: int) -> None:
    """Record that the owner of an artifact erased it."""
    unit.connection.execute(
        update(artifacts)
        .where(artifacts.c.tenant_id == unit.tenant, artifacts.c.artifact_id == artifact_id)
        .values(acknowledged_at=at)
    )
