"""`shomei custody status|rotate|move`: what keys stand on, a new epoch key, another provider."""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..engine.errors import StartRefused
from ..settings import CustodyKind, read_settings
from .opened import opened

if TYPE_CHECKING:
    from ..engine.custody import CustodyStatus, Destruction
    from ..engine.custody.values import EpochStatus
    from ..engine.parts import Engine

_EPOCHS = 5
_FINALITY = {
    "final": "the old key is gone as soon as it is destroyed",
    "scheduled": "the old key can be brought back by the provider's administrator until its date",
    "unassured": "the old key's file is overwritten and removed; nothing assures that no copy is left",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:  # pyright: ignore[reportPrivateUsage]
    """Add the commands to the tree."""
    custody = commands.add_parser("custody", help="show, rotate and move what holds the keys")
    actions = custody.add_subparsers(dest="action", required=True, metavar="ACTION")
    status = actions.add_parser("status", help="explain epochs, finality, mirrors, and what is at risk")
    status.add_argument("--epochs", type=int, default=_EPOCHS, metavar="N", help="show the newest N epochs")
    status.set_defaults(run=run_status)
    actions.add_parser("rotate", help="make a new epoch key now and destroy the old one").set_defaults(
        run=run_rotate
    )
    move = actions.add_parser("move", help="hand custody to another provider; no row is sealed anew")
    move.add_argument("to", choices=[kind.value for kind in CustodyKind], help="whose settings must be set")
    move.set_defaults(run=run_move)


def run_status(parsed: argparse.Namespace) -> dict[str, Any]:
    """Show what custody stands on."""
    with opened() as engine:
        status = engine.custody.status(max(parsed.epochs, 1))
        newest = next((one.destroyed for one in status.epochs if one.destroyed is not None), None)
        bound = _bound(engine, newest)
    shown: dict[str, Any] = {
        "installation": status.installation_id,
        "custody": status.key_custody.value + (" (for development only)" if status.is_development else ""),
        "epoch": status.epoch,
        "tree": f"{status.blobs} blobs, {status.blob_bytes} bytes",
        "finality": _finality(newest),
        "resurrection_bound": bound,
        "keys_to_destroy": status.keys_to_destroy,
    }
    if parsed.json:
        shown |= {"custody": status.key_custody.value, "is_development": status.is_development}
        shown |= {"blobs": status.blobs, "blob_bytes": status.blob_bytes}
    shown["epochs"] = [_epoch(one) for one in status.epochs[: max(parsed.epochs, 0)]]
    shown["mirrors"] = [
        {"is": "mirror", "where": one.where, "state": one.state.value} for one in status.mirrors
    ]
    shown["keep"] = [{"is": "to keep", "what": line} for line in _keep(status)]
    shown["at_risk"] = [{"is": "at risk", "what": line} for line in _at_risk(status)]
    return shown


def run_rotate(_: argparse.Namespace) -> dict[str, Any]:
    """Make a new epoch key and tell every tenant."""
    from ..engine import rotation

    with opened() as engine:
        destroyed = rotation.rotate_custody(engine)
    return _destroyed(destroyed)


def run_move(parsed: argparse.Namespace) -> dict[str, Any]:
    """Hand custody to another provider; no server may run meanwhile."""
    from .. import bootstrap, provider
    from ..engine import duties, rotation

    settings, kind = read_settings(), CustodyKind(parsed.to)
    with bootstrap.opened(settings, alone=True) as engine:
        if not engine.duties.has(duties.UPKEEP):
            raise StartRefused(
                "a server runs on this database, or did until a moment ago; stop it, then move"
            )
        destroyed = rotation.move_custody(engine, provider.goal(settings, kind))
        code = engine.key_custody
    note = f"set SHOMEI_CUSTODY={kind.value} before anything is started again"
    return {"custody": code, **_destroyed(destroyed), "note": note}


def _destroyed(destroyed: "Destruction") -> dict[str, Any]:
    return {
        "epoch": destroyed.epoch_after,
        "old_key": destroyed.destroy_method.value,
        "finality": destroyed.finality.value,
        "old_key_final": _moment(destroyed.key_final_at),
    }


def _epoch(one: "EpochStatus") -> dict[str, Any]:
    destroyed = one.destroyed
    return {
        "is": "epoch",
        "number": one.epoch,
        "at": _moment(one.at),
        "what": "rotation" if one.rotated and not one.punctured else f"{one.punctured} keys erased",
        "old_key_with": one.old_custody.value,
        "old_key": destroyed.destroy_method.value if destroyed else "not destroyed yet",
        "finality": destroyed.finality.value if destroyed else "-",
        "final": _moment(destroyed.key_final_at) if destroyed else "-",
    }


def _finality(newest: "Destruction | None") -> str:
    if newest is None:
        return "no epoch key was destroyed yet"
    return f"{newest.finality.value}: {_FINALITY[newest.finality.value]}"


def _bound(engine: "Engine", newest: "Destruction | None") -> str:
    from ..engine.destruction import stated

    if newest is None:
        return "nothing was erased yet"
    bound = stated(engine, newest).resurrection_bound_at
    return "none is assured" if bound is None else f"what is erased is out of reach by {_moment(bound)}"


def _keep(status: "CustodyStatus") -> list[str]:
    store = (
        "the custody store: its newest copy, in SHOMEI_CUSTODY_MIRRORS, off the database's disk"
        if status.is_file
        else "the custody store's Postgres database: by synchronous replication, never by old backups"
    )
    key = f"the epoch key with {status.key_custody.value}: replicated by the provider, never snapshotted"
    return [store, key, "the signer's key: a copy in a safe; receipts can not be issued without it"]


def _at_risk(status: "CustodyStatus") -> list[str]:
    lines = ["losing the newest custody store, or the epoch key that opens it, erases everything"]
    if status.is_development:
        lines.append("keys are for development only: their destruction is not assured")
    if status.is_file and not status.mirrors:
        lines.append("the custody store has no mirror: one disk holds all there is of it")
    if any(one.state.value != "current" for one in status.mirrors):
        lines.append("a mirror is not current: nothing can be erased until it is")
    if status.keys_to_destroy:
        lines.append("an old epoch key is not destroyed yet: what it protected can still be brought back")
    return lines


def _moment(at: int | None) -> str:
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
