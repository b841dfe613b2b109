"""How a new memory stands: whom it is about, whether it may be remembered or is held. SEMANTICS.md §5.

What a memory inherits from its sources, whether its subject may be remembered and whether it has the
consent it rests on is decided inside the unit, where nothing can change in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from . import limits, policy
from .errors import Blocked, Invalid, NotFound
from .model import ConsentAction, LawfulBasis, NewMemory, PostForget, Pseudonym, Tenant
from .parts import Engine
from .store import consents, holds, lineage, memories, obligations, restrictions
from .store.unit import Unit


@dataclass(frozen=True, slots=True)
class Standing:
    """What a new memory is about and for, once its sources and its subject's consent are looked at."""

    new: NewMemory
    subjects: frozenset[Pseudonym]
    consented: bool
    held: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What there is on record of subjects, asked once for all memories that arrive together."""

    tenant: Tenant
    held: frozenset[Pseudonym]
    forgotten: frozenset[Pseudonym]
    said: Mapping[Pseudonym, Mapping[str, ConsentAction]]


def known(unit: Unit, tenant: Tenant, about: Iterable[tuple[NewMemory, Pseudonym | None]]) -> Known:
    """Look up the subjects of new memories."""
    pairs = [(new, subject) for new, subject in about if subject is not None]
    subjects = frozenset(subject for _, subject in pairs)
    resting = {subject for new, subject in pairs if new.lawful_basis is LawfulBasis.CONSENT}
    return Known(
        tenant,
        holds.subjects_held(unit, subjects),
        _forgotten(unit, tenant, subjects),
        consents.standing_of(unit, resting),
    )


def of(engine: Engine, unit: Unit, found: Known, new: NewMemory, subject: Pseudonym | None) -> Standing:
    """Return how one memory stands; `found` knows its subject.

    Raises Blocked when a subject may not be remembered or a source is out of recall, NotFound for an
    unknown source.
    """
    subjects = frozenset([subject] if subject is not None else [])
    if new.derived_from:
        _require_sources(engine, unit, new.derived_from)
        new = _inherited(unit, new)
        subjects |= lineage.subjects_of(unit, new.derived_from)
        found = replace(
            found,
            held=holds.subjects_held(unit, subjects),
            forgotten=_forgotten(unit, found.tenant, subjects),
        )
    consented = _has_consent(found, new, subject)
    _require_rememberable(found, new, subjects, consented=consented)
    return Standing(new, subjects, consented, held=not found.held.isdisjoint(subjects))


def _forgotten(unit: Unit, tenant: Tenant, subjects: frozenset[Pseudonym]) -> frozenset[Pseudonym]:
    if tenant.policies.post_forget is PostForget.ALLOW:
        return frozenset()  # it makes no difference then
    return obligations.forgotten_among(unit, subjects)


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


def _has_consent(found: Known, new: NewMemory, subject: Pseudonym | None) -> bool:
    """Say whether the memory has the consent it rests on. SEMANTICS.md §13."""
    if new.lawful_basis is LawfulBasis.NOT_RECORDED:
        return not found.tenant.policies.consent_required
    if new.lawful_basis is not LawfulBasis.CONSENT or subject is None:
        return True
    said = found.said.get(subject, {})
    answers = {said.get(purpose) for purpose in new.purposes}
    if ConsentAction.GRANTED not in answers and ConsentAction.WITHDRAWN in answers:
        raise Blocked("the memory does not permit this now")
    return ConsentAction.GRANTED in answers


def _require_rememberable(
    found: Known, new: NewMemory, subjects: frozenset[Pseudonym], *, consented: bool
) -> None:
    """A forgotten subject is remembered again only as the tenant's policy says. SEMANTICS.md §8."""
    rule = found.tenant.policies.post_forget
    if rule is PostForget.ALLOW or found.forgotten.isdisjoint(subjects):
        return
    if rule is PostForget.REQUIRE_CONSENT and new.lawful_basis is LawfulBasis.CONSENT and consented:
        return
    raise Blocked("the memory does not permit this now")
