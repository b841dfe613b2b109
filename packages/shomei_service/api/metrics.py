"""What the service counts: fixed names, fixed labels, nothing a caller wrote. SEMANTICS.md §1."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from ..engine.parts import Engine
from ..engine.upkeep import backlogs
from .journal import named_method, named_route
from .lanes import Lanes
from .replies import Reply
from .upkeep import Upkeep

# From a cached answer to the time after which a client has usually given up.
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Meters:
    """The counters of one process, and what is asked of the engine when somebody looks."""

    def __init__(self, engine: Engine, lanes: Lanes, upkeep: Upkeep) -> None:
        self._engine = engine
        self._lanes = lanes
        self._upkeep = upkeep
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "shomei_requests",
            "Requests answered; route - is none of ours, status 499 a client that left.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "shomei_request_seconds",
            "From the request's head to its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def count(self, method: str, template: str | None, *, status: int, seconds: float) -> None:
        """Count one request."""
        route = named_route(template)
        self._requests.labels(named_method(method), route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def show(self) -> Reply:
        """Return everything in Prometheus' text form. Raises StorageUnavailable when storage is."""
        body = generate_latest(self._registry)
        declared = (
            (b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode()),
            (b"content-length", str(len(body)).encode()),
        )
        return Reply(200, declared, body)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what is looked up for each reading; Prometheus' registry calls this."""
        waiting = backlogs(self._engine)
        yield _gauge(
            "shomei_embedding_backlog", "Memories that still lack their vectors.", waiting.embeddings
        )
        yield _gauge("shomei_unfinished_erasures", "Erasures on their way.", waiting.erasures)
        yield _gauge("shomei_overdue_obligations", "Obligations past their day.", waiting.overdue)
        yield _gauge("shomei_custody_epoch", "How often custody moved on.", self._engine.custody.epoch)
        yield _gauge("shomei_upkeep_well", "1 while background work succeeds.", int(self._upkeep.is_well))
        lanes = GaugeMetricFamily("shomei_lane_calls", "Calls at work or waiting.", labels=("lane",))
        for lane, calls in self._lanes.load().items():
            lanes.add_metric((lane.value,), calls)
        yield lanes
        build = GaugeMetricFamily("shomei_build", "The version at work.", labels=("version",))
        build.add_metric((version("shomei-governed-memory"),), 1)
        yield build


def _gauge(name: str, purpose: str, value: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, purpose, value=value)
