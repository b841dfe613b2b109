"""`shomei commitment-key show|rotate`: which keys commit to sets, and the next one."""

import argparse
from typing import Any

from .opened import chosen_tenant, opened


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the commands to the tree."""
    purpose = "show and rotate the key that a tenant's commitments are made with"
    actions = commands.add_parser("commitment-key", help=purpose).add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    show = actions.add_parser(
        "show", help="list the keys' ids, and which receipts name which; no key is shown"
    )
    show.set_defaults(run=run_show)
    rotate = actions.add_parser("rotate", help="commit under a new key from here on; old receipts stay")
    rotate.add_argument(
        "--after", metavar="KEY_ID", help="rotate only if this is the key in use; safe to repeat"
    )
    rotate.set_defaults(run=run_rotate)
    for action in (show, rotate):
        action.add_argument("--tenant", help="tenant id or label; needed when there is more than one")


def run_show(parsed: argparse.Namespace) -> dict[str, Any]:
    """Show the key in use, the one that names are made with, and where each key is named."""
    from ..engine.verbs import access

    with opened() as engine:
        tenant_id = chosen_tenant(engine, parsed.tenant)
        keys = access.commitment_keys(engine, tenant_id)
    return {
        "tenant": tenant_id,
        "commit_key_id": keys.current,
        "naming_key_id": keys.every[0],
        "keys": [{"is": "key", "commit_key_id": one} for one in keys.every],
        "named": [
            {
                "commit_key_id": one.commit_key_id,
                "origin": one.origin,
                "first_seq": one.first_seq,
                "last_seq": one.last_seq,
            }
            for one in keys.named
        ],
    }


def run_rotate(parsed: argparse.Namespace) -> dict[str, Any]:
    """Let the tenant's receipts name a new key, and say so in its log."""
    from ..engine import rotation

    with opened() as engine:
        tenant_id = chosen_tenant(engine, parsed.tenant)
        rotated = rotation.rotate_commitment_key(engine, tenant_id, after=parsed.after)
    return {
        "tenant": tenant_id,
        "old_commit_key_id": rotated.old_id,
        "commit_key_id": rotated.new_id,
        "changed": rotated.is_new,
        "note": "closures from here on name the new key; pseudonyms and tombstones keep their names",
    }
