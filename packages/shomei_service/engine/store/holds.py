"""Legal holds, and what they cover. SEMANTICS.md §7."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, insert, select, tuple_, union, update

from ..model import Authority, Hold, HoldScope, MemoryId, Pseudonym, Release, TenantId
from ..prepared import Prepared
from .bound import TENANT, any_of, one_of
from .governance_tables import holds
from .records import record
from .tables import memory_subjects
from .unit import Unit

_OPEN = (holds.c.tenant_id == TENANT, holds.c.released_at.is_(None))
_HELD = Prepared(
    union(
        select(holds.c.memory_id).where(*_OPEN, one_of(holds.c.memory_id)),
        select(memory_subjects.c.memory_id)
        .join(holds, holds.c.subject == memory_subjects.c.subject)
        .where(*_OPEN, memory_subjects.c.tenant_id == TENANT, one_of(memory_subjects.c.memory_id)),
    )
)
_SUBJECTS_HELD = Prepared(select(holds.c.subject).where(*_OPEN, one_of(holds.c.subject)))


@dataclass(frozen=True, slots=True)
class SealedMatter:
    """The operator's matter reference, sealed under a leaf of its own."""

    address: int
    sealed_dek: bytes
    sealed: bytes


def _hold(row: RowMapping) -> Hold:
    return record(
        Hold,
        row,
        scope=HoldScope(row["scope"]),
        authority=Authority(row["authority_code"]),
        release=Release(row["release_code"]) if row["release_code"] else None,
    )


def put(unit: Unit, hold: Hold, *, matter_ref_hmac: str | None, matter: SealedMatter | None) -> None:
    """Store a new hold."""
    unit.connection.execute(
        insert(holds).values(
            tenant_id=unit.tenant,
            hold_id=hold.hold_id,
            scope=hold.scope,
            memory_id=hold.memory_id,
            subject=hold.subject,
            authority_code=hold.authority,
            matter_ref_hmac=matter_ref_hmac,
            matter_address=matter.address if matter else None,
            sealed_matter_dek=matter.sealed_dek if matter else None,
            sealed_matter=matter.sealed if matter else None,
            placed_by=hold.placed_by,
            placed_at=hold.placed_at,
            review_at=hold.review_at,
            expires_at=hold.expires_at,
        )
    )


def lock(unit: Unit, hold_id: str) -> Hold | None:
    """Return the hold, locked."""
    query = select(holds).where(holds.c.tenant_id == unit.tenant, holds.c.hold_id == hold_id)
    row = unit.connection.execute(query.with_for_update()).mappings().first()
    return _hold(row) if row else None


def matter_hmac(unit: Unit, hold_id: str) -> str | None:
    """Return the keyed hash of the hold's matter reference."""
    query = select(holds.c.matter_ref_hmac).where(
        holds.c.tenant_id == unit.tenant, holds.c.hold_id == hold_id
    )
    return unit.connection.execute(query).scalar()


def everyone(unit: Unit) -> list[Hold]:
    """Return all holds, open and released, oldest first."""
    query = select(holds).where(holds.c.tenant_id == unit.tenant).order_by(holds.c.placed_at, holds.c.hold_id)
    return [_hold(row) for row in unit.connection.execute(query).mappings()]


def page(unit: Unit, after: str | None, limit: int) -> list[Hold]:
    """Return holds that come after one, open and released, oldest first."""
    query = select(holds).where(holds.c.tenant_id == unit.tenant)
    if after is not None:
        at = select(holds.c.placed_at).where(holds.c.tenant_id == unit.tenant, holds.c.hold_id == after)
        query = query.where(tuple_(holds.c.placed_at, holds.c.hold_id) > tuple_(at.scalar_subquery(), after))
    ordered = query.order_by(holds.c.placed_at, holds.c.hold_id).limit(limit)
    return [_hold(row) for row in unit.connection.execute(ordered).mappings()]


def release(unit: Unit, hold_id: str, code: Release, *, by: str, at: int) -> None:
    """Record that a hold is over."""
    unit.connection.execute(
        update(holds)
        .where(holds.c.tenant_id == unit.tenant, holds.c.hold_id == hold_id)
        .values(release_code=code, released_by=by, released_at=at)
    )


def held_among(unit: Unit, ids: Sequence[MemoryId]) -> frozenset[MemoryId]:
    """Return those of the memories that an open hold covers, by themselves or by any of their subjects."""
    held = _HELD.values(unit.connection, any_of(unit, ids))
    return frozenset(MemoryId(value) for value in held)


def subjects_held(unit: Unit, subjects: Collection[Pseudonym]) -> frozenset[Pseudonym]:
    """Return those of the subjects whom an open hold covers with everything there will be."""
    if not subjects:
        return frozenset()
    return frozenset(_SUBJECTS_HELD.values(unit.connection, any_of(unit, [*subjects])))


def expired(connection: Connection, now: int) -> list[tuple[TenantId, str]]:
    """Return open holds of any tenant whose time is over, those that ended first first."""
    query = (
        select(holds.c.tenant_id, holds.c.hold_id)
        .where(holds.c.released_at.is_(None), holds.c.expires_at.is_not(None), holds.c.expires_at <= now)
        .order_by(holds.c.expires_at, holds.c.hold_id)
    )
    return [(TenantId(row[0]), row[1]) for row in connection.execute(query)]
