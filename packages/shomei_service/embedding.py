"""Embedders in programs of their own, at the other end of a pipe. RECALL.md §1, PERFORMANCE.md.

A model computes for up to a second without letting go of its core, and a fault in it would end whoever it
runs in. So it runs beside the service: one program for queries, one of low priority for passages. A program
starts when first asked, ends with the service, and is replaced when it dies or keeps silent.
"""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import IO, Final, NamedTuple, Protocol, cast

import numpy as np

from . import embedding_child
from .embedding_child import FAILED, HEAD, OK, PASSAGE, QUERY
from .engine.errors import StartRefused
from .engine.recall.embedder import Embedder, build_embedder, readable
from .engine.recall.errors import EmbedderFault
from .engine.recall.features import Floats
from .engine.recall.remote import RemoteEmbedder, RemoteModel
from .settings import Settings

_START_S: Final = 60.0
_QUERY_S: Final = 2.5  # as long as it may have been waited for: RELIABILITY.md §6 allows five in all
_PASSAGE_S: Final = 300.0  # of low priority on a busy machine
_PAUSE_S: Final = 5.0  # after a program that did not start
_LOW_PRIORITY: Final = 19
_TRIES: Final = 2
_HARMLESS: Final = "ready"


class Closable(Embedder, Protocol):
    """An embedder that runs something, or keeps it open."""

    def close(self) -> None:
        """End that; it begins again when asked."""
        ...


class Pair(NamedTuple):
    """The embedder for queries and the one for passages."""

    queries: Closable
    passages: Closable


def build_pair(settings: Settings) -> Pair | None:
    """Return the embedders that the settings name, not started yet, or None for `none`.

    Raises StartRefused for one that is unknown, not installed or not allowed: it never becomes another.
    """
    try:
        if "://" in settings.embedder:
            model = _remote(settings)
            return Pair(RemoteEmbedder(model, attempts=1, timeout=_QUERY_S), RemoteEmbedder(model))
        if build_embedder(settings.embedder) is None:
            return None
        return Pair(
            ChildEmbedder(settings.embedder), ChildEmbedder(settings.embedder, priority=_LOW_PRIORITY)
        )
    except EmbedderFault as fault:
        raise StartRefused(
            "the embedder in SHOMEI_EMBEDDER is unknown, not installed or not allowed"
        ) from fault


@contextmanager
def built(settings: Settings) -> Generator[Pair | None]:
    """Yield what `build_pair` returns; at the end, end what the embedders run or keep open."""
    pair = build_pair(settings)
    try:
        yield pair
    finally:
        for embedder in pair or ():
            embedder.close()


def _remote(settings: Settings) -> RemoteModel:
    key = settings.embedder_key
    if key is None or not settings.embedder_model or not settings.embedder_dimensions:
        raise StartRefused(
            "an embedder elsewhere needs SHOMEI_EMBEDDER_KEY, SHOMEI_EMBEDDER_MODEL and "
            "SHOMEI_EMBEDDER_DIMENSIONS"
        )
    return RemoteModel(
        url=settings.embedder,
        model=settings.embedder_model,
        key=key.get_secret_value(),
        dimensions=settings.embedder_dimensions,
        allowed_hosts=frozenset(settings.embedder_hosts.split(",")),
    )


class ChildEmbedder:
    """An embedder whose model is in a program of its own. One thread at a time may use it."""

    def __init__(self, name: str, *, priority: int = 0) -> None:
        """Raise EmbedderFault for a name that is unknown or a package that is not installed."""
        model = build_embedder(name)
        if model is None:
            raise EmbedderFault("no embedder has that name")
        self.model_id: str = model.model_id
        self.dimensions: int = model.dimensions
        self.cosine_low: float = model.cosine_low
        self.cosine_high: float = model.cosine_high
        self.semantic_share: float = model.semantic_share
        self._command = [sys.executable, "-P", "-m", embedding_child.__name__, name, str(priority)]
        self._child: subprocess.Popen[bytes] | None = None
        self._failed_at = -_PAUSE_S

    def query(self, text: str) -> Floats:
        """Return the vector of a query; raise EmbedderFault."""
        return self._ask(QUERY, text, _QUERY_S)

    def passages(self, texts: Sequence[str]) -> Floats:
        """Return a vector for each passage, one of nothing if it ends the model; raise EmbedderFault."""
        vectors = [self._passage(text) for text in texts]
        return np.array(vectors, dtype=np.float32).reshape(len(vectors), self.dimensions)

    def self_test(self) -> None:
        """Raise EmbedderFault unless the program starts, which it does with the model expected only."""
        self._started()

    def close(self) -> None:
        """End the program; it starts again when asked."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            for pipe in (child.stdin, child.stdout):
                cast("IO[bytes]", pipe).close()
            child.wait()

    def _passage(self, text: str) -> Floats:
        for _ in range(_TRIES):
            try:
                return self._ask(PASSAGE, text, _PASSAGE_S)
            except _Ended:
                self._ask(PASSAGE, _HARMLESS, _PASSAGE_S)  # or it is not the text that ends it
        # Near to nothing: the memory is found by its words, and keeps no other one from its turn.
        return np.zeros(self.dimensions, dtype=np.float32)

    def _ask(self, kind: int, text: str, patience: float) -> Floats:
        child = self._started()
        told = readable(text).encode()
        answer = b""
        try:
            cast("IO[bytes]", child.stdin).write(HEAD.pack(kind, len(told)) + told)
            status, answer = _answer(cast("IO[bytes]", child.stdout), patience)
        except OSError as failure:
            self.close()
            raise _Ended("the embedder ended") from failure
        except EmbedderFault:
            self.close()
            raise
        if status != OK or len(answer) != self.dimensions * 4:
            raise EmbedderFault("the embedder could not read the text")
        return np.frombuffer(answer, "<f4")

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        if time.monotonic() - self._failed_at < _PAUSE_S:
            raise EmbedderFault("the embedder did not start")
        # In a group of its own, so that an interrupt at the terminal is the service's to answer.
        self._child = subprocess.Popen(  # noqa: S603  (our own program, by its full path)
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            process_group=0,
        )
        try:
            status, _ = _answer(cast("IO[bytes]", self._child.stdout), _START_S)
        except (EmbedderFault, OSError):
            status = FAILED
        if status != OK:
            self._failed_at = time.monotonic()
            self.close()
            raise EmbedderFault("the embedder did not start")
        return self._child


class _Ended(EmbedderFault):
    """The program ended while it was asked."""


def _answer(pipe: IO[bytes], patience: float) -> tuple[int, bytes]:
    """Read one frame; raise EmbedderFault when it does not come in time, OSError when the pipe ends."""
    deadline = time.monotonic() + patience
    status, size = HEAD.unpack(_exactly(pipe, HEAD.size, deadline))
    return status, _exactly(pipe, size, deadline)


def _exactly(pipe: IO[bytes], size: int, deadline: float) -> bytes:
    read = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(read) < size:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise EmbedderFault("the embedder keeps silent")
            piece = os.read(pipe.fileno(), size - len(read))
            if not piece:
                raise BrokenPipeError
            read += piece
    return bytes(read)
