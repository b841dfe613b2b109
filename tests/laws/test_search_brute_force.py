"""Search equals brute force over what is recallable, after any number of transitions. RELIABILITY T-43.

Two workers share one database. After a step either of them is asked, and its answer is worked out again from
the formula, one row at a time, over exactly those memories that the model says are recallable: what is
hidden or gone shows neither in the list nor in a score.
"""

import json
import math
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shomei_service.engine.indexes import Indexes, Keep
from shomei_service.engine.model import ConsentAction, Ground, LawfulBasis, NewMemory
from shomei_service.engine.recall import RowFeatures, analyse, vectors_of
from shomei_service.engine.shared_embedder import SharedEmbedder
from shomei_service.engine.upkeep import embed_pending, upkeep
from shomei_service.engine.verbs import update as updating
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.search import search
from tests.engine.recall.oracle import Oracle, SmallModel
from tests.engine.verbs.side_by_side import PURPOSES, SUBJECTS, Answer, Beside, Running, in_memory
from tests.fakes import House
from tests.model import DAY, Outcome, World

RESULT = Path(__file__).with_name("deep-search-result.json")
FAST, DEEP = 2_000, 10_000
CHECK_EVERY = 3
MOST = 60  # memories: beyond that, more are erased than added
WORDS = [
    *("kettle", "train", "basel", "ticket", "purple", "dentist", "morning", "garden", "invoice", "anna"),
    *(
        "tea",
        "coffee",
        "piano",
        "lisbon",
        "harbour",
        "猫耳",
        "火车票",
        "รถไฟ",
        "café",
        "müller",
        "Ελένη",
        "почта",
    ),
]
GROUNDS = [Ground.REQUEST, Ground.LEGAL_CLAIMS, Ground.SECURITY_QUARANTINE]


class WordEmbedder:
    """A model small enough to compare by hand: a text points where its words point together."""

    model_id, dimensions = "small", 8
    cosine_low, cosine_high, semantic_share = 0.1, 0.8, 0.4

    def passages(self, texts: list[str]) -> np.ndarray:
        return np.array([self.query(text) for text in texts], dtype=np.float32).reshape(len(texts), 8)

    def query(self, text: str) -> np.ndarray:
        seeds = [int.from_bytes(blake2b(word.encode(), digest_size=4).digest()) for word in text.split()]
        total = sum((np.random.default_rng(seed).standard_normal(8) for seed in seeds), np.zeros(8))
        return (total / np.linalg.norm(total)).astype(np.float32)

    def self_test(self) -> None:
        pass


MODEL = WordEmbedder()


def equip(engine: Any) -> None:
    """Give an engine the small model."""
    engine.embedder = SharedEmbedder(MODEL)
    engine.indexes = Indexes(engine.store, engine.rows, MODEL, Keep())


class Worded(Beside):
    """A tenant whose memories say something of their own."""

    def __init__(self, running: Running, chance: random.Random) -> None:
        self.texts: dict[str, str] = {}
        self.chance = chance
        super().__init__(running)

    def phrase(self) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, 7)))

    def add(
        self,
        subject: str | None = None,
        *,
        basis: LawfulBasis = LawfulBasis.NOT_RECORDED,
        purposes: tuple[str, ...] = (),
        expires_at: int | None = None,
        sources: tuple[str, ...] = (),
    ) -> Outcome:
        text = self.phrase()
        new = NewMemory(
            text,
            subject,
            lawful_basis=basis,
            purposes=purposes,
            expires_at=expires_at,
            derived_from=sources,
        )

        def call() -> Answer:
            memory_id = add(self.engine(), self.data, new).memory_id
            self.texts[memory_id] = text
            return {"memory_id": memory_id}

        return self.ask(
            call,
            lambda fresh: self.world.add(
                fresh, subject, basis=basis, purposes=purposes, expires_at=expires_at, sources=sources
            ),
            "memory_id",
        )

    def update(self, memory_id: str) -> Outcome:
        text = self.phrase()

        def call() -> Answer:
            done = updating.update(self.engine(), self.admin, memory_id, text)
            self.texts[done.memory_id] = text
            return {"memory_id": done.memory_id, "previous_id": done.previous_id}

        return self.ask(call, lambda fresh: self.world.update(memory_id, fresh), "memory_id")

    def expected(self) -> Oracle:
        """Return every recallable memory, with vectors where the database says that they are made."""
        oracle = Oracle(SmallModel())
        made = {row["memory_id"]: row["embedded"] for row in self._rows("SELECT * FROM memories")}
        for memory_id in self.world.recallable():
            text = self.texts[memory_id]
            vectors = vectors_of(MODEL, text) if made[memory_id] else None
            subject = self.world.memories[memory_id].subject
            oracle.add(memory_id, subject, RowFeatures(analyse(text), vectors))
        return oracle


class Pair:
    """Two workers on one database; the second one only ever searches."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self._second = ExitStack()

    def open(self) -> None:
        """Open the second one beside the first."""
        equip(self.running.engine)
        self.second: House = self._second.enter_context(self.running.home.opened())
        self.second.engine.clock = self.running.clock
        equip(self.second.engine)

    def close(self) -> None:
        """Close the second one."""
        self._second.close()

    def restart(self) -> None:
        """End both and begin again; indexes are made anew."""
        self.close()
        self.running.close()
        self.running.open()
        self.open()


@contextmanager
def workers() -> Iterator[Pair]:
    with in_memory() as running:
        pair = Pair(running)
        pair.open()
        try:
            yield pair
        finally:
            pair.close()


class Walk:
    """A random walk through everything that changes what recall may show."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.chance = random.Random(seed)
        self.tenant = Worded(pair.running, self.chance)
        self.compared = 0

    @property
    def world(self) -> World:
        return self.tenant.world

    def subject(self) -> str:
        return self.chance.choice(SUBJECTS)

    def memory(self) -> str:
        """Return a memory, mostly one that lives."""
        living = [one.memory_id for one in self.world.memories.values() if one.life == "live"]
        pool = living if living and self.chance.random() < 0.95 else [*self.world.memories]
        return self.chance.choice(pool or ["lm_" + "f" * 32])

    def step(self) -> None:
        """Do one thing."""
        is_crowded = sum(one.life == "live" for one in self.world.memories.values()) > MOST
        acts = {
            self.add: 2 if is_crowded else 14,
            self.derive: 3,
            self.update: 6,
            self.erase: 12 if is_crowded else 4,
            self.forget: 2 if is_crowded else 0.3,
            self.restrict: 8,
            self.lift: 7,
            self.hold: 2,
            self.release: 4,
            self.consent: 5,
            self.embed: 10,
            self.wait: 2,
            self.restart: 0.3,
        }
        self.chance.choices([*acts], [*acts.values()])[0]()

    def add(self) -> None:
        basis = self.chance.choice([LawfulBasis.CONSENT, LawfulBasis.CONTRACT])
        expires = self.pair.running.clock.at + 20 * DAY if self.chance.random() < 0.2 else None
        purposes = tuple(self.chance.sample(PURPOSES, self.chance.randint(1, 2)))
        self.tenant.add(self.subject(), basis=basis, purposes=purposes, expires_at=expires)

    def derive(self) -> None:
        self.tenant.add(None, sources=(self.memory(),))

    def update(self) -> None:
        self.tenant.update(self.memory())

    def erase(self) -> None:
        self.tenant.erase(self.memory(), cascade=self.chance.random() < 0.2)

    def forget(self) -> None:
        self.tenant.forget(self.subject())

    def restrict(self) -> None:
        self.tenant.restrict(self.memory(), self.chance.choice(GROUNDS))

    def lift(self) -> None:
        self.tenant.lift(self.memory())

    def hold(self) -> None:
        self.tenant.place(memory_id=self.memory())

    def release(self) -> None:
        held = [one.hold_id for one in self.world.holds.values() if one.is_open]
        self.tenant.release(self.chance.choice(held or ["hold_" + "0" * 32]))

    def consent(self) -> None:
        action = self.chance.choice([ConsentAction.GRANTED, ConsentAction.WITHDRAWN])
        self.tenant.consent(self.subject(), self.chance.choice(PURPOSES), action)

    def embed(self) -> None:
        embed_pending(self.pair.running.engine, self.chance.randint(1, 20))

    def wait(self) -> None:
        self.tenant.wait(self.chance.choice([60, DAY]))
        upkeep(self.pair.running.engine)
        self.world.tick()
        self.tenant.new_receipts()

    def restart(self) -> None:
        self.pair.restart()
        self.world.restart()
        self.tenant.new_receipts()

    def compare(self) -> None:
        """Ask one of the workers, and work the answer out again."""
        engine = self.chance.choice([self.pair.running.engine, self.pair.second.engine])
        query = self.tenant.phrase()
        subject = self.chance.choice([None, None, *SUBJECTS])
        limit = self.chance.choice([1, 5, 10, 100])
        floor = self.chance.choice([0.0, 0.0, 0.3])
        found = search(engine, self.tenant.data, query, user_id=subject, limit=limit, min_score=floor).results
        oracle = self.tenant.expected()
        wanted = oracle.search(analyse(query), MODEL.query(query), limit=limit, subject=subject, floor=floor)
        assert [one.memory.memory_id for one in found] == [hit.memory_id for hit in wanted]
        for one, hit in zip(found, wanted, strict=True):
            assert math.isclose(one.score, hit.score, abs_tol=1e-12)
            assert math.isclose(one.lexical, hit.lexical, abs_tol=1e-12)
            assert one.memory.content.text == self.tenant.texts[one.memory.memory_id]
        self.compared += 1


def test_search_equals_brute_force(request: pytest.FixtureRequest) -> None:
    """2,000 transitions by default; with --deep 10,000, and the result is written down."""
    is_deep = bool(request.config.getoption("--deep", default=False))
    steps, began, seed = DEEP if is_deep else FAST, time.monotonic(), 43
    with workers() as pair:
        walk = Walk(pair, seed)
        for number in range(steps):
            walk.step()
            if number % CHECK_EVERY == 0 or number == steps - 1:
                walk.compare()
        if is_deep:
            write_down(walk, steps, seed, time.monotonic() - began)
        assert walk.compared >= steps // CHECK_EVERY
        assert pair.second.engine.indexes.octets > 0


def write_down(walk: Walk, steps: int, seed: int, seconds: float) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    result = {
        "test": "tests/laws/test_search_brute_force.py",
        "commit": head.stdout.strip(),
        "passed": True,
        "transitions": steps,
        "searches_compared": walk.compared,
        "memories": len(walk.world.memories),
        "seed": seed,
        "seconds": round(seconds),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
