"""Passages and quotes: where in a memory the matter lies. RECALL.md §1, §5.

All offsets are code points into the text as it is stored; nothing here changes a character of it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .lexical import analyse
from .scripts import beginning, weight

# What one vector can hold: the models read about 500 tokens, and blur beyond.
PASSAGE_WEIGHT: Final = 2000
_SENTENCE_WEIGHT: Final = 400
# Shorter pieces are abbreviations, list numbers or exclamations that belong to what follows.
_LEAST_SENTENCE: Final = 25
# A sentence outside the passage that matched must hold this much more of the query.
_PASSAGE_BONUS: Final = 0.5
# A run of stops is looked at once, from its first: a page of dots takes linear time.
_SENTENCE_END: Final = re.compile(
    r"(?<![.!?…])[.!?…]++[\"')\]»”’]*+(?=\s)|[。！？｡؟۔।]++[」』）”]*+|[\r\n\v\f\u0085\u2028\u2029]++"
)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a text, in code points."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Quote:
    """The verbatim words at a place in a memory."""

    text: str
    start: int
    end: int


def split_passages(text: str, limit: int = PASSAGE_WEIGHT) -> list[Span]:
    """Return the passages of a text, whole sentences where they fit; together they leave out only space."""
    return _trimmed(text, _gathered(text, limit))


def split_sentences(text: str) -> list[Span]:
    """Return the sentences of a text, long ones in pieces; together they leave out only space."""
    return _trimmed(text, _sentences(text, _SENTENCE_WEIGHT))


def _gathered(text: str, limit: int) -> Iterator[Span]:
    """Join neighbouring sentences as long as they weigh no more than the limit."""
    start, end, gathered = 0, 0, 0
    for piece in _sentences(text, limit):
        load = weight(text[piece.start : piece.end])
        if gathered and gathered + load > limit:
            yield Span(start, end)
            start, gathered = piece.start, 0
        end, gathered = piece.end, gathered + load
    if gathered:
        yield Span(start, end)


def _sentences(text: str, limit: int) -> Iterator[Span]:
    """Yield adjoining pieces that end where sentences do, none heavier than the limit."""
    start = 0
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    for end in (*ends, len(text)):
        if end == len(text) or weight(text[start:end]) >= _LEAST_SENTENCE:
            yield from _cut(text, Span(start, end), limit)
            start = end


def _cut(text: str, span: Span, limit: int) -> Iterator[Span]:
    """Yield a span in pieces of at most the limit, cut at spaces where there are any."""
    start = span.start
    while start < span.end:
        piece = beginning(text[start : min(start + limit, span.end)], limit)
        end = start + len(piece)
        if end < span.end:
            end = start + (piece.rfind(" ", len(piece) // 2) + 1 or len(piece))
        yield Span(start, end)
        start = end


def _trimmed(text: str, spans: Iterable[Span]) -> list[Span]:
    """Take the space off both ends of each span; drop what is nothing else."""
    trimmed: list[Span] = []
    for span in spans:
        piece = text[span.start : span.end]
        start = span.start + len(piece) - len(piece.lstrip())
        if kept := len(piece.strip()):
            trimmed.append(Span(start, start + kept))
    return trimmed


def quote(text: str, weights: Mapping[str, float], span: Span | None = None) -> Quote:
    """Return the sentence that holds most of the query's weight, preferring the passage that matched.

    `weights` are the query's terms, as analysed or as weighed by the index. Without a shared term the
    passage itself is the quote, or the memory's first.
    """
    passage = span or next(iter(split_passages(text)), Span(0, len(text)))
    sentences = split_sentences(text)
    best = passage
    if len(sentences) > 1:
        worths = [_worth(text, weights, sentence, span) for sentence in sentences]
        if max(worths) > 0:
            best = sentences[worths.index(max(worths))]
    return Quote(text[best.start : best.end], best.start, best.end)


def _worth(text: str, weights: Mapping[str, float], sentence: Span, passage: Span | None) -> float:
    """Return the share of the query in a sentence, and the bonus of the passage; nothing without a share."""
    terms = analyse(text[sentence.start : sentence.end])
    shared = sum(worth for term, worth in weights.items() if term in terms)
    if not shared:
        return 0.0
    matched = passage is not None and passage.start <= sentence.start < passage.end
    return shared / sum(weights.values()) + (_PASSAGE_BONUS if matched else 0.0)
