"""The gates: pure questions and demands over values, no I/O, no clock, no SQL. SEMANTICS.md §4-§5."""

import json
from collections.abc import Mapping

from . import limits
from .errors import Invalid, NotFound, TooLarge
from .model import Json, Life, MemoryRow, NewMemory


def is_recallable(row: MemoryRow) -> bool:
    """Say whether a search or a reader may see the row."""
    return row.life is Life.LIVE


def require_recallable(row: MemoryRow | None) -> MemoryRow:
    """Return the row, or raise NotFound for unknown, foreign and no longer recallable alike."""
    if row is None or not is_recallable(row):
        raise NotFound("no such memory")
    return row


def require_erasable(row: MemoryRow | None) -> MemoryRow:
    """Return the live row, or raise NotFound when it is unknown or already on its way out."""
    if row is None or row.life is not Life.LIVE:
        raise NotFound("no such memory")
    return row


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


def _require_metadata(metadata: Mapping[str, Json]) -> None:
    if len(metadata) > limits.METADATA_KEYS:
        raise Invalid("metadata has more than 32 keys")
    try:
        encoded = json.dumps(metadata, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        raise Invalid("metadata must be a JSON object of finite values") from None
    if _utf8_length(encoded) > limits.METADATA_BYTES:
        raise TooLarge("metadata is larger than 8 KiB")


def require_admissible(new: NewMemory) -> None:
    """Raise Invalid or TooLarge unless the memory is within the stated limits."""
    if not new.text.strip():
        raise Invalid("messages must not be empty")
    if _utf8_length(new.text) > limits.TEXT_BYTES:
        raise TooLarge("messages is longer than 64 KiB")
    if new.user_id is not None:
        require_subject(new.user_id)
    if not new.semantic_type.strip() or len(new.semantic_type) > limits.SEMANTIC_TYPE_CHARACTERS:
        raise Invalid("semantic_type must be 1 to 64 characters")
    _utf8_length(new.semantic_type)
    _require_metadata(new.metadata)


def require_count(value: int, *, largest: int) -> None:
    """Raise Invalid unless a caller's count is at least one and within its bound."""
    if not 1 <= value <= largest:
        raise Invalid("limit is out of range")
