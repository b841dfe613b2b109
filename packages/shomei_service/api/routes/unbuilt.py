"""Routes the contract promises and the engine cannot serve yet: scope first, then 501. CONTRACT.md §2."""

from typing import Final, NoReturn

from ...engine.errors import Unsupported
from ...engine.model import Scope
from ..answers import ErrorAnswer
from ..exchange import Ask, Operation
from ..lanes import Lane
from ..schemas import Nothing

_UNBUILT: Final[tuple[tuple[str, str, Scope], ...]] = (
    ("POST", "/v1/export", Scope.ADMIN),
    ("GET", "/v1/export", Scope.ADMIN),
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
