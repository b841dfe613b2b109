"""How much the engine takes in one piece. RELIABILITY.md §6."""

from typing import Final

TEXT_BYTES: Final = 64 * 1024
METADATA_BYTES: Final = 8 * 1024
METADATA_KEYS: Final = 32
QUERY_BYTES: Final = 4 * 1024
SUBJECT_BYTES: Final = 256
SEMANTIC_TYPE_CHARACTERS: Final = 64
SEARCH_RESULTS: Final = 100
PAGE_ROWS: Final = 500
BATCH_MEMORIES: Final = 1000
BODY_BYTES: Final = 256 * 1024
BATCH_BODY_BYTES: Final = 16 * 1024 * 1024
JSON_DEPTH: Final = 32
JSON_KEYS: Final = 1000
ID_BYTES: Final = 384
LINEAGE_DEPTH: Final = 32
LINEAGE_NODES: Final = 100
SOURCES: Final = 100
INLINE_ERASURES: Final = 100
LATEST: Final = 253_402_300_799  # the end of the year 9999
