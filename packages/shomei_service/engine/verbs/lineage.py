"""Lineage around a memory: content-free nodes and edges. SEMANTICS.md §11."""

from dataclasses import dataclass

from .. import limits, policy
from ..errors import Invalid, LineageUnsupported, NotFound
from ..model import Caller, Direction, MemoryId, Scope
from ..parts import Engine
from ..store import lineage, memories, restrictions, tombstones
from ..store.lineage import Edge
from ..store.unit import Unit


@dataclass(frozen=True, slots=True)
class Node:
    """A memory, an artifact or a tombstone, and whether recall may use it."""

    node_id: str
    kind: str
    recallable: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """The node asked for, its neighbours, the edges between, and whether the limit cut any off."""

    nodes: list[Node]
    edges: list[Edge]
    truncated: bool


def graph(
    engine: Engine, caller: Caller, memory_id: str, *, direction: Direction = Direction.OUT, limit: int = 50
) -> Graph:
    """Return the immediate provenance of a memory; `limit` counts neighbours, 0 to 100.

    A data key sees recallable memories only, an admin key all of them, erased ones as tombstones. Raises
    NotFound, Invalid for a limit out of range, LineageUnsupported where that is switched off.
    """
    caller.require(Scope.DATA)
    if not engine.options.lineage:
        raise LineageUnsupported("lineage is switched off for this installation")
    if not 0 <= limit <= limits.LINEAGE_NODES:
        raise Invalid("limit is out of range")
    now = engine.clock.now()
    with engine.reading(caller.tenant) as unit:
        centre = _node(unit, caller, memory_id, now)
        if centre is None:
            raise NotFound("no such memory")
        engine.audit.note(caller, "lineage", [MemoryId(memory_id)])
        found = lineage.touching(
            unit,
            memory_id,
            as_derived=direction is not Direction.IN,
            as_source=direction is not Direction.OUT,
            limit=limits.LINEAGE_NODES * 2 + 1,
        )
        neighbours: dict[str, Node] = {}
        edges: list[Edge] = []
        for edge in found:
            other = edge.source_id if edge.derived_id == memory_id else edge.derived_id
            node = neighbours.get(other) or _node(unit, caller, other, now)
            if node is None:
                continue  # before the count: a full page must not tell of what may not be seen
            if other not in neighbours and len(neighbours) == limit:
                return Graph([centre, *neighbours.values()], edges, truncated=True)
            neighbours[other] = node
            edges.append(edge)
    return Graph([centre, *neighbours.values()], edges, truncated=len(found) > limits.LINEAGE_NODES * 2)


def neighbors(
    engine: Engine, caller: Caller, memory_id: str, *, direction: Direction = Direction.OUT, limit: int = 50
) -> Graph:
    """Return the same without the node asked for."""
    whole = graph(engine, caller, memory_id, direction=direction, limit=limit)
    return Graph(whole.nodes[1:], whole.edges, whole.truncated)


def _node(unit: Unit, caller: Caller, node_id: str, now: int) -> Node | None:
    """Return what there is under an id, as far as the caller may know of it."""
    node = _any_node(unit, node_id, now)
    return node if node is not None and (node.recallable or Scope.ADMIN in caller.scopes) else None


def _any_node(unit: Unit, node_id: str, now: int) -> Node | None:
    if node_id.startswith("artifact:"):
        artifact = lineage.find_artifact(unit, node_id)
        if artifact is None:
            return None
        usable = artifact.erasure_requested_at is None and not restrictions.hidden_sources(unit, node_id, now)
        return Node(node_id, "artifact", usable)
    row = memories.find(unit, node_id)
    if row is not None and policy.is_present(row):
        usable = policy.is_recallable(row, now) and not restrictions.hidden_sources(unit, node_id, now)
        return Node(node_id, "memory", usable)
    if tombstones.of_memory(unit, node_id) is not None:
        return Node(node_id, "tombstone", recallable=False)
    return None
