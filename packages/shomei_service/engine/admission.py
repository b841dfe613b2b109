"""The way in, shared by add, batch add, import and update: seal, then store in one unit. CUSTODY.md §3."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from . import policy, standing
from .errors import LineageUnsupported
from .model import (
    Added,
    Content,
    EdgeKind,
    MemoryId,
    MemoryRow,
    NewMemory,
    SourceKind,
    Tenant,
    new_id,
)
from .parts import Engine
from .recall.embedder import words_of
from .receipts import bodies
from .receipts.bodies import Draft
from .receipts.commitments import Commitments
from .receipts.content_free import GENERIC
from .standing import Known, Standing
from .store import consents, lineage, memories, tenants
from .store.lineage import Edge
from .store.unit import Unit


@dataclass(frozen=True, slots=True)
class Admission:
    """A memory that is sealed and not stored yet."""

    new: NewMemory
    row: MemoryRow
    semantic_ref: str
    semantic: tuple[str, str]  # the receipt's field and its value


def prepare(engine: Engine, tenant: Tenant, news: Sequence[NewMemory]) -> list[Admission]:
    """Seal new memories, each under a fresh leaf; work that needs no transaction.

    Raises Invalid or TooLarge by policy, CustodyUnavailable when no leaf can be had.
    """
    for new in news:
        policy.require_admissible(new, tenant.policies, now=engine.clock.now())
        if new.derived_from and not engine.options.lineage:
            raise LineageUnsupported("lineage is switched off for this installation")
    commitments = engine.commitments(tenant)
    return [_sealed(engine, tenant, commitments, new) for new in news]


def _sealed(engine: Engine, tenant: Tenant, commitments: Commitments, new: NewMemory) -> Admission:
    memory_id = MemoryId(new_id("lm_"))
    row = engine.rows.seal(
        tenant.tenant_id,
        engine.slots.take(tenant.number),
        memory_id,
        Content(new.text, new.user_id, new.semantic_type, new.metadata),
        words_of(new.text),
        subject=commitments.subject(new.user_id) if new.user_id is not None else None,
        created_at=engine.clock.now(),
    )
    named = new.semantic_type in GENERIC | tenant.policies.semantic_types
    semantic = (
        ("semantic_type", new.semantic_type)
        if named
        else ("semantic_type_ref", commitments.semantic_type_of(memory_id, new.semantic_type))
    )
    return Admission(new, row, commitments.semantic_type(new.semantic_type), semantic)


def admit(engine: Engine, unit: Unit, admissions: Sequence[Admission], *, actor: str) -> list[Added]:
    """Store sealed memories and their receipts in the caller's unit; raises as `judge` does."""
    standings = judge(engine, unit, known(unit, admissions), admissions)
    return write(engine, unit, admissions, standings, actor=actor)


def known(unit: Unit, admissions: Iterable[Admission]) -> Known:
    """Look up once what is on record of all their subjects."""
    return standing.known(unit, tenants.get(unit), ((one.new, one.row.subject) for one in admissions))


def judge(engine: Engine, unit: Unit, found: Known, admissions: Sequence[Admission]) -> list[Standing]:
    """Return how sealed memories stand, by what `known` found out; nothing is written.

    Raises Blocked when a subject may not be remembered or a source is out of recall, NotFound for an
    unknown source.
    """
    return [standing.of(engine, unit, found, one.new, one.row.subject) for one in admissions]


def write(
    engine: Engine,
    unit: Unit,
    admissions: Sequence[Admission],
    standings: Sequence[Standing],
    *,
    actor: str | Sequence[str],
) -> list[Added]:
    """Store memories that may come in and their receipts; `actor` is who added them, or who added each."""
    each = list(zip(admissions, standings, strict=True))
    rows = [_stored(admission, standing) for admission, standing in each]
    drafts = [_draft(engine, admission, standing) for admission, standing in each]
    attested = engine.attest(unit, drafts, actor=actor)
    store(unit, admissions, rows, standings)
    return [
        Added(row.memory_id, admission.new.text, receipt)
        for admission, row, receipt in zip(admissions, rows, attested, strict=True)
    ]


def store(
    unit: Unit, admissions: Sequence[Admission], rows: Sequence[MemoryRow], standings: Sequence[Standing]
) -> None:
    """Write rows with their subjects, purposes and sources, under the tenant's newest revision."""
    memories.put(
        unit,
        rows,
        semantic_refs=[admission.semantic_ref for admission in admissions],
        revision=tenants.get(unit).revision,
    )
    each = list(zip(rows, standings, strict=True))
    lineage.put_subjects(unit, {row.memory_id: sorted(one.subjects) for row, one in each})
    consents.put_purposes(unit, {row.memory_id: sorted(one.new.purposes) for row, one in each})
    lineage.put_edges(
        unit,
        [
            Edge(EdgeKind.DERIVED_FROM, row.memory_id, source)
            for row, one in each
            for source in one.new.derived_from
        ],
    )


def _stored(admission: Admission, standing: Standing) -> MemoryRow:
    new = standing.new
    return replace(
        admission.row,
        lawful_basis=new.lawful_basis,
        source_kind=_kind(new),
        expires_at=new.expires_at,
        consented=standing.consented,
    )


def _kind(new: NewMemory) -> SourceKind:
    return SourceKind.DERIVED if new.derived_from else new.source_kind


def _draft(engine: Engine, admission: Admission, standing: Standing) -> Draft:
    row = admission.row
    return bodies.memory_add(
        memory_id=row.memory_id,
        subject=row.subject,
        semantic=admission.semantic,
        new=standing.new,
        source_kind=_kind(standing.new),
        held_on_arrival=standing.held,
        key_custody=engine.key_custody,
    )
