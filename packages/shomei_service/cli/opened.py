"""The engine for the length of one command, and which tenant the command is about."""

from collections.abc import Generator
from contextlib import contextmanager

from ..engine.errors import Invalid
from ..engine.model import SYSTEM_ACTOR, Caller, Scope, TenantId
from ..engine.parts import Engine
from ..settings import read_settings


@contextmanager
def opened() -> Generator[Engine]:
    """Open the installation that the environment names; close it at the end."""
    from .. import bootstrap

    with bootstrap.opened(read_settings()) as engine:
        yield engine


def chosen_tenant(engine: Engine, tenant: str | None) -> TenantId:
    """Return the tenant that is meant: the named one, or the only one there is. Raise Invalid otherwise."""
    from ..engine.verbs import access

    known = access.list_tenants(engine)
    matching = [one for one in known if tenant is None or tenant in (one.tenant_id, one.label)]
    if len(matching) != 1:
        raise Invalid("name one tenant with --tenant; shomei tenants list shows them")
    return matching[0].tenant_id


def operator(tenant: TenantId) -> Caller:
    """Return the caller that a command on the machine itself is: an admin, in receipts `system`."""
    return Caller(tenant, SYSTEM_ACTOR, frozenset({Scope.DATA, Scope.ADMIN}))
