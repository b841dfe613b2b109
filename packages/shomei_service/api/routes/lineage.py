"""Lineage around a memory, and what was made from memories elsewhere. SEMANTICS.md §11."""

from collections.abc import Sequence
from typing import Final, Literal, cast

from ...engine.errors import Blocked, LineageUnsupported, NotFound
from ...engine.model import Scope
from ...engine.store.lineage import Edge
from ...engine.verbs import artifact, lineage
from ...engine.verbs.lineage import Node
from ..answers import proof
from ..exchange import Ask, Operation
from ..governed_answers import (
    AcknowledgeAnswer,
    ArtifactAnswer,
    GraphAnswer,
    LineageEdge,
    LineageNode,
    NeighborsAnswer,
)
from ..lanes import Lane
from ..schemas import ArtifactBody, LineageQuery
from ..shapes import Nothing

_LINEAGE: Final = "/v1/memories/{memory_id}/lineage"


def show_neighbors(ask: Ask[Nothing, LineageQuery]) -> NeighborsAnswer:
    """Name what a memory came from and what was made from it."""
    found = lineage.neighbors(
        ask.engine, ask.caller, ask.path_id, direction=ask.query.direction, limit=ask.query.limit
    )
    return {
        "id": ask.path_id,
        "neighbors": _nodes(found.nodes),
        "edges": _edges(found.edges),
        "truncated": found.truncated,
    }


def show_graph(ask: Ask[Nothing, LineageQuery]) -> GraphAnswer:
    """Draw a memory with what it came from and what was made from it."""
    found = lineage.graph(
        ask.engine, ask.caller, ask.path_id, direction=ask.query.direction, limit=ask.query.limit
    )
    return {
        "id": ask.path_id,
        "nodes": _nodes(found.nodes),
        "edges": _edges(found.edges),
        "truncated": found.truncated,
    }


def register_artifact(ask: Ask[ArtifactBody, Nothing]) -> ArtifactAnswer:
    """Record that something was made from memories outside the store."""
    body = ask.body
    done = artifact.register(ask.engine, ask.caller, body.derived_from, body.kind, body.location_code)
    return ArtifactAnswer(id=done.artifact_id, recallable=True, **proof(done.receipt))


def acknowledge_artifact(ask: Ask[Nothing, Nothing]) -> AcknowledgeAnswer:
    """Record that an artifact's owner erased it."""
    changed = artifact.acknowledge(ask.engine, ask.caller, ask.path_id)
    return {"id": ask.path_id, "acknowledged": True, "changed": changed}


def _nodes(nodes: Sequence[Node]) -> list[LineageNode]:
    return [
        {
            "id": node.node_id,
            "kind": cast(Literal["memory", "artifact", "tombstone"], node.kind),
            "recallable": node.recallable,
        }
        for node in nodes
    ]


def _edges(edges: Sequence[Edge]) -> list[LineageEdge]:
    return [{"type": edge.kind.value, "from": edge.derived_id, "to": edge.source_id} for edge in edges]


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{_LINEAGE}/neighbors",
        scope=Scope.DATA,
        act=show_neighbors,
        answer=NeighborsAnswer,
        body=Nothing,
        query=LineageQuery,
        lane=Lane.READ,
        refused={LineageUnsupported: {}},
    ),
    Operation(
        method="GET",
        path=f"{_LINEAGE}/graph",
        scope=Scope.DATA,
        act=show_graph,
        answer=GraphAnswer,
        body=Nothing,
        query=LineageQuery,
        lane=Lane.READ,
        refused={LineageUnsupported: {}},
    ),
    Operation(
        method="POST",
        path="/v1/artifacts",
        scope=Scope.DATA,
        act=register_artifact,
        answer=ArtifactAnswer,
        body=ArtifactBody,
        query=Nothing,
        lane=Lane.REMEMBER,
        refused={NotFound: {}, Blocked: {}, LineageUnsupported: {}},
    ),
    Operation(
        method="POST",
        path="/v1/artifacts/{artifact_id}/ack",
        scope=Scope.DATA,
        act=acknowledge_artifact,
        answer=AcknowledgeAnswer,
        body=Nothing,
        query=Nothing,
        lane=Lane.REMEMBER,
    ),
)
