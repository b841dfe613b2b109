"""Every route of CONTRACT.md §1, in one list."""

from typing import Final, cast

from ..exchange import AnyOperation
from . import memories, search, signer, subjects, unbuilt

OPERATIONS: Final = cast(
    tuple[AnyOperation, ...],
    (
        *memories.OPERATIONS,
        *search.OPERATIONS,
        *subjects.OPERATIONS,
        *signer.OPERATIONS,
        *unbuilt.OPERATIONS,
    ),
)
