"""`shomei init`, `shomei tenants create|list`: who keeps memories here."""

import argparse
from typing import TYPE_CHECKING, Any

from ..settings import read_settings
from .opened import chosen_tenant, opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.model import Policies

_CODES = ("purposes", "semantic_types", "location_codes", "channel_codes", "policy_versions")
_SWITCHES = ("consent_required", "notice_before_lift", "erase_when_expired")


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
    show = actions.add_parser("show", help="show a tenant's policies and registered codes")
    show.add_argument("--tenant", help="tenant id or label; needed when there is more than one")
    show.set_defaults(run=run_show)
    change = actions.add_parser("set", help="change a tenant's policies and registered codes")
    change.add_argument("--tenant")
    for name in _CODES:
        change.add_argument(_flag(name), nargs="*", metavar="CODE", help="register these, in place of others")
    change.add_argument("--post-forget", choices=("allow", "require_consent", "block"))
    change.add_argument("--withdrawal", choices=("suppress", "erase_now", "erase_after"))
    change.add_argument("--withdrawal-days", type=int, metavar="DAYS")
    for name in _SWITCHES:
        change.add_argument(_flag(name), action=argparse.BooleanOptionalAction, default=None)
    change.add_argument(
        "--text",
        action="append",
        metavar="NAME=WORDS",
        help="what an export says beside the data: controller, contact, purposes, retention, rights, "
        "complaint, automated_decisions, processors, transfers, or the name of who holds a key (key_...); "
        "no words: as before",
    )
    change.set_defaults(run=run_set)


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


def run_show(parsed: argparse.Namespace) -> dict[str, Any]:
    """Show a tenant's policies and registered codes."""
    from ..engine.verbs import access

    with opened() as engine:
        tenant_id = chosen_tenant(engine, parsed.tenant)
        tenant = next(one for one in access.list_tenants(engine) if one.tenant_id == tenant_id)
    return _shown(tenant.policies)


def run_set(parsed: argparse.Namespace) -> dict[str, Any]:
    """Change what was named and leave the rest."""
    from dataclasses import replace

    from ..engine.model import PostForget, Withdrawal
    from ..engine.verbs import access

    with opened() as engine:
        tenant_id = chosen_tenant(engine, parsed.tenant)
        tenant = next(one for one in access.list_tenants(engine) if one.tenant_id == tenant_id)
        given: dict[str, Any] = {name: value for name, value in vars(parsed).items() if value is not None}
        changes: dict[str, Any] = {name: frozenset(given[name]) for name in _CODES if name in given}
        changes |= {name: given[name] for name in (*_SWITCHES, "withdrawal_days") if name in given}
        if "post_forget" in given:
            changes["post_forget"] = PostForget(given["post_forget"])
        if "withdrawal" in given:
            changes["withdrawal"] = Withdrawal(given["withdrawal"])
        if "text" in given:
            changes["texts"] = _texts(tenant.policies.texts, given["text"])
        policies = replace(tenant.policies, **changes)
        access.set_policies(engine, tenant_id, policies)
    return _shown(policies)


def _texts(before: "Mapping[str, str]", given: list[str]) -> dict[str, str]:
    named = {name: words for name, _, words in (one.partition("=") for one in given)}
    return {name: words for name, words in {**before, **named}.items() if words}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _shown(policies: "Policies") -> dict[str, Any]:
    shown: dict[str, Any] = {name: " ".join(sorted(getattr(policies, name))) for name in _CODES}
    shown |= {"post_forget": policies.post_forget.value, "withdrawal": policies.withdrawal.value}
    shown |= {name: getattr(policies, name) for name in ("withdrawal_days", *_SWITCHES)}
    return shown | {f"text {name}": words for name, words in sorted(policies.texts.items())}
