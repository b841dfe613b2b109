"""Consent records, append-only, and what they make of memories. SEMANTICS.md §13."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, update

from ..model import ConsentAction, LawfulBasis, Life, MemoryId, Pseudonym
from ..prepared import Prepared
from .bound import TENANT, any_of, one_of
from .governance_tables import consents
from .records import record
from .tables import memories, memory_purposes
from .unit import Unit

_DROP_PURPOSES = Prepared(
    delete(memory_purposes).where(memory_purposes.c.tenant_id == TENANT, one_of(memory_purposes.c.memory_id))
)

_SAID = Prepared(
    select(consents.c.subject, consents.c.purpose, consents.c.action)
    .where(consents.c.tenant_id == TENANT, one_of(consents.c.subject))
    .order_by(consents.c.number)
)


@dataclass(frozen=True, slots=True)
class Consent:
    """One record of what a subject said about a purpose."""

    number: int
    subject: Pseudonym
    purpose: str
    action: ConsentAction
    at: int
    evidence_ref_hmac: str | None
    policy_version: str | None
    channel_code: str | None


def append(unit: Unit, consent: Consent) -> None:
    """Add a record; its number is given here."""
    newest = select(func.coalesce(func.max(consents.c.number), 0)).where(consents.c.tenant_id == unit.tenant)
    number = unit.connection.execute(newest).scalar_one() + 1
    values = {
        column.name: getattr(consent, column.name) for column in consents.c if column.name != "tenant_id"
    }
    unit.connection.execute(insert(consents).values(values | {"tenant_id": unit.tenant, "number": number}))


def standing(unit: Unit, subject: Pseudonym) -> dict[str, ConsentAction]:
    """Return what the subject's newest record says for each purpose."""
    return standing_of(unit, [subject]).get(subject, {})


def standing_of(unit: Unit, subjects: Collection[Pseudonym]) -> dict[Pseudonym, dict[str, ConsentAction]]:
    """Return what the newest records of several subjects say, as `standing` does of one."""
    said: dict[Pseudonym, dict[str, ConsentAction]] = {}
    if subjects:
        for subject, purpose, action in _SAID.rows(unit.connection, any_of(unit, [*subjects])):
            said.setdefault(Pseudonym(subject), {})[purpose] = ConsentAction(action)
    return said


def of_subject(unit: Unit, subject: Pseudonym) -> list[Consent]:
    """Return the subject's records, oldest first."""
    query = (
        select(consents)
        .where(consents.c.tenant_id == unit.tenant, consents.c.subject == subject)
        .order_by(consents.c.number)
    )
    return [
        record(Consent, row, action=ConsentAction(row["action"]))
        for row in unit.connection.execute(query).mappings()
    ]


def put_purposes(unit: Unit, purposes: dict[MemoryId, Sequence[str]]) -> None:
    """Record what memories are for."""
    rows = [
        {"tenant_id": unit.tenant, "memory_id": memory_id, "purpose": purpose}
        for memory_id, several in purposes.items()
        for purpose in several
    ]
    if rows:
        unit.connection.execute(insert(memory_purposes), rows)


def purposes_of(unit: Unit, memory_id: str) -> tuple[str, ...]:
    """Return what the memory is for, sorted."""
    query = select(memory_purposes.c.purpose).where(
        memory_purposes.c.tenant_id == unit.tenant, memory_purposes.c.memory_id == memory_id
    )
    return tuple(sorted(unit.connection.execute(query).scalars()))


def resting_on(unit: Unit, subject: Pseudonym, purpose: str) -> list[tuple[MemoryId, bool]]:
    """Return the subject's memories that rest on consent to the purpose, each with its standing.

    The successor of an update that is under way is one of them.
    """
    query = (
        select(memories.c.memory_id, memories.c.consented)
        .join(
            memory_purposes,
            (memory_purposes.c.tenant_id == memories.c.tenant_id)
            & (memory_purposes.c.memory_id == memories.c.memory_id),
        )
        .where(
            memories.c.tenant_id == unit.tenant,
            memories.c.subject == subject,
            memories.c.lawful_basis == LawfulBasis.CONSENT,
            memories.c.life.in_((Life.LIVE, Life.PENDING)),
            memory_purposes.c.purpose == purpose,
        )
    )
    return [(MemoryId(row[0]), row[1]) for row in unit.connection.execute(query)]


def set_consented(unit: Unit, ids: Sequence[MemoryId], *, consented: bool) -> None:
    """Record whether memories have the consent they rest on."""
    of_these = update(memories).where(memories.c.tenant_id == TENANT, one_of(memories.c.memory_id))
    unit.connection.execute(of_these.values(consented=consented), any_of(unit, ids))


def set_unrecorded(unit: Unit, *, consented: bool) -> None:
    """Record whether the tenant's memories may be used that rest on no stated basis."""
    unit.connection.execute(
        update(memories)
        .where(
            memories.c.tenant_id == unit.tenant,
            memories.c.lawful_basis == LawfulBasis.NOT_RECORDED,
            memories.c.consented.is_not(consented),
        )
        .values(consented=consented)
    )


def drop_purposes(unit: Unit, ids: Sequence[MemoryId]) -> None:
    """Forget what erased memories were for."""
    _DROP_PURPOSES.run(unit.connection, any_of(unit, ids))


def for_purpose(unit: Unit, purpose: str) -> list[MemoryId]:
    """Return live memories declared for a purpose, and consented where they rest on consent.

    A memory on consent with several purposes needs the grant of this one.
    """
    query = (
        select(memories.c.memory_id, memories.c.lawful_basis, memories.c.subject)
        .join(
            memory_purposes,
            (memory_purposes.c.tenant_id == memories.c.tenant_id)
            & (memory_purposes.c.memory_id == memories.c.memory_id),
        )
        .where(
            memories.c.tenant_id == unit.tenant,
            memories.c.life == Life.LIVE,
            memory_purposes.c.purpose == purpose,
        )
    )
    granted: dict[str, bool] = {}
    allowed: list[MemoryId] = []
    for memory_id, basis, subject in unit.connection.execute(query):
        if basis == LawfulBasis.CONSENT:
            if subject not in granted:
                granted[subject] = standing(unit, subject).get(purpose) is ConsentAction.GRANTED
            if not granted[subject]:
                continue
        allowed.append(MemoryId(memory_id))
    return allowed
