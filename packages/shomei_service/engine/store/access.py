"""API keys at rest: the public id, a SHA-256 of the 256-bit secret, a scope. CONTRACT.md §3."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from ..model import Scope, TenantId
from ..prepared import Prepared
from .bound import one_of
from .records import record
from .tables import api_keys
from .unit import Unit

_FIND = Prepared(select(api_keys).where(one_of(api_keys.c.key_id)))


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One API key without its secret."""

    tenant_id: TenantId
    key_id: str
    secret_sha256: bytes
    scope: Scope
    created_at: int
    revoked_at: int | None


def put(unit: Unit, key: ApiKey) -> None:
    """Store a new key."""
    unit.connection.execute(
        insert(api_keys).values({column.name: getattr(key, column.name) for column in api_keys.c})
    )


def find(connection: Connection, ids: Collection[str]) -> dict[str, ApiKey]:
    """Return the keys with these public ids, by id; each names its tenant."""
    found = _FIND.named(connection, {"several": [*ids]})
    return {row["key_id"]: record(ApiKey, row, scope=Scope(row["scope"])) for row in found}


def of_tenant(unit: Unit) -> list[ApiKey]:
    """Return the tenant's keys, oldest first."""
    query = (
        select(api_keys)
        .where(api_keys.c.tenant_id == unit.tenant)
        .order_by(api_keys.c.created_at, api_keys.c.key_id)
    )
    return [
        record(ApiKey, row, scope=Scope(row["scope"])) for row in unit.connection.execute(query).mappings()
    ]


def revoke(unit: Unit, key_id: str, *, at: int) -> bool:
    """Revoke the key at once; False if there is no such active key."""
    done = unit.connection.execute(
        update(api_keys)
        .where(
            api_keys.c.tenant_id == unit.tenant, api_keys.c.key_id == key_id, api_keys.c.revoked_at.is_(None)
        )
        .values(revoked_at=at)
    )
    return done.rowcount == 1
