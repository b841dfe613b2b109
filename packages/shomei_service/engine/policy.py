"""The gates: pure questions and demands over values, no I/O, no clock, no SQL. SEMANTICS.md §4-§5."""

import json
from collections.abc import Iterable, Mapping
from typing import Final, LiteralString

from . import limits
from .errors import Blocked, Held, Invalid, NotFound, TooLarge
from .model import (
    PRESERVE_GROUNDS,
    SYSTEM_GROUNDS,
    Basis,
    Cause,
    Ground,
    Json,
    LawfulBasis,
    Life,
    MemoryRow,
    NewMemory,
    Policies,
    RowFacts,
)

# What says that erasing is the subject's own wish or the law's, though it was opposed before. §6.
_BASES_AGAINST_PRESERVATION: Final = frozenset(
    {Basis.SUBJECT_REQUEST, Basis.LEGAL_OBLIGATION, Basis.RESTRICTION_CONSENT}
)


_BASIS_OF: Final = {
    Cause.SUBJECT_FORGET: Basis.SUBJECT_REQUEST,
    Cause.RETENTION_EXPIRED: Basis.NO_LONGER_NECESSARY,
    Cause.CONSENT_WITHDRAWN: Basis.CONSENT_WITHDRAWN,
}


def is_present(row: RowFacts) -> bool:
    """Say whether the memory exists for the verbs that act; one on its way in or out does not."""
    return row.life is Life.LIVE


def is_recallable(row: MemoryRow, now: int) -> bool:
    """Say whether recall may return the row by its own facts; its sources' are asked apart."""
    return (
        row.life is Life.LIVE
        and row.grounds == 0
        and row.consented
        and (row.expires_at is None or row.expires_at > now)
    )


def require_present(row: MemoryRow | None) -> MemoryRow:
    """Return the row, or raise NotFound for unknown, foreign, erased and on its way out alike."""
    if row is None or not is_present(row):
        raise NotFound("no such memory")
    return row


def require_recallable(row: MemoryRow | None, now: int) -> MemoryRow:
    """Return the row, or raise NotFound for one that recall does not show, whatever the reason."""
    if row is None or not is_recallable(row, now):
        raise NotFound("no such memory")
    return row


def require_unheld(*, held: bool) -> None:
    """Raise Held under a legal hold: it stops every path of destruction. SEMANTICS.md §7."""
    if held:
        raise Held("a legal hold forbids this")


def is_erasable(grounds: frozenset[Ground], basis: Basis) -> bool:
    """Say whether the subject did not oppose erasure, or the basis outranks that. §6."""
    return not grounds & PRESERVE_GROUNDS or basis in _BASES_AGAINST_PRESERVATION


def require_erasable(grounds: frozenset[Ground], basis: Basis) -> None:
    """Raise Blocked when the subject opposed erasure and nothing says that this is the subject's wish. §6."""
    if not is_erasable(grounds, basis):
        raise Blocked("the memory does not permit this now")


def may_go_by_itself(grounds: frozenset[Ground], cause: Cause) -> bool:
    """Say whether an erasure that nobody asks for now may touch a memory with these grounds. §6, §18.

    Retention never erases what is restricted; a withdrawn consent does not erase what its subject wants kept.
    """
    if cause is Cause.RETENTION_EXPIRED:
        return not grounds
    return cause is not Cause.CONSENT_WITHDRAWN or not grounds & PRESERVE_GROUNDS


def basis_of(cause: Cause | None) -> Basis:
    """Return the basis of an erasure that was put off, by what it was first owed for."""
    return _BASIS_OF.get(cause, Basis.UNSPECIFIED) if cause is not None else Basis.UNSPECIFIED


def require_updatable(row: MemoryRow, now: int, *, sources_recallable: bool) -> None:
    """Raise Blocked for restricted, consent-invalid and expired alike, with the same words. §4."""
    if not (is_recallable(row, now) and sources_recallable):
        raise Blocked("the memory does not permit this now")


def require_settable(ground: Ground) -> None:
    """Raise Invalid for a ground that only the engine may set."""
    if ground in SYSTEM_GROUNDS:
        raise Invalid("reason is not one a caller may give")


def require_registered(codes: Iterable[str], registered: frozenset[str], message: LiteralString) -> None:
    """Raise Invalid unless every code is one the tenant's operator registered."""
    if not set(codes) <= registered:
        raise Invalid(message)


def _utf8_length(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Invalid("text holds a lone surrogate, which is not a character") from None


def require_subject(user_id: str) -> None:
    """Raise Invalid unless the subject's name can be stored and found again."""
    if not user_id.strip():
        raise Invalid("user_id must not be empty")
    if "\0" in user_id:
        raise Invalid("user_id must not hold a NUL character")
    if _utf8_length(user_id) > limits.SUBJECT_BYTES:
        raise Invalid("user_id is longer than 256 bytes")


def require_query(query: str) -> None:
    """Raise Invalid for an empty query, TooLarge for one beyond the limit."""
    if not query.strip():
        raise Invalid("query must not be empty")
    if _utf8_length(query) > limits.QUERY_BYTES:
        raise TooLarge("query is longer than 4 KiB")


def require_reference(text: str | None, *, largest: int, message: LiteralString) -> None:
    """Raise Invalid for a reference that is empty, longer than its bound in bytes or not text at all."""
    if text is not None and not 1 <= _utf8_length(text) <= largest:
        raise Invalid(message)


def _require_metadata(metadata: Mapping[str, Json]) -> None:
    if len(metadata) > limits.METADATA_KEYS:
        raise Invalid("metadata has more than 32 keys")
    try:
        encoded = json.dumps(metadata, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        raise Invalid("metadata must be a JSON object of finite values") from None
    if _utf8_length(encoded) > limits.METADATA_BYTES:
        raise TooLarge("metadata is larger than 8 KiB")


def require_text(text: str) -> None:
    """Raise Invalid for an empty memory, TooLarge for one beyond the limit."""
    if not text.strip():
        raise Invalid("messages must not be empty")
    if _utf8_length(text) > limits.TEXT_BYTES:
        raise TooLarge("messages is longer than 64 KiB")


def require_admissible(new: NewMemory, policies: Policies, *, now: int) -> None:
    """Raise Invalid or TooLarge unless the memory is within the stated limits and uses registered codes."""
    require_text(new.text)
    if new.user_id is not None:
        require_subject(new.user_id)
    if not new.semantic_type.strip() or len(new.semantic_type) > limits.SEMANTIC_TYPE_CHARACTERS:
        raise Invalid("semantic_type must be 1 to 64 characters")
    _utf8_length(new.semantic_type)
    _require_metadata(new.metadata)
    require_registered(new.purposes, policies.purposes, "purposes must be registered for the tenant")
    if new.lawful_basis is LawfulBasis.CONSENT and (new.user_id is None or not new.purposes):
        raise Invalid("memories that rest on consent need user_id and purposes")
    if new.expires_at is not None and not now < new.expires_at <= limits.LATEST:
        raise Invalid("expires_at must be a time to come, in seconds since the epoch")
    if len(new.derived_from) > limits.SOURCES or len(set(new.derived_from)) != len(new.derived_from):
        raise Invalid("derived_from names up to 100 different memories")


def require_count(value: int, *, largest: int) -> None:
    """Raise Invalid unless a caller's count is at least one and within its bound."""
    if not 1 <= value <= largest:
        raise Invalid("limit is out of range")
