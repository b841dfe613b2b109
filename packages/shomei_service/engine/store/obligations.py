"""Obligations: what is still owed, and the forget requests that wait for it. SEMANTICS.md §8, §21."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, exists, func, insert, or_, select, text, tuple_, update

from ..model import (
    ERASURES_OWED,
    Cause,
    MemoryId,
    Obligation,
    ObligationKind,
    ObligationState,
    Pseudonym,
    TenantId,
)
from ..prepared import Prepared
from .bound import TENANT, WANTED, any_of, one_of, within
from .governance_tables import artifacts as artifact_table
from .governance_tables import deferrals, obligations, request_artifacts, requests
from .records import Fields, record
from .unit import Unit

_ERASURES_OWED = Prepared(
    select(obligations).where(
        obligations.c.tenant_id == TENANT,
        text("state = 'open'"),  # as a parameter, SQLite would plan anew each time: an index depends on it
        or_(*(obligations.c.kind == kind for kind in ERASURES_OWED)),
        one_of(obligations.c.memory_id),
    )
)
_THESE = obligations.c.tenant_id == TENANT, one_of(obligations.c.obligation_id)
_END = Prepared(
    update(obligations)
    .where(*_THESE, obligations.c.state == ObligationState.OPEN)
    .values(state=bindparam("ending"), ended_at=bindparam("at"))
)
_WAITING = Prepared(
    select(
        deferrals.c.request_id,
        func.count(),
        func.sum(func.cast(deferrals.c.is_derived, requests.c.erased_count.type)),
    )
    .where(deferrals.c.tenant_id == TENANT, one_of(deferrals.c.memory_id))
    .group_by(deferrals.c.request_id)
)
_WAITED = Prepared(delete(deferrals).where(deferrals.c.tenant_id == TENANT, one_of(deferrals.c.memory_id)))
_REQUEST = requests.c.tenant_id == TENANT, requests.c.request_id == WANTED
_SUBJECT = Prepared(select(requests.c.subject).where(*_REQUEST))
_COUNT_ERASED = Prepared(
    update(requests)
    .where(*_REQUEST)
    .values(
        erased_count=requests.c.erased_count + bindparam("erased"),
        derived_erased_count=requests.c.derived_erased_count + bindparam("derived"),
        owed_by=bindparam("owing"),
    )
)
_OWED_BY = Prepared(
    select(requests)
    .where(requests.c.tenant_id == TENANT, requests.c.owed_by == WANTED)
    .order_by(requests.c.requested_at, requests.c.request_id)
)
_FORGOTTEN = Prepared(
    select(requests.c.subject).where(requests.c.tenant_id == TENANT, one_of(requests.c.subject))
)


@dataclass(frozen=True, slots=True)
class Request:
    """A forget request; its counts are cumulative until everything it matched is erased."""

    request_id: str
    subject: Pseudonym
    requested_at: int
    matched_count: int
    erased_count: int
    derived_matched_count: int
    derived_erased_count: int
    closure_hash: str | None
    owed_by: str | None


def _obligation(row: Fields) -> Obligation:
    return record(
        Obligation,
        row,
        kind=ObligationKind(row["kind"]),
        state=ObligationState(row["state"]),
        cause=Cause(row["cause"]) if row["cause"] else None,
    )


def put(unit: Unit, new: Sequence[Obligation]) -> None:
    """Store new obligations."""
    if new:
        names = [column.name for column in obligations.c if column.name != "tenant_id"]
        unit.connection.execute(
            insert(obligations),
            [{name: getattr(one, name) for name in names} | {"tenant_id": unit.tenant} for one in new],
        )


def lock(unit: Unit, obligation_id: str) -> Obligation | None:
    """Return one obligation, locked."""
    query = select(obligations).where(
        obligations.c.tenant_id == unit.tenant, obligations.c.obligation_id == obligation_id
    )
    row = unit.connection.execute(query.with_for_update()).mappings().first()
    return _obligation(row) if row else None


def erasures_owed(unit: Unit, ids: Sequence[MemoryId]) -> dict[MemoryId, Obligation]:
    """Return the open obligations to erase these memories."""
    found = _ERASURES_OWED.named(unit.connection, any_of(unit, ids))
    return {row["memory_id"]: _obligation(row) for row in found}


def page(unit: Unit, after: str | None, limit: int) -> list[Obligation]:
    """Return obligations that come after one, oldest first."""
    age = (obligations.c.requested_at, obligations.c.obligation_id)
    query = select(obligations).where(obligations.c.tenant_id == unit.tenant)
    if after is not None:
        at = select(obligations.c.requested_at).where(
            obligations.c.tenant_id == unit.tenant, obligations.c.obligation_id == after
        )
        query = query.where(tuple_(*age) > tuple_(at.scalar_subquery(), after))
    rows = unit.connection.execute(query.order_by(*age).limit(limit)).mappings()
    return [_obligation(row) for row in rows]


def about_subject(
    unit: Unit, subject: Pseudonym, purpose: str, kinds: Sequence[ObligationKind]
) -> list[Obligation]:
    """Return open obligations about a subject and purpose."""
    query = select(obligations).where(
        obligations.c.tenant_id == unit.tenant,
        obligations.c.state == ObligationState.OPEN,
        obligations.c.subject == subject,
        obligations.c.purpose == purpose,
        obligations.c.kind.in_(kinds),
    )
    return [_obligation(row) for row in unit.connection.execute(query).mappings()]


def of_artifact(unit: Unit, artifact_id: str) -> list[Obligation]:
    """Return the open obligations about an artifact."""
    query = select(obligations).where(
        obligations.c.tenant_id == unit.tenant,
        obligations.c.state == ObligationState.OPEN,
        obligations.c.artifact_id == artifact_id,
    )
    return [_obligation(row) for row in unit.connection.execute(query).mappings()]


def end(unit: Unit, ids: Sequence[str], state: ObligationState, *, at: int) -> None:
    """Record how obligations ended."""
    if ids:
        _END.run(unit.connection, any_of(unit, ids) | {"ending": state.value, "at": at})


def set_cause(unit: Unit, ids: Sequence[str], cause: Cause) -> None:
    """Record what erasures are owed for now."""
    unit.connection.execute(update(obligations).where(*_THESE).values(cause=cause), any_of(unit, ids))


def due(connection: Connection, kind: ObligationKind, now: int) -> list[tuple[TenantId, Obligation]]:
    """Return open obligations of any tenant whose time has come."""
    query = select(obligations).where(
        obligations.c.state == ObligationState.OPEN, obligations.c.kind == kind, obligations.c.due_at <= now
    )
    return [(TenantId(row["tenant_id"]), _obligation(row)) for row in connection.execute(query).mappings()]


def put_request(unit: Unit, request: Request) -> None:
    """Store a forget request."""
    values = {
        column.name: getattr(request, column.name) for column in requests.c if column.name != "tenant_id"
    }
    unit.connection.execute(insert(requests).values(values | {"tenant_id": unit.tenant}))


def forgotten_among(unit: Unit, subjects: Collection[Pseudonym]) -> frozenset[Pseudonym]:
    """Return those of the subjects who were ever asked to be forgotten."""
    if not subjects:
        return frozenset()
    return frozenset(_FORGOTTEN.values(unit.connection, any_of(unit, [*subjects])))


def defer(unit: Unit, request_id: str, ids: Sequence[tuple[MemoryId, bool]]) -> None:
    """Record that a request waits for held memories; each with whether it is a derived one."""
    if ids:
        unit.connection.execute(
            insert(deferrals),
            [
                {
                    "tenant_id": unit.tenant,
                    "request_id": request_id,
                    "memory_id": memory_id,
                    "is_derived": derived,
                }
                for memory_id, derived in ids
            ],
        )


def waiting_for(unit: Unit, ids: Sequence[MemoryId]) -> list[str]:
    """Return the requests that wait for any of these memories."""
    query = select(deferrals.c.request_id).where(
        deferrals.c.tenant_id == TENANT, one_of(deferrals.c.memory_id)
    )
    return sorted(set(unit.connection.execute(query, any_of(unit, ids)).scalars()))


def deferred_unowed(connection: Connection) -> list[tuple[TenantId, MemoryId]]:
    """Return memories of any tenant that a request waits for although nothing open owes their erasure."""
    is_owed = (
        exists()
        .where(obligations.c.tenant_id == deferrals.c.tenant_id)
        .where(obligations.c.memory_id == deferrals.c.memory_id)
        .where(obligations.c.state == ObligationState.OPEN)
        .where(obligations.c.kind.in_(ERASURES_OWED))
    )
    query = select(deferrals.c.tenant_id, deferrals.c.memory_id).where(~is_owed).distinct()
    return [(TenantId(row[0]), MemoryId(row[1])) for row in connection.execute(query)]


def undefer(unit: Unit, memory_id: MemoryId) -> None:
    """Stop every request from waiting for a memory."""
    unit.connection.execute(
        delete(deferrals).where(deferrals.c.tenant_id == unit.tenant, deferrals.c.memory_id == memory_id)
    )


def count_erased(unit: Unit, request_id: str, erased: int, derived: int, *, owed_by: str) -> None:
    """Add to what a request has seen erased; its next closure is the intent's to state."""
    more = {"erased": erased, "derived": derived, "owing": owed_by}
    _COUNT_ERASED.run(unit.connection, within(unit, request_id) | more)


def discharge(unit: Unit, ids: Sequence[MemoryId], intent_id: str) -> None:
    """Count erased memories for every request that waited for them."""
    for request_id, erased, derived in _WAITING.rows(unit.connection, any_of(unit, ids)):
        count_erased(unit, request_id, erased, int(derived), owed_by=intent_id)
    _WAITED.run(unit.connection, any_of(unit, ids))


def owed_by(unit: Unit, intent_id: str) -> list[Request]:
    """Return the requests whose next closure the intent owes, oldest first."""
    found = _OWED_BY.named(unit.connection, within(unit, intent_id))
    return [record(Request, row) for row in found]


def subject_of(unit: Unit, request_id: str) -> Pseudonym | None:
    """Return whom a forget request is about."""
    return next(iter(_SUBJECT.values(unit.connection, within(unit, request_id))), None)


def closed(unit: Unit, request_id: str, closure_hash: str) -> None:
    """Record a request's newest closure; nothing is owed until the next discharge."""
    unit.connection.execute(
        update(requests)
        .where(requests.c.tenant_id == unit.tenant, requests.c.request_id == request_id)
        .values(closure_hash=closure_hash, owed_by=None)
    )


def put_request_artifacts(unit: Unit, request_id: str, ids: Sequence[str]) -> None:
    """Record which external artifacts a request asked to be erased."""
    if ids:
        unit.connection.execute(
            insert(request_artifacts),
            [{"tenant_id": unit.tenant, "request_id": request_id, "artifact_id": one} for one in ids],
        )


def artifact_counts(unit: Unit, request_id: str) -> tuple[int, int]:
    """Return how many artifacts a request concerns, and how many of those are acknowledged."""
    query = (
        select(func.count(), func.count(artifact_table.c.acknowledged_at))
        .select_from(request_artifacts)
        .join(
            artifact_table,
            (artifact_table.c.tenant_id == request_artifacts.c.tenant_id)
            & (artifact_table.c.artifact_id == request_artifacts.c.artifact_id),
        )
        .where(request_artifacts.c.tenant_id == unit.tenant, request_artifacts.c.request_id == request_id)
    )
    return tuple(unit.connection.execute(query).one())  # pyright: ignore[reportReturnType]
