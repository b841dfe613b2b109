"""What each schema lets a certificate say. docs/spec/receipt.md §7 and §8.

A statement repeats what was signed and nothing more; a body that contradicts itself raises Unfit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shomei_memory_verify.fields import Fields, Unfit

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Statement:
    """A title, the sentences the signer stands for, and the warnings that must stand beside them."""

    title: str
    sentences: tuple[str, ...]
    warnings: tuple[str, ...] = ()


_PURGE = {
    "key_destroyed": "the ciphertext may still exist, without its key",
    "ciphertext_deleted": "the row is deleted; residue in database pages or logs is possible",
    "purged_verified": "the row is deleted and a scan found no residue",
}


def _memory_add(f: Fields) -> Statement:
    subject = f"subject {f.text('subject_pseudonym')}" if f.has("subject_pseudonym") else "no subject"
    return Statement(
        "Memory added",
        (f"Memory {f.text('memory_id')} was stored for {subject} at {f.moment('applied_at')}.",),
    )


def _memory_update(f: Fields) -> Statement:
    return Statement(
        "Memory replaced",
        (
            f"Memory {f.text('previous_id')} was erased at {f.moment('applied_at')} and memory "
            f"{f.text('memory_id')} took its place.",
            *_erasure(f),
        ),
        _limits(f),
    )


def _vector_delete(f: Fields) -> Statement:
    if not f.flag("embedding_retired"):
        raise Unfit("embedding_retired is false on an erasure")
    return Statement(
        "Memory erased",
        (
            f"Memory {f.text('memory_id')} was erased at {f.moment('applied_at')} and its vector was taken "
            "out of recall.",
            *_erasure(f),
        ),
        _limits(f),
    )


def _restriction(f: Fields) -> Statement:
    memory, at = f.text("memory_id"), f.moment("applied_at")
    reason, restricted = f.text("reason_code"), f.flag("restricted_state")
    if f.choice("action", ("applied", "lifted")) == "applied":
        if not restricted:
            raise Unfit("a restriction is applied and the memory is not restricted")
        stated = f"Memory {memory} was restricted at {at} (reason {reason}): kept, and out of recall."
    else:
        left = "it stays restricted on other grounds" if restricted else "no restriction is left on it"
        stated = f"A restriction on memory {memory} was lifted at {at} (reason {reason}); {left}."
    return Statement(
        "Restriction of processing", (stated, "A restriction is reversible. Nothing was erased.")
    )


def _subject_closure(f: Fields) -> Statement:
    matched, erased, deferred = f.count("matched_count"), f.count("erased_count"), f.count("deferred_count")
    if matched != erased + deferred:
        raise Unfit("the counts contradict each other: matched is not erased plus deferred")
    disposition = f.choice("disposition", ("noop_no_match", "complete", "deferred", "partial"))
    if disposition != _disposition(erased, deferred):
        raise Unfit("the disposition contradicts the counts")
    subject, at = f.text("subject_pseudonym"), f.moment("applied_at")
    outcome = {
        "noop_no_match": "no memory was matched, so nothing was erased",
        "complete": f"all {matched} matched memories were erased",
        "deferred": f"none of the {matched} matched memories was erased; a legal hold defers the erasure",
        "partial": f"{erased} of {matched} matched memories were erased; a legal hold defers {deferred}",
    }[disposition]
    return Statement(
        "Subject closure",
        (
            f"For subject {subject} at {at}: {outcome}.",
            f"Matching rule: {f.text('match_basis')}.",
            "How a key was destroyed, and in whose custody, is said by the erasure receipt of each memory.",
        ),
        _outside(f),
    )


def _disposition(erased: int, deferred: int) -> str:
    if not erased:
        return "deferred" if deferred else "noop_no_match"
    return "partial" if deferred else "complete"


def _legal_hold(f: Fields) -> Statement:
    scope = f.choice("scope", ("memory", "subject"))
    target = f.text("memory_id" if scope == "memory" else "subject_pseudonym")
    hold, at = f.text("hold_id"), f.moment("applied_at")
    if f.choice("action", ("placed", "released")) == "placed":
        stated = f"Legal hold {hold} was placed on {scope} {target} at {at} ({f.text('authority_code')})."
    else:
        stated = (
            f"Legal hold {hold} on {scope} {target} was released at {at} ({f.text('release_code')}); "
            f"{f.count('obligations_fired')} deferred erasure(s) became due."
        )
    return Statement("Legal hold", (stated, "A hold forbids erasure while it stands. It erases nothing."))


def _consent(f: Fields) -> Statement:
    action = f.choice("action", ("granted", "withdrawn", "expired"))
    return Statement(
        "Consent",
        (
            f"Consent of subject {f.text('subject_pseudonym')} for purpose {f.text('purpose_code')} "
            f"was recorded as {action} at {f.moment('applied_at')}; "
            f"{f.count('affected_count')} memories were affected.",
        ),
    )


def _access_export(f: Fields) -> Statement:
    return Statement(
        "Access export",
        (
            f"Export {f.text('export_id')} for subject {f.text('subject_pseudonym')} was made at "
            f"{f.moment('applied_at')}: {f.count('record_count')} records, "
            f"{f.count('artifact_count')} artifacts, {f.count('disclosure_count')} disclosures, "
            f"{f.count('tombstone_count')} tombstones.",
            "Whether a package is that export is shown by its digest, not by this page.",
        ),
    )


def _disclosure(f: Fields) -> Statement:
    return Statement(
        "Disclosure of a memory",
        (
            f"Memory {f.text('memory_id')} was disclosed at {f.moment('applied_at')} "
            f"on the ground {f.text('ground_code')} to recipient {f.text('recipient_ref')}.",
        ),
    )


def _derived_artifact(f: Fields) -> Statement:
    may = "may" if f.flag("recallable") else "may not"
    return Statement(
        "Derived artifact",
        (
            f"Artifact {f.text('artifact_id')} of kind {f.text('kind')} was registered at "
            f"{f.moment('applied_at')}; it {may} be used in recall.",
        ),
    )


def _physical_purge(f: Fields) -> Statement:
    return Statement(
        "Physical purge",
        (
            f"For {f.count('count')} erased memories the state at {f.moment('applied_at')} was: "
            f"{_purge(f)} (method {f.text('method_code')}).",
        ),
    )


def _reerase(f: Fields) -> Statement:
    if not f.flag("backup_detected"):
        raise Unfit("backup_detected is false on a re-erasure")
    return Statement(
        "Erasure after a restore",
        (
            f"Memory {f.text('memory_id')}, erased before, came back with a restored database; it was erased "
            f"again at {f.moment('applied_at')}.",
            *_erasure(f),
        ),
        _limits(f),
    )


def _key_rotation(f: Fields) -> Statement:
    role = f.choice("key_role", ("custody", "signer", "commit"))
    return Statement(
        "Key rotation",
        (
            f"The {role} key {f.text('old_key_id')} was followed by {f.text('new_key_id')} "
            f"at {f.moment('applied_at')}.",
        ),
    )


def _log_restart(f: Fields) -> Statement:
    return Statement(
        "Receipt log restarted",
        (
            f"A new receipt log follows log {f.text('previous_origin')}, whose next number would have been "
            f"{f.count('previous_next_seq')}; the change was made at {f.moment('applied_at')}.",
        ),
        ("**A log restarts after a restore.** Receipts issued after the backup was taken may be missing.",),
    )


def _trust(f: Fields) -> Statement:
    return Statement(
        "Trust list",
        (f"Version {f.count('version')} of the list of keys and logs, issued at {f.moment('issued_at')}.",),
        ("**Only the pinned root key makes this list count.** Compare the pin with the root you hold.",),
    )


def _erasure(f: Fields) -> tuple[str, ...]:
    """Say what became of the key and of the ciphertext, no more strongly than custody allows."""
    said = [f"{_key_act(f)} Key custody: {f.text('key_custody')}."]
    if f.has("physical_purge_state"):
        said.append(f"Ciphertext when this was signed: {_purge(f)}.")
    return tuple(said)


def _key_act(f: Fields) -> str:
    if f.is_word("finality", "scheduled"):
        return "Its key is scheduled for destruction."
    if f.is_word("finality", "unassured") or is_development(f):
        return "Its key was deleted; that no copy is left is not assured."
    return "Its key was destroyed."


def _purge(f: Fields) -> str:
    for state, meaning in _PURGE.items():
        if f.is_word("physical_purge_state", state):
            return meaning
    return f.text("physical_purge_state")


def _limits(f: Fields) -> tuple[str, ...]:
    """Say in words what bounds an erasure."""
    said: list[str] = []
    if f.is_word("finality", "scheduled"):
        until = f" until {f.moment('key_final_at')}" if f.has("key_final_at") else ""
        said.append(f"**Destruction is scheduled, not final.** The key can be brought back{until}.")
    if f.is_word("finality", "unassured"):
        said.append("**Destruction is not assured.** The custody provider cannot rule out a copy of the key.")
    if f.has("resurrection_bound_at"):
        bound = f.moment("resurrection_bound_at")
        said.append(
            f"**Backups.** Until {bound} a restored backup of the key store could bring the key back."
        )
    return tuple(said)


def _outside(f: Fields) -> tuple[str, ...]:
    if not f.has("external_artifact_count") or not f.count("external_artifact_count"):
        return ()
    return (
        f"**Outside this store.** {f.count('external_artifact_count')} external artifact(s) were derived "
        f"from these memories; {f.count('external_ack_count')} erasure(s) of them were acknowledged.",
    )


STATEMENTS: dict[str, Callable[[Fields], Statement]] = {
    "shomei.memory_add.v1": _memory_add,
    "shomei.memory_update.v1": _memory_update,
    "shomei.vector_delete.v1": _vector_delete,
    "shomei.restriction.v1": _restriction,
    "shomei.subject_closure.v1": _subject_closure,
    "shomei.legal_hold.v1": _legal_hold,
    "shomei.consent.v1": _consent,
    "shomei.access_export.v1": _access_export,
    "shomei.disclosure.v1": _disclosure,
    "shomei.derived_artifact.v1": _derived_artifact,
    "shomei.physical_purge.v1": _physical_purge,
    "shomei.reerase.v1": _reerase,
    "shomei.key_rotation.v1": _key_rotation,
    "shomei.log_restart.v1": _log_restart,
    "shomei.trust.v1": _trust,
}


def is_development(f: Fields) -> bool:
    """Tell whether the signed custody is one for development or tests."""
    return f.starts("key_custody", "dev_") or f.is_word("key_custody", "ephemeral_test")
