"""A database, a custody store and a provider of keys that fail behind their ports, as a seed says."""

import random
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shomei_service.engine.errors import CustodyUnavailable, StorageUnavailable
from shomei_service.engine.parts import Engine

Opening = Callable[..., AbstractContextManager[Any]]


class Crash(BaseException):
    """The process dies here; no code of ours catches it."""


class Fault(StrEnum):
    """How a call on a port fails: nothing happened, it was undone, or it happened and nobody is told."""

    BEFORE = "before"
    UNDONE = "undone"
    UNTOLD = "untold"


@dataclass(slots=True)
class Weather:
    """Whether anything fails at all, and what."""

    chance: random.Random
    likely: float
    is_fair: bool = True

    def fault(self) -> Fault | None:
        """Draw whether this call fails, and how."""
        if self.is_fair or self.chance.random() >= self.likely:
            return None
        return self.chance.choice(list(Fault))

    def dies(self) -> bool:
        """Draw whether the process dies at this point."""
        return not self.is_fair and self.chance.random() < self.likely


def expose(engine: Engine, weather: Weather) -> None:
    """Put the weather between an engine and everything it stands on."""
    store: Any = engine.store
    store.transaction = _failing(store.transaction, weather, StorageUnavailable)
    store.snapshot = _failing(store.snapshot, weather, StorageUnavailable)
    custody: Any = engine.custody
    kept = custody._store
    kept.writing = _failing(kept.writing, weather, CustodyUnavailable)
    kept.reading = _failing(kept.reading, weather, CustodyUnavailable)
    provider: Any = engine.custody.provider
    for name in ("create", "wrap", "unwrap", "destroy", "state"):
        setattr(provider, name, _fickle(getattr(provider, name), weather))


def _failing(opening: Opening, weather: Weather, kind: type[Exception]) -> Opening:
    @contextmanager
    def failing(*words: Any, **named: Any) -> Generator[Any]:
        fault = weather.fault()
        if fault is Fault.BEFORE:
            raise kind("the weather")
        with opening(*words, **named) as opened:
            yield opened
            if fault is Fault.UNDONE:
                raise kind("the weather")
        if fault is Fault.UNTOLD:
            raise kind("the weather")

    return failing


def _fickle(call: Callable[..., Any], weather: Weather) -> Callable[..., Any]:
    def fickle(*words: Any, **named: Any) -> Any:
        fault = weather.fault()
        if fault in {Fault.BEFORE, Fault.UNDONE}:
            raise CustodyUnavailable("the weather")
        answer = call(*words, **named)
        if fault is Fault.UNTOLD:
            raise CustodyUnavailable("the weather")
        return answer

    return fickle
