"""Routes the contract promises and the engine cannot serve yet: scope first, then 501. CONTRACT.md §2."""

from typing import Final, NoReturn

from ...engine.errors import Unsupported
from ...engine.model import Scope
from ..answers import ErrorAnswer
from ..exchange import Ask, Operation
from ..lanes import Lane
from ..schemas import Nothing

_MEMORY: Final = "/v1/memories/{memory_id}"

_UNBUILT: Final[tuple[tuple[str, str, Scope], ...]] = (
    ("PUT", _MEMORY, Scope.ADMIN),
    ("POST", f"{_MEMORY}/restrict", Scope.ADMIN),
    ("DELETE", f"{_MEMORY}/restrict", Scope.ADMIN),
    ("POST", f"{_MEMORY}/disclose", Scope.ADMIN),
    ("GET", f"{_MEMORY}/lineage/neighbors", Scope.DATA),
    ("GET", f"{_MEMORY}/lineage/graph", Scope.DATA),
    ("POST", "/v1/export", Scope.ADMIN),
    ("GET", "/v1/export", Scope.ADMIN),
    ("POST", "/v1/holds", Scope.ADMIN),
    ("GET", "/v1/holds", Scope.ADMIN),
    ("DELETE", "/v1/holds/{hold_id}", Scope.ADMIN),
    ("POST", "/v1/consent", Scope.ADMIN),
    ("GET", "/v1/consent", Scope.ADMIN),
    ("POST", "/v1/artifacts", Scope.DATA),
    ("POST", "/v1/artifacts/{artifact_id}/ack", Scope.DATA),
    ("GET", "/v1/obligations", Scope.ADMIN),
    ("POST", "/v1/obligations/{obligation_id}/cancel", Scope.ADMIN),
    ("GET", "/v1/receipts", Scope.ADMIN),
    ("GET", "/v1/tombstones", Scope.ADMIN),
    ("GET", "/v1/audit", Scope.ADMIN),
    ("GET", "/metrics", Scope.ADMIN),
)


def not_built(_ask: Ask[Nothing, Nothing]) -> NoReturn:
    """Not built yet."""
    raise Unsupported("this action is not built yet")


OPERATIONS: Final = tuple(
    Operation(
        method=method,
        path=path,
        scope=scope,
        act=not_built,
        answer=ErrorAnswer,
        body=Nothing,
        query=Nothing,
        lane=Lane.READ,
    )
    for method, path, scope in _UNBUILT
)
