"""The sealed bytes of rows that should be gone, as a backup from before still has them. SEMANTICS.md §10."""

from typing import Final

from ..engine.errors import Invalid
from .spellings import Needle
from .thief import reading_everything, rows

_PIECE: Final = 24  # bytes of ciphertext that are not on a disk by chance


def erased_since(database: str, backup: str) -> list[Needle]:
    """Return what to look for of every row that the backup holds and the database has a tombstone of.

    Raises Invalid when there is none.
    """
    with reading_everything(database) as connection:
        gone = {row.memory_id for row in connection("SELECT memory_id FROM tombstones")}
    needles: list[Needle] = []
    for row in rows(backup):
        if row.memory_id in gone:
            pieces = (row.sealed_dek[:_PIECE], row.sealed_content[:_PIECE], row.sealed_content[-_PIECE:])
            needles += [Needle.sealed(len(needles) + at, piece) for at, piece in enumerate(pieces, start=1)]
    if not needles:
        raise Invalid("no row of that backup was erased since, so there is nothing to look for")
    return needles
