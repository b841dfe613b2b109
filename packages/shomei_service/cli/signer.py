"""`shomei signer show|rotate`: who signs receipts, who did before, and the next one."""

import argparse
from typing import Any

from .opened import opened, operator


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the commands to the tree."""
    signer = commands.add_parser("signer", help="show and rotate who signs receipts")
    actions = signer.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("show", help="print the pin, the signer's id, and retired keys").set_defaults(
        run=run_show
    )
    actions.add_parser("rotate", help="sign with a new key from here on; old receipts stay").set_defaults(
        run=run_rotate
    )


def run_show(_: argparse.Namespace) -> dict[str, Any]:
    """Show the pin, and which parts of which logs other keys signed."""
    from ..engine.verbs import access
    from ..engine.verbs.signer import show

    with opened() as engine:
        if engine.signer is None:
            return {"signer": "none"}
        shown = [
            (tenant.tenant_id, show(engine, operator(tenant.tenant_id)))
            for tenant in access.list_tenants(engine)
        ]
        signer = engine.signer
    return {
        "signer_id": signer.signer_id,
        "pin": signer.public_key_hex,
        "retired": [
            {
                "signer_id": one.signer_id,
                "pin": one.public_key_hex,
                "tenant": tenant_id,
                "origin": one.origin,
                "first_seq": one.first_seq,
                "last_seq": one.last_seq,
            }
            for tenant_id, tenants in shown
            for one in tenants.retired
        ],
    }


def run_rotate(_: argparse.Namespace) -> dict[str, Any]:
    """Make a new signing key, state it in every tenant's log, and destroy the old one."""
    from ..engine import rotation

    with opened() as engine:
        rotated = rotation.rotate_signer(engine)
    return {
        "old_signer_id": rotated.old_id,
        "signer_id": rotated.new_id,
        "pin": rotated.new_public_key_hex,
        "note": "give the new pin to whoever checks receipts; old receipts are checked with the old one",
    }
