"""`shomei keys create|list|revoke`."""

import argparse
from typing import Any

from .opened import chosen_tenant, opened


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the commands to the tree."""
    keys = commands.add_parser("keys", help="create, list and revoke API keys")
    actions = keys.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a key; its token is shown once")
    create.add_argument("--scope", choices=("data", "admin"), default="data")
    create.add_argument("--tenant", help="tenant id or label; needed when there is more than one")
    create.set_defaults(run=run_create)
    listing = actions.add_parser("list", help="list keys by their public ids")
    listing.add_argument("--tenant")
    listing.set_defaults(run=run_list)
    revoke = actions.add_parser("revoke", help="revoke a key at once")
    revoke.add_argument("key_id", help="the 16 hex digits between shm_ and the second underscore")
    revoke.add_argument("--tenant")
    revoke.set_defaults(run=run_revoke)


def run_create(parsed: argparse.Namespace) -> dict[str, Any]:
    """Make a key and show its token."""
    from ..engine.model import Scope
    from ..engine.verbs import access

    with opened() as engine:
        key = access.create_key(engine, chosen_tenant(engine, parsed.tenant), Scope(parsed.scope))
    return {"key_id": key.key_id, "scope": key.scope.value, "token": key.token}


def run_list(parsed: argparse.Namespace) -> dict[str, Any]:
    """List the tenant's keys."""
    from ..engine.verbs import access

    with opened() as engine:
        keys = access.list_keys(engine, chosen_tenant(engine, parsed.tenant))
    return {
        "keys": [
            {
                "key_id": key.key_id,
                "scope": key.scope.value,
                "state": "active" if key.revoked_at is None else "revoked",
                "created_at": key.created_at,
            }
            for key in keys
        ]
    }


def run_revoke(parsed: argparse.Namespace) -> dict[str, Any]:
    """Revoke a key."""
    from ..engine.verbs import access

    with opened() as engine:
        access.revoke_key(engine, chosen_tenant(engine, parsed.tenant), parsed.key_id)
    return {"key_id": parsed.key_id, "state": "revoked"}
