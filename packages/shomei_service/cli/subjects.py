"""`shomei forget` and `shomei audit recompute`: a data protection officer's commands."""

import argparse
from typing import Any

from . import exports
from .opened import chosen_tenant, opened, operator


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the commands to the tree."""
    forget = commands.add_parser("forget", help="erase everything about a subject; shows the plan first")
    forget.add_argument("user_id", help="the subject, exactly as memories name it")
    forget.add_argument("--tenant", help="tenant id or label; needed when there is more than one")
    forget.add_argument("--confirm", action="store_true", help="carry the plan out")
    forget.set_defaults(run=run_forget)
    audit = commands.add_parser("audit", help="check the records against each other")
    actions = audit.add_subparsers(dest="action", required=True, metavar="ACTION")
    recompute = actions.add_parser("recompute", help="recompute closures from tombstones and commitment keys")
    recompute.add_argument("--tenant")
    recompute.set_defaults(run=run_recompute)
    reads = actions.add_parser("reads", help="who has read what is about a person")
    reads.add_argument("user_id", help="the subject, exactly as memories name it")
    reads.add_argument("--all", action="store_true", help="every access on record, not the latest fifty")
    reads.add_argument("--tenant")
    reads.set_defaults(run=exports.run_reads)
    key = actions.add_parser(
        "commitment-key", help="show the key that an auditor recomputes commitments with"
    )
    key.add_argument("--id", metavar="KEY_ID", help="another key than the one in use, as a receipt names it")
    key.add_argument("--tenant")
    key.set_defaults(run=exports.run_commitment_key)


def run_forget(parsed: argparse.Namespace) -> dict[str, Any]:
    """Show what would be erased and what is held and why; with --confirm, do it."""
    from ..engine.verbs import forget

    with opened() as engine:
        caller = operator(chosen_tenant(engine, parsed.tenant))
        plan = forget.plan(engine, caller, parsed.user_id)
        answer: dict[str, Any] = {
            "would_erase": len(plan.erased_ids),
            "of_these_derived": plan.derived_count,
            "held": [
                {"memory_id": memory_id, "hold_id": hold.hold_id, "authority": hold.authority.value}
                for memory_id, held_by in plan.held.items()
                for hold in held_by
            ],
            "external_artifacts": plan.external_artifact_count,
            "already_erased": plan.already_erased_count,
        }
        if not parsed.confirm:
            return answer | {"note": "nothing was changed; --confirm carries this out"}
        done = forget.forget(engine, caller, parsed.user_id)
    closure = done.closure
    return {
        "erased": len(done.erased),
        "deferred": len(done.deferred_ids),
        "disposition": closure.body["disposition"] if closure else "",
        "closure_receipt_hash": closure.receipt_hash if closure else "",
    }


def run_recompute(parsed: argparse.Namespace) -> dict[str, Any]:
    """Recompute every closure and look for gaps; refused when something does not agree."""
    from ..engine.errors import IntegrityFault
    from ..engine.verbs.recompute import recompute

    with opened() as engine:
        done = recompute(engine, operator(chosen_tenant(engine, parsed.tenant)))
    if done.disagreeing or done.gaps:
        raise IntegrityFault("closures and tombstones do not agree, or the log has gaps")
    return {"receipts": done.receipts, "closures": done.closures, "disagreeing": 0, "gaps": 0}
