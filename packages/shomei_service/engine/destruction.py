"""Destroy keys, prove that they are gone, and say so in receipt terms. CUSTODY.md §4 (E2-E5), §6."""

from collections.abc import Mapping, Sequence

from . import policy
from .custody import Address, Destruction, LogMark, Puncture, Punctured
from .custody.providers.protocol import DestroyMethod, Finality
from .errors import IntegrityFault
from .model import CARRIED, Cause, Obligation, RowFacts
from .parts import Engine
from .receipts import bodies
from .receipts.bodies import Draft, KeyDestruction
from .receipts.commitments import Commitments
from .store.intents import Intent

_SECONDS_A_DAY = 86_400


def destroy(
    engine: Engine, leaves: Sequence[int], cause: Cause, *, mark: Mapping[str, LogMark] | None = None
) -> Destruction:
    """Puncture the leaves, and prove that none of them can be derived any more (E2-E5).

    A repeat returns what the first call returned. Raises IntegrityFault if a key survived: then no
    receipt is issued.
    """
    addresses = [Address(leaf) for leaf in leaves]
    asked = [Puncture(address, cause.value) for address in addresses]
    destroyed = engine.custody.puncture(asked, now=engine.clock.now(), marks=mark)
    for address in addresses:
        try:
            engine.custody.derive(address)
        except Punctured:
            continue
        raise IntegrityFault("custody says that a key is destroyed, and still derives it")
    return destroyed


def stated(engine: Engine, destroyed: Destruction) -> KeyDestruction:
    """Return a destruction in receipt terms, bounded by the provider's declared snapshots. CUSTODY.md §6."""
    retention = engine.options.snapshot_retention_days
    bound = destroyed.key_final_at
    if bound is not None and retention is not None:
        bound = max(bound, destroyed.destroyed_at + retention * _SECONDS_A_DAY)
    return KeyDestruction(
        key_custody=destroyed.key_custody.value,
        epoch_before=destroyed.epoch_before,
        epoch_after=destroyed.epoch_after,
        destroy_method=destroyed.destroy_method.value,
        finality=destroyed.finality.value,
        key_final_at=destroyed.key_final_at,
        resurrection_bound_at=bound,
    )


def expected(engine: Engine, now: int) -> KeyDestruction:
    """Return what a destruction will look like; only to screen receipts before there is no way back."""
    epoch = engine.custody.epoch
    return stated(
        engine,
        Destruction(
            epoch_before=epoch,
            epoch_after=epoch + 1,
            at=now,
            destroy_method=DestroyMethod.FILE_OVERWRITE_UNLINK,
            finality=Finality.UNASSURED,
            key_final_at=None,
            destroyed_at=now,
            key_custody=engine.custody.provider.describe().key_custody,
        ),
    )


def drafted(
    commitments: Commitments,
    row: RowFacts,
    intent: Intent,
    destruction: KeyDestruction,
    affected: int = 0,
    owed: Obligation | None = None,
) -> Draft:
    """Return the receipt of one row's erasure; `owed` is the obligation that it discharges."""
    if intent.successor_id is not None:
        return bodies.memory_update(
            memory_id=intent.successor_id,
            previous_id=row.memory_id,
            tombstone_id=commitments.tombstone_id(row.memory_id),
            carried=CARRIED,
            retirement_hashes=[_retirement(commitments, row)],
            destruction=destruction,
        )
    is_put_off = intent.cause is Cause.DEFERRED_HOLD_RELEASE  # then each row has its own reason
    return bodies.vector_delete(
        memory_id=row.memory_id,
        tombstone_id=commitments.tombstone_id(row.memory_id),
        subject=row.subject,
        cause=intent.cause,
        basis=policy.basis_of(owed.cause) if is_put_off and owed else intent.basis,
        retirement_hashes=[_retirement(commitments, row)],
        destruction=destruction,
        derived_affected=affected,
        obligation_id=owed.obligation_id if owed else None,
    )


def _retirement(commitments: Commitments, row: RowFacts) -> str:
    # One mark a row, by its leaf: the number of vectors would tell the length of the text.
    return commitments.retirement(row.memory_id, row.address)
