"""`shomei init`, `shomei tenants create|list`: who keeps memories here."""

import argparse
from typing import Any

from ..settings import read_settings
from .opened import opened


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the commands to the tree."""
    init = commands.add_parser(
        "init", help="make an installation: database, custody, signer, tenant, two keys"
    )
    init.set_defaults(run=run_init)
    tenants = commands.add_parser("tenants", help="create and list tenants")
    actions = tenants.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a tenant")
    create.add_argument("label", help="1 to 64 of a-z, 0-9 and underscore; no person's name")
    create.set_defaults(run=run_create)
    actions.add_parser("list", help="list the tenants").set_defaults(run=run_list)


def run_init(_: argparse.Namespace) -> dict[str, Any]:
    """Make an installation and show its keys, once."""
    from ..bootstrap import install

    made = install(read_settings())
    return {
        "tenant": made.tenant.tenant_id,
        "admin_key": made.admin_key.token,
        "data_key": made.data_key.token,
        "pin": made.public_key_hex,
        "note": "the keys are shown this once; the pin is the public key that receipts are checked with",
    }


def run_create(parsed: argparse.Namespace) -> dict[str, Any]:
    """Make a tenant."""
    from ..engine.verbs import access

    with opened() as engine:
        tenant = access.create_tenant(engine, parsed.label)
    return {"tenant": tenant.tenant_id, "label": tenant.label}


def run_list(_: argparse.Namespace) -> dict[str, Any]:
    """List the tenants."""
    from ..engine.verbs import access

    with opened() as engine:
        return {
            "tenants": [{"tenant": one.tenant_id, "label": one.label} for one in access.list_tenants(engine)]
        }
