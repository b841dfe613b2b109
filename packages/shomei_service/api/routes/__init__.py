"""Every route of CONTRACT.md §1, in one list.

How to add a route: give its body and query a closed `Shape` in schemas.py, its answer a shape in answers.py;
write one function from an `Ask` to that answer and one `Operation` in the module of its noun, list the module
here; run `UPDATE_SNAPSHOTS=1 pytest tests/api` and read the difference.
"""

from typing import Final, cast

from ..exchange import AnyOperation
from . import (
    consent,
    corrections,
    exports,
    holds,
    lineage,
    memories,
    metrics,
    records,
    search,
    signer,
    subjects,
)

OPERATIONS: Final = cast(
    tuple[AnyOperation, ...],
    (
        *memories.OPERATIONS,
        *corrections.OPERATIONS,
        *lineage.OPERATIONS,
        *search.OPERATIONS,
        *subjects.OPERATIONS,
        *holds.OPERATIONS,
        *consent.OPERATIONS,
        *records.OPERATIONS,
        *exports.OPERATIONS,
        *signer.OPERATIONS,
        *metrics.OPERATIONS,
    ),
)
