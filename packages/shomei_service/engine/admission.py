"""The way in, shared by add, batch add and import: analyse, seal, store, state. CUSTODY.md §3."""

from collections.abc import Sequence
from dataclasses import dataclass

from . import policy
from .model import Added, Content, MemoryId, MemoryRow, NewMemory, Tenant, new_id
from .parts import Engine
from .recall.embedder import words_of
from .receipts import bodies
from .receipts.bodies import Draft
from .store import memories, tenants
from .store.unit import Unit

_NAMED_SEMANTIC_TYPES = frozenset({"GENERIC"})  # may stand in receipts in clear; others are keyed


@dataclass(frozen=True, slots=True)
class Admission:
    """A memory that is sealed and ready to be stored."""

    text: str
    row: MemoryRow
    semantic_ref: str
    draft: Draft


def prepare(engine: Engine, tenant: Tenant, new: NewMemory) -> Admission:
    """Seal a new memory under a fresh leaf; work that needs no transaction.

    Raises Invalid or TooLarge by policy, CustodyUnavailable when no leaf can be had.
    """
    policy.require_admissible(new)
    commitments = engine.commitments(tenant)
    memory_id = MemoryId(new_id("lm_"))
    subject = commitments.subject(new.user_id) if new.user_id is not None else None
    row = engine.rows.seal(
        tenant.tenant_id,
        engine.slots.take(tenant.number),
        memory_id,
        Content(new.text, new.user_id, new.semantic_type, new.metadata),
        words_of(new.text),
        subject=subject,
        created_at=engine.clock.now(),
    )
    named = new.semantic_type in _NAMED_SEMANTIC_TYPES
    draft = bodies.memory_add(
        memory_id=memory_id,
        subject=subject,
        semantic=("semantic_type", new.semantic_type)
        if named
        else ("semantic_type_ref", commitments.semantic_type_of(memory_id, new.semantic_type)),
        lawful_basis=new.lawful_basis,
        key_custody=engine.key_custody,
    )
    return Admission(new.text, row, commitments.semantic_type(new.semantic_type), draft)


def admit(engine: Engine, unit: Unit, admissions: Sequence[Admission], *, actor: str) -> list[Added]:
    """Store sealed memories and their receipts in the caller's unit."""
    attested = engine.attest(unit, [admission.draft for admission in admissions], actor=actor)
    memories.put(
        unit,
        [admission.row for admission in admissions],
        semantic_refs=[admission.semantic_ref for admission in admissions],
        revision=tenants.get(unit).revision,
    )
    return [
        Added(admission.row.memory_id, admission.text, receipt)
        for admission, receipt in zip(admissions, attested, strict=True)
    ]
