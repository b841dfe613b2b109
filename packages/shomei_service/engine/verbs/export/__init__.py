"""Everything about one person, at one point in time, with a witness. docs/spec/export.md (GDPR Art. 15, 20).

One snapshot is read once; what it holds is put aside sealed, hashed, witnessed by a receipt, and then told.
"""

import secrets
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ... import policy
from ...custody.spool import Spool
from ...errors import Invalid
from ...failpoints import failpoint
from ...model import Caller, JsonObject, MemoryId, Pseudonym, Scope, Tenant, Tombstone, new_id
from ...parts import Engine
from ...receipts import bodies
from ...receipts.commitments import SetCommitments
from ...store import tenants
from ...store.unit import Unit
from .package import NONCE_BYTES, Package, digest, manifest
from .snapshot import Form, Snapshot, Wanted
from .writing import Sets, write

__all__ = ["Form", "Package", "Wanted", "export"]

_LISTED = 500  # artifacts in a receipt of at most 64 KiB, however its JSON is laid out


@dataclass(frozen=True, slots=True)
class _Made:
    """What was read and written, and what is to be stated about it."""

    subject: Pseudonym
    ids: list[MemoryId]
    tenant_hash: str
    stones: list[Tombstone]
    sets: Sets
    counted: JsonObject


def export(engine: Engine, caller: Caller, wanted: Wanted, *, form: Form) -> Package:
    """Return a package of everything about a person; whoever takes it closes it.

    The export is an access itself: one audit event, one receipt, one line in the next export. Raises Invalid
    for a redaction of a memory that is not in it, AuditUnavailable when it can not be put on record.
    """
    caller.require(Scope.ADMIN)
    policy.require_subject(wanted.user_id)
    # 1. Who read before is on record before it is looked at.
    engine.audit.catch_up()
    export_id, nonce = new_id("exp_"), secrets.token_bytes(NONCE_BYTES)
    with ExitStack() as undone:
        spools: dict[str, Spool] = {}
        undone.callback(lambda: [spool.close() for spool in spools.values()])
        # 2. One snapshot, read once.
        with engine.reading(caller.tenant) as unit:
            made = _make(engine, unit, wanted, form, export_id, spools)
        files = [(name, spools[name].digest) for name in sorted(spools)]
        made.counted["package_digest"] = digest(nonce, files)
        # 3. The witness and the audit event are one transaction; without them nothing is told.
        with engine.unit(caller.tenant) as unit:
            tenant = tenants.get(unit)  # again: its key may have been followed by another since
            sets = engine.set_commitments(unit, tenant, tenant.commit_key_id)
            witnessed = made.counted | _committed(made, sets)
            draft = bodies.access_export(export_id=export_id, subject=made.subject, witnessed=witnessed)
            receipt = engine.attest(unit, [draft], actor=caller.actor)[0]
            engine.audit.record(
                unit,
                caller,
                "export",
                made.ids,
                receipt_hash=receipt.receipt_hash,
                subjects=[made.subject],
            )
            failpoint("export.before_commit")
        failpoint("export.after_commit")
        undone.pop_all()
    return Package(export_id, engine.clock.now(), receipt, manifest(nonce, files), spools)


def _make(
    engine: Engine, unit: Unit, wanted: Wanted, form: Form, export_id: str, spools: dict[str, Spool]
) -> _Made:
    tenant = tenants.get(unit)
    commitments = engine.commitments(tenant)
    snapshot = Snapshot.of(engine, unit, tenant, commitments, replace(wanted, export_id=export_id))
    unknown = wanted.redactions.keys() - set(snapshot.ids)
    if unknown:
        raise Invalid("redactions name memories that this export does not hold")
    written = write(snapshot, form, spools)
    return _Made(
        subject=snapshot.subject,
        ids=snapshot.ids,
        tenant_hash=commitments.tenant(tenant.tenant_id),
        stones=snapshot.tombstones,
        sets=written.sets,
        counted=_counted(tenant, snapshot, written.sets),
    )


def _counted(tenant: Tenant, snapshot: Snapshot, sets: Sets) -> JsonObject:
    told: JsonObject = {
        "as_of_seq": tenant.next_seq,
        "record_count": len(sets.records),
        "artifact_count": len(sets.artifacts),
        "disclosure_count": len(sets.disclosures),
        "tombstone_count": len(snapshot.tombstones),
    }
    if len(snapshot.artifacts) <= _LISTED:
        told["artifacts"] = [{"id": one["id"], "recallable": one["recallable"]} for one in snapshot.artifacts]
    return told


def _committed(made: _Made, sets: SetCommitments) -> JsonObject:
    told: JsonObject = {
        f"{name}_set_commitment": sets.set_of(
            name, made.tenant_hash, made.subject, getattr(made.sets, f"{name}s")
        )
        for name in Sets.NAMES
    }
    told["closed_set_commitment"] = sets.closed_set(made.tenant_hash, made.subject, made.stones)
    return told
