"""Statements about a receipt log itself: it begins anew, or another key follows. RECEIPTS.md §2, §3."""

from ..model import JsonObject
from .bodies import Draft, Schema


def log_restart(*, previous_origin: str, previous_next_seq: int) -> Draft:
    """The database came back older than its receipt log; the log goes on under a new origin."""
    fields: JsonObject = {"previous_origin": previous_origin, "previous_next_seq": previous_next_seq}
    return Draft(Schema.LOG_RESTART, None, fields)


def key_rotation(*, role: str, old: str, new: str, more: JsonObject | None = None) -> Draft:
    """One key was followed by another; `role` is custody, signer or commit."""
    fields: JsonObject = {"key_role": role, "old_key_id": old, "new_key_id": new, **(more or {})}
    return Draft(Schema.KEY_ROTATION, new, fields)
