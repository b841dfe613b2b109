"""What a host must have seen: the whole main job, and every proof of it."""

from collections.abc import Mapping
from typing import Any

TOOLS = [
    "add_memory",
    "search_memory",
    "update_memory",
    "delete_memory",
    "forget_subject",
    "restrict_memory",
    "get_receipt",
    "lineage_neighbors",
    "lineage_graph",
    "verify_receipt",
]


def faults_of_job(seen: Mapping[str, Any], word: str, pin: str) -> list[str]:
    """Return what is wrong with what a host saw of the main job; nothing when all is right."""
    text = f"the {word} lamp"
    added, verdict = seen["added"]["results"][0], seen["verdict"]
    found = [(one["id"], one["memory"], one["user_id"]) for one in seen["found"]["results"]]
    deletion = seen["deleted"]["signed_receipt"]["body"]
    schema = added["signed_receipt"]["schema"]
    right = {
        "ten tools, in order": seen["tools"] == TOOLS,
        "the memory is added": (added["memory"], added["event"]) == (text, "ADD"),
        "it is found": found == [(added["id"], text, "alice")],
        "its receipt is authentic": verdict
        == {
            "valid": True,
            "authenticated": True,
            "reason": "ok",
            "public_key_hex": pin,
            "schema": schema,
        },
        "it is deleted": seen["deleted"]["deleted"] is True and deletion["memory_id"] == added["id"],
        "it is found no more": seen["found_after"]["results"] == [],
    }
    return [what for what, holds in right.items() if not holds]
