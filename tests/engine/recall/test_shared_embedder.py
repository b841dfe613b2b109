"""Many threads at one embedder: each is served in its turn, and whoever tires holds nobody up."""

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from shomei_service.engine import shared_embedder
from shomei_service.engine.recall.embedder import EmbedderFault
from shomei_service.engine.shared_embedder import SharedEmbedder

PATIENCE_S = 60


class Slow:
    """Takes one query at a time, each when it may, and remembers them."""

    model_id, dimensions = "slow-1", 2
    cosine_low, cosine_high, semantic_share = 0.0, 1.0, 0.5

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_go_on = threading.Event()

    def query(self, text: str) -> np.ndarray:
        self.asked.append(text)
        assert self.may_go_on.wait(PATIENCE_S)
        return np.array([1, 0], dtype=np.float32)

    def passages(self, texts: list[str]) -> np.ndarray:
        return np.stack([self.query(text) for text in texts])

    def self_test(self) -> None:
        """Be fine."""


def until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def asking(shared: SharedEmbedder, slow: Slow, texts: list[str]) -> list[threading.Thread]:
    """Ask one after the other, each once the one before is at the embedder or in line for it."""
    threads: list[threading.Thread] = []
    for number, text in enumerate(texts):
        threads.append(threading.Thread(target=shared.query, args=(text,)))
        threads[-1].start()
        until(lambda wanted=number: bool(slow.asked) and len(shared._queries.line) == wanted)
    return threads


def test_queries_are_served_in_the_order_in_which_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_embedder, "_QUERY_WAIT_S", PATIENCE_S)
    slow = Slow()
    shared = SharedEmbedder(slow)
    texts = [f"question {number}" for number in range(8)]
    threads = asking(shared, slow, texts)
    slow.may_go_on.set()
    for thread in threads:
        thread.join()
    assert slow.asked == texts


def test_whoever_tires_of_waiting_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    shared = SharedEmbedder(slow)
    monkeypatch.setattr(shared_embedder, "_QUERY_WAIT_S", PATIENCE_S)
    first = asking(shared, slow, ["first"])
    monkeypatch.setattr(shared_embedder, "_QUERY_WAIT_S", 0.01)
    with pytest.raises(EmbedderFault, match="not free"):
        shared.query("tired")
    monkeypatch.setattr(shared_embedder, "_QUERY_WAIT_S", PATIENCE_S)
    last = threading.Thread(target=shared.query, args=("last",))
    last.start()
    until(lambda: len(shared._queries.line) == 1)
    slow.may_go_on.set()
    for thread in (*first, last):
        thread.join()
    assert slow.asked == ["first", "last"]
