"""The way in, shared by add, batch add and update: seal, then check and store in one unit. CUSTODY.md §3.

What a memory inherits from its sources, whether its subject may be remembered and whether it has the
consent it rests on is decided inside the unit, where nothing can change in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import limits, policy
from .errors import Blocked, Invalid, LineageUnsupported, NotFound
from .model import (
    Added,
    ConsentAction,
    Content,
    EdgeKind,
    LawfulBasis,
    MemoryId,
    MemoryRow,
    NewMemory,
    PostForget,
    Pseudonym,
    SourceKind,
    Tenant,
    new_id,
)
from .parts import Engine
from .recall.embedder import words_of
from .receipts import bodies
from .receipts.bodies import Draft
from .receipts.content_free import GENERIC
from .store import consents, holds, lineage, memories, obligations, restrictions, tenants
from .store.lineage import Edge
from .store.unit import Unit


@dataclass(frozen=True, slots=True)
class Admission:
    """A memory that is sealed and not stored yet."""

    new: NewMemory
    row: MemoryRow
    semantic_ref: str
    semantic: tuple[str, str]  # the receipt's field and its value


@dataclass(frozen=True, slots=True)
class Standing:
    """What a new memory is about and for, once its sources and its subject's consent are looked at."""

    new: NewMemory
    subjects: frozenset[Pseudonym]
    consented: bool
    held: bool


def prepare(engine: Engine, tenant: Tenant, new: NewMemory) -> Admission:
    """Seal a new memory under a fresh leaf; work that needs no transaction.

    Raises Invalid or TooLarge by policy, CustodyUnavailable when no leaf can be had.
    """
    policy.require_admissible(new, tenant.policies, now=engine.clock.now())
    if new.derived_from and not engine.options.lineage:
        raise LineageUnsupported("lineage is switched off for this installation")
    commitments = engine.commitments(tenant)
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
    """Store sealed memories and their receipts in the caller's unit.

    Raises Blocked when a subject may not be remembered or a source is out of recall, NotFound for an
    unknown source.
    """
    tenant = tenants.get(unit)
    standings = [_standing(engine, unit, tenant, admission) for admission in admissions]
    rows = [_stored(admission, standing) for admission, standing in zip(admissions, standings, strict=True)]
    drafts = [
        _draft(engine, admission, standing) for admission, standing in zip(admissions, standings, strict=True)
    ]
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


def _standing(engine: Engine, unit: Unit, tenant: Tenant, admission: Admission) -> Standing:
    own = [admission.row.subject] if admission.row.subject is not None else []
    new, subjects = admission.new, frozenset(own)
    if new.derived_from:
        _require_sources(engine, unit, new.derived_from)
        new = _inherited(unit, new)
        subjects |= lineage.subjects_of(unit, new.derived_from)
    consented = _has_consent(unit, tenant, new, admission.row.subject)
    _require_rememberable(unit, tenant, new, subjects, consented=consented)
    return Standing(
        new, subjects, consented, held=bool(subjects) and holds.is_subject_held(unit, sorted(subjects))
    )


def _require_sources(engine: Engine, unit: Unit, sources: Sequence[str]) -> None:
    """Every source is live and in recall at commit, and not too deep. SEMANTICS.md §11."""
    now = engine.clock.now()
    for source in sources:
        row = memories.find(unit, source)
        if row is None or not policy.is_present(row):
            raise NotFound("no such memory")
        if not policy.is_recallable(row, now) or restrictions.hidden_sources(unit, source, now):
            raise Blocked("the memory does not permit this now")
        if lineage.depth_of(unit, source, limits.LINEAGE_DEPTH) + 1 >= limits.LINEAGE_DEPTH:
            raise Invalid("derived_from would be more than 32 generations deep")


def _inherited(unit: Unit, new: NewMemory) -> NewMemory:
    """A derived memory expires with its earliest source and is for no more than all of them are for."""
    ends = [new.expires_at] if new.expires_at is not None else []
    declared = [frozenset(new.purposes)] if new.purposes else []
    for source in new.derived_from:
        row = memories.find(unit, source)
        if row is not None and row.expires_at is not None:
            ends.append(row.expires_at)
        purposes = consents.purposes_of(unit, source)
        declared += [frozenset(purposes)] if purposes else []
    common = declared[0].intersection(*declared[1:]) if declared else frozenset[str]()
    return replace(new, expires_at=min(ends, default=None), purposes=tuple(sorted(common)))


def _has_consent(unit: Unit, tenant: Tenant, new: NewMemory, subject: Pseudonym | None) -> bool:
    """Say whether the memory has the consent it rests on. SEMANTICS.md §13."""
    if new.lawful_basis is LawfulBasis.NOT_RECORDED:
        return not tenant.policies.consent_required
    if new.lawful_basis is not LawfulBasis.CONSENT or subject is None:
        return True
    said = consents.standing(unit, subject)
    answers = {said.get(purpose) for purpose in new.purposes}
    if ConsentAction.GRANTED not in answers and ConsentAction.WITHDRAWN in answers:
        raise Blocked("the memory does not permit this now")
    return ConsentAction.GRANTED in answers


def _require_rememberable(
    unit: Unit, tenant: Tenant, new: NewMemory, subjects: frozenset[Pseudonym], *, consented: bool
) -> None:
    """A forgotten subject is remembered again only as the tenant's policy says. SEMANTICS.md §8."""
    rule = tenant.policies.post_forget
    if rule is PostForget.ALLOW or not subjects or not obligations.was_forgotten(unit, sorted(subjects)):
        return
    if rule is PostForget.REQUIRE_CONSENT and new.lawful_basis is LawfulBasis.CONSENT and consented:
        return
    raise Blocked("the memory does not permit this now")
