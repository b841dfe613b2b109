"""What an operator's dashboard reads. CONTRACT.md §1."""

from typing import Final

from ...engine.model import Scope
from ..exchange import Ask, Operation
from ..lanes import Lane
from ..replies import Reply
from ..shapes import Nothing


def metrics(ask: Ask[Nothing, Nothing]) -> Reply:
    """Return counters and gauges, of all tenants together, in Prometheus' text form."""
    return ask.meters.show()


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/metrics",
        scope=Scope.ADMIN,
        act=metrics,
        answer=str,
        body=Nothing,
        query=Nothing,
        lane=Lane.READ,
        media_type="text/plain",
    ),
)
