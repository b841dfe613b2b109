"""Artifacts: what was made from memories and lies elsewhere. SEMANTICS.md §11 (GDPR Art. 17(2), 19)."""

from collections.abc import Sequence
from dataclasses import dataclass

from .. import limits, policy, retries
from ..errors import Blocked, Invalid, LineageUnsupported, NotFound
from ..model import (
    ArtifactKind,
    Attested,
    Caller,
    EdgeKind,
    ObligationState,
    Scope,
    new_id,
)
from ..parts import Engine
from ..receipts import bodies
from ..store import lineage, memories, obligations, restrictions, tenants
from ..store.lineage import Artifact, Edge
from ..store.unit import Unit


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration."""

    artifact_id: str
    receipt: Attested


def register(
    engine: Engine,
    caller: Caller,
    derived_from: Sequence[str],
    kind: ArtifactKind,
    location_code: str | None = None,
) -> Registered:
    """Record that something outside the store was made from memories or artifacts.

    Raises NotFound for an unknown source, Blocked for one out of recall, Invalid for a location code that is
    not registered, LineageUnsupported where that is switched off.
    """
    caller.require(Scope.DATA)
    if not engine.options.lineage:
        raise LineageUnsupported("lineage is switched off for this installation")
    if not 1 <= len(derived_from) <= limits.SOURCES or len(set(derived_from)) != len(derived_from):
        raise Invalid("derived_from names 1 to 100 different sources")
    now = engine.clock.now()
    artifact_id = new_id("artifact:")
    with engine.unit(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            receipt = retries.statement(unit, again["receipt"])
            assert receipt is not None, "every registration has its receipt"  # noqa: S101
            return Registered(retries.text(again["artifact"]), receipt)
        if location_code is not None:
            policy.require_registered(
                [location_code],
                tenants.get(unit).policies.location_codes,
                "location_code must be registered for the tenant",
            )
        for source in derived_from:
            _require_source(unit, source, now)
        lineage.put_artifact(unit, Artifact(artifact_id, kind, location_code, now))
        lineage.put_edges(unit, [Edge(EdgeKind.DERIVED_FROM, artifact_id, source) for source in derived_from])
        draft = bodies.derived_artifact(artifact_id=artifact_id, kind=kind, source_ids=sorted(derived_from))
        receipt = engine.attest(unit, [draft], actor=caller.actor)[0]
        retries.keep(engine, unit, caller, {"artifact": artifact_id, "receipt": receipt.receipt_hash})
    return Registered(artifact_id, receipt)


def acknowledge(engine: Engine, caller: Caller, artifact_id: str) -> bool:
    """Record that an artifact's owner erased it; return whether that was news. Raise NotFound."""
    caller.require(Scope.DATA)
    now = engine.clock.now()
    with engine.unit(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            return again["news"] is True
        artifact = lineage.find_artifact(unit, artifact_id)
        if artifact is None:
            raise NotFound("no such artifact")
        news = artifact.acknowledged_at is None
        retries.keep(engine, unit, caller, {"news": news})
        if not news:
            return False
        owed = [one.obligation_id for one in obligations.of_artifact(unit, artifact_id)]
        engine.journal(unit, "artifact_acknowledged", [artifact_id, *owed])
        lineage.acknowledge(unit, artifact_id, at=now)
        obligations.end(unit, owed, ObligationState.DONE, at=now)
    return True


def _require_source(unit: Unit, source: str, now: int) -> None:
    if source.startswith("artifact:"):
        artifact = lineage.find_artifact(unit, source)
        if artifact is None:
            raise NotFound("no such memory")
        usable = artifact.erasure_requested_at is None
    else:
        usable = policy.is_recallable(policy.require_present(memories.find(unit, source)), now)
    if not usable or restrictions.hidden_sources(unit, source, now):
        raise Blocked("the memory does not permit this now")
    if lineage.depth_of(unit, source, limits.LINEAGE_DEPTH) + 1 >= limits.LINEAGE_DEPTH:
        raise Invalid("derived_from would be more than 32 generations deep")
