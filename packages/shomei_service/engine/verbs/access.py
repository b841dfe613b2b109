"""API keys and tenants: who may ask, made and revoked by the operator. CONTRACT.md §3."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..custody import address
from ..errors import Invalid, NotFound, Unauthenticated
from ..model import Caller, ExportText, Policies, Scope, Tenant, TenantId, new_id
from ..parts import Engine
from ..store import access, commitments, consents, tenants
from ..store.access import ApiKey
from ..store.commitments import Named

_TOKEN: Final = re.compile(r"shm_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_LABEL: Final = re.compile(r"[a-z0-9_]{1,64}")
_SEMANTIC_TYPE: Final = re.compile(r"[A-Z0-9_]{1,64}")
_TEXT: Final = 4_000
_TEXT_NAME: Final = re.compile("|".join([*ExportText, "key_[0-9a-f]{16}", "system"]))
_NOBODY: Final = bytes(
    32
)  # compared against when there is no such key, so that both answers take the same path


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made; the token is shown once and kept nowhere."""

    key_id: str
    scope: Scope
    token: str


@dataclass(frozen=True, slots=True)
class CommitmentKeys:
    """The key that receipts name now, all there have been, oldest first, and the receipts that name each."""

    current: str
    every: list[str]
    named: list[Named]


def authenticate(engine: Engine, token: str) -> Caller:
    """Return who holds the token. Raise Unauthenticated for malformed, unknown and revoked alike."""
    [answer] = authenticate_each(engine, [token])
    if isinstance(answer, Exception):
        raise answer
    return answer


def authenticate_each(engine: Engine, tokens: Sequence[str]) -> list[Caller | Unauthenticated]:
    """Do what `authenticate` does for several tokens, in one reading; an answer for each."""
    matches = [_TOKEN.fullmatch(token) for token in tokens]
    ids = [match[1] for match in matches if match is not None]
    keys: dict[str, ApiKey] = {}
    if ids:
        with engine.store.snapshot() as connection:
            keys = access.find(connection, ids)
    return [_holder(match, keys.get(match[1]) if match else None) for match in matches]


def _holder(match: re.Match[str] | None, key: ApiKey | None) -> Caller | Unauthenticated:
    refused = Unauthenticated("a valid API key is required")
    if match is None:
        return refused
    presented = hashlib.sha256(match[2].encode()).digest()
    genuine = hmac.compare_digest(presented, key.secret_sha256 if key else _NOBODY)
    if key is None or not genuine or key.revoked_at is not None:
        return refused
    scopes = frozenset({Scope.DATA, Scope.ADMIN} if key.scope is Scope.ADMIN else {Scope.DATA})
    return Caller(key.tenant_id, f"key_{key.key_id}", scopes)


def create_key(engine: Engine, tenant_id: TenantId, scope: Scope) -> NewKey:
    """Make a key of 256 random bits for the tenant. Raise NotFound if there is no such tenant."""
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    with engine.unit(tenant_id) as unit:
        tenants.get(unit)
        access.put(
            unit,
            ApiKey(
                tenant_id=tenant_id,
                key_id=key_id,
                secret_sha256=hashlib.sha256(secret.encode()).digest(),
                scope=scope,
                created_at=engine.clock.now(),
                revoked_at=None,
            ),
        )
    return NewKey(key_id, scope, f"shm_{key_id}_{secret}")


def list_keys(engine: Engine, tenant_id: TenantId) -> list[ApiKey]:
    """Return the tenant's keys, without secrets, oldest first."""
    with engine.reading(tenant_id) as unit:
        return access.of_tenant(unit)


def revoke_key(engine: Engine, tenant_id: TenantId, key_id: str) -> None:
    """Revoke a key, in every process from its next call on. Raise NotFound if it is not active."""
    with engine.unit(tenant_id) as unit:
        if not access.revoke(unit, key_id, at=engine.clock.now()):
            raise NotFound("there is no such active key")
        engine.journal(unit, "key_revoked", [key_id])


def create_tenant(engine: Engine, label: str) -> Tenant:
    """Make a tenant with its own part of the key tree, commitment key and receipt log.

    Raises Invalid unless the label is a registered code: lower-case letters, digits and underscores.
    """
    if _LABEL.fullmatch(label) is None:
        raise Invalid("a tenant's label is 1 to 64 of a-z, 0-9 and underscore")
    now = engine.clock.now()
    tenant = Tenant(
        tenant_id=TenantId(secrets.token_hex(16)),
        number=engine.custody.lease_tenant(),
        label=label,
        commit_key_id=new_id("ck_"),
        log_origin=new_id("shomei/"),
        next_seq=0,
        revision=0,
        last_applied_at=now,
        created_at=now,
    )
    engine.custody.derive(address(tenant.number, 0))  # the commitment key is there before the tenant is
    with engine.store.transaction() as connection:
        tenants.put(connection, tenant)
    return tenant


def set_policies(engine: Engine, tenant_id: TenantId, policies: Policies) -> None:
    """Replace a tenant's policies and registered codes. Raise Invalid unless every code is one."""
    codes = policies.purposes | policies.location_codes | policies.channel_codes | policies.policy_versions
    if any(_LABEL.fullmatch(code) is None for code in codes):
        raise Invalid("a registered code is 1 to 64 of a-z, 0-9 and underscore")
    if any(len(text) > _TEXT or _TEXT_NAME.fullmatch(name) is None for name, text in policies.texts.items()):
        raise Invalid("a text is a documented one, or names a key, and has at most 4,000 characters")
    if any(_SEMANTIC_TYPE.fullmatch(one) is None for one in policies.semantic_types):
        raise Invalid("a registered semantic type is 1 to 64 of A-Z, 0-9 and underscore")
    with engine.unit(tenant_id) as unit:
        tenants.get(unit)
        tenants.set_policies(unit, policies)
        consents.set_unrecorded(unit, consented=not policies.consent_required)


def commitment_key(engine: Engine, tenant_id: TenantId, key_id: str | None = None) -> tuple[str, bytes]:
    """Return the commitment key in use, or the named one, with its name, for an auditor. Raise NotFound."""
    with engine.reading(tenant_id) as unit:
        tenant = tenants.get(unit)
        chosen = key_id or tenant.commit_key_id
        key = engine.commitment_key(unit, tenant, chosen)
    if key is None:
        raise NotFound("the tenant never had such a commitment key")
    return chosen, key


def commitment_keys(engine: Engine, tenant_id: TenantId) -> CommitmentKeys:
    """Return the ids of the tenant's commitment keys, and which receipts name which. Raise NotFound."""
    with engine.reading(tenant_id) as unit:
        tenant, known = tenants.get(unit), commitments.leaves(unit)
        return CommitmentKeys(tenant.commit_key_id, list(known), commitments.of_logs(unit))


def list_tenants(engine: Engine) -> list[Tenant]:
    """Return all tenants, oldest first."""
    with engine.store.snapshot() as connection:
        return tenants.everyone(connection)
