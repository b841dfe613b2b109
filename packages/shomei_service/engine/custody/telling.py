"""What custody has done and what there is of it, in words that say nothing secret. CUSTODY.md §6."""

from typing import Final

from sqlalchemy import Connection

from . import leases, records, roots
from .faults import CustodyMismatch
from .heads import Heads
from .keytree import Address, path, tenant_path
from .providers.protocol import Finality
from .records import Record
from .values import (
    CustodyStatus,
    Destruction,
    EpochEntry,
    EpochStatus,
    MirrorState,
    MirrorStatus,
    PuncturedAt,
    Rotated,
)

_TENANT_STEPS: Final = len(tenant_path(0))


def punctured_at(connection: Connection, address: Address) -> PuncturedAt | None:
    """Return when and why a leaf, or its whole tenant, was first punctured; None while it lives."""
    steps = path(address)
    found = records.read_punctures(connection, [steps, steps[:_TENANT_STEPS]])
    if not found:
        return None
    epoch, cause = min(found.values())
    return PuncturedAt(epoch, records.read_epochs(connection, [epoch])[epoch].at, cause)


def epochs_after(connection: Connection, epoch: int) -> list[EpochEntry]:
    """Return what was punctured in every later epoch, in order, one entry for each epoch and cause."""
    groups: dict[tuple[int, int, str], list[bytes]] = {}
    for number, at, cause, steps in records.punctured_after(connection, epoch):
        groups.setdefault((number, at, cause), []).append(steps)
    return [_entry(*key, paths) for key, paths in groups.items()]


def _entry(epoch: int, at: int, cause: str, paths: list[bytes]) -> EpochEntry:
    leaves = tuple(Address(int.from_bytes(steps)) for steps in paths if len(steps) > _TENANT_STEPS)
    whole = tuple(int.from_bytes(steps) for steps in paths if len(steps) == _TENANT_STEPS)
    return EpochEntry(epoch, at, cause, leaves, whole)


def rotations_after(connection: Connection, epoch: int) -> list[Rotated]:
    """Return the later epochs in which somebody asked for a new key, in order."""
    found = records.rotations_after(connection, epoch)
    return [Rotated(one.epoch, one.at, one.old_custody, one.new_custody) for one in found]


def destruction(record: Record) -> Destruction:
    """Return how an epoch ended its predecessor's key; it is answered for once that key is destroyed."""
    assert record.ended is not None, "an epoch is answered for once its old key is destroyed"  # noqa: S101
    destroyed, destroyed_at = record.ended
    is_final = destroyed.finality is Finality.FINAL
    return Destruction(
        epoch_before=record.epoch - 1,
        epoch_after=record.epoch,
        at=record.at,
        destroy_method=destroyed.method,
        finality=destroyed.finality,
        key_final_at=destroyed_at if is_final and destroyed.final_at is None else destroyed.final_at,
        destroyed_at=destroyed_at,
        key_custody=record.old_custody,
    )


def status(heads: Heads, limit: int) -> CustodyStatus:
    """Return what there is to know of the store and its newest epochs."""
    with heads.store.reading() as connection:
        blobs, size, waiting = roots.count(connection)
        named = len(records.read_pending(connection))
        log = records.newest_epochs(connection, limit)
        punctured = records.count_punctured(connection, [one.epoch for one in log])
        epoch = roots.read_epoch(connection)
    about = heads.holders.current.describe()
    return CustodyStatus(
        installation_id=heads.installation_id,
        epoch=epoch,
        key_custody=about.key_custody,
        is_development=about.is_development,
        is_file=heads.store.is_sqlite,
        blobs=blobs,
        blob_bytes=size,
        keys_to_destroy=waiting,
        keys_named=named,
        epochs=tuple(
            EpochStatus(
                one.epoch,
                one.at,
                punctured.get(one.epoch, 0),
                one.rotated,
                one.old_custody,
                destruction(one) if one.ended else None,
            )
            for one in log
        ),
        mirrors=_mirrors(heads),
    )


def _mirrors(heads: Heads) -> tuple[MirrorStatus, ...]:
    with heads.store.reading() as connection:
        mine = leases.given_out(connection, roots.read_epoch(connection))
    found: list[MirrorStatus] = []
    for where in heads.store.mirrors.paths:
        try:
            state = MirrorState.CURRENT if heads.mirrored(where) == mine else MirrorState.BEHIND
        except CustodyMismatch:
            state = MirrorState.UNREADABLE if where.exists() else MirrorState.MISSING
        found.append(MirrorStatus(str(where), state))
    return tuple(found)
