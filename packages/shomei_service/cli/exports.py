"""`shomei export`: everything about one person, into a file of theirs; and what an auditor needs."""

import argparse
import os
from pathlib import Path
from typing import Any

from .opened import chosen_tenant, opened, operator

_LATEST = 50
_NAMES = "whoever has this key can tell from a pseudonym whose it is; give it to an auditor only"
_SETS = "it recomputes the commitments of receipts that name it, and opens no pseudonym; for an auditor only"


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the command to the tree."""
    export = commands.add_parser("export", help="write everything about a person into a ZIP package")
    export.add_argument("user_id", help="the subject, exactly as memories name it")
    export.add_argument(
        "--output", type=Path, metavar="FILE", help="where to; a name made of the export's id if left out"
    )
    export.add_argument("--identity-check", metavar="CODE", help="how the person was identified, as a code")
    export.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="MEMORY_ID=CODE",
        help="leave a memory's words out, and why",
    )
    export.add_argument("--json-answer", action="store_true", help="write the JSON answer of the API instead")
    export.add_argument("--tenant", help="tenant id or label; needed when there is more than one")
    export.set_defaults(run=run_export)


def run_export(parsed: argparse.Namespace) -> dict[str, Any]:
    """Write the package; the file is for its owner alone, and none that is there is replaced."""
    from ..engine.errors import Invalid
    from ..engine.verbs import export

    wanted = export.Wanted(
        parsed.user_id, identity_check=parsed.identity_check, redactions=_left_out(parsed.leave_out)
    )
    form = export.Form.JSON if parsed.json_answer else export.Form.ZIP
    if parsed.output is not None and parsed.output.exists():
        raise Invalid("there is a file already; name another one")
    with opened() as engine:
        package = export.export(engine, operator(chosen_tenant(engine, parsed.tenant)), wanted, form=form)
        try:
            path = parsed.output or Path(f"{package.export_id}.{form.value}")
            with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                for piece in package.as_json() if parsed.json_answer else package.as_zip():
                    file.write(piece)
        finally:
            package.close()
    body = package.receipt.body
    counts = {name: body[f"{name}_count"] for name in ("record", "artifact", "disclosure", "tombstone")}
    return {
        "file": str(path),
        "export_id": package.export_id,
        **counts,
        "receipt_hash": package.receipt.receipt_hash,
    }


def run_reads(parsed: argparse.Namespace) -> dict[str, Any]:
    """Show who has read what is about a person, the latest last."""
    from ..engine.verbs import records

    found: list[records.AuditEvent] = []
    with opened() as engine:
        caller = operator(chosen_tenant(engine, parsed.tenant))
        after = -1
        while page := records.audit_page(engine, caller, after_seq=after, limit=500, user_id=parsed.user_id):
            found += page
            after = page[-1].seq
    kept = found if parsed.all else found[-_LATEST:]
    names = ("at", "actor_ref", "actor_kind", "verb", "outcome_code", "count")
    told = [one.told() for one in kept]
    return {"events": len(found), "shown": [{name: one[name] for name in names} for one in told]}


def run_commitment_key(parsed: argparse.Namespace) -> dict[str, Any]:
    """Show a key that commitments are made under, and names if it is the first: for an auditor alone."""
    from ..engine.verbs import access

    with opened() as engine:
        tenant_id = chosen_tenant(engine, parsed.tenant)
        key_id, key = access.commitment_key(engine, tenant_id, parsed.id)
        is_first = access.commitment_keys(engine, tenant_id).every[0] == key_id
    return {
        "tenant": tenant_id,
        "commit_key_id": key_id,
        "commitment_key": key.hex(),
        "note": _NAMES if is_first else _SETS,
    }


def _left_out(pairs: list[str]) -> dict[str, Any]:
    from ..engine.errors import Invalid
    from ..engine.model import Redaction

    try:
        return {memory_id: Redaction(code) for memory_id, _, code in (pair.partition("=") for pair in pairs)}
    except ValueError:
        raise Invalid("--leave-out takes MEMORY_ID=CODE with a documented code") from None
