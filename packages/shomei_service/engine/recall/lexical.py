"""Words: what a text is indexed and searched under. RECALL.md §3.

A term is a stem, a pair of characters in scripts without spaces, or a picture. A weak term, marked by `WEAK`,
is a looser form of one (a stem's beginning, a single character): it finds, but counts for less.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Final

from . import scripts
from .stems import stem
from .stopwords import language_of, languages_of

WEAK: Final = "~"
# One byte in the stored form; beyond it BM25's k1 has long flattened the curve.
HIGHEST_COUNT: Final = 255
# Nobody types more of one word; longer runs are encoded data.
_WORD_CHARACTERS: Final = 64
# Inflected, compounded and misspelt forms of one word mostly share this much of its beginning.
_BEGINNING: Final = 4


def analyse(text: str) -> Counter[str]:
    """Return how often each term occurs in the text; equal texts give equal terms, in linear time."""
    words, terms = _split(scripts.fold(text))
    terms.update(_word_terms(_weighty(words)))
    if not terms:
        # Nothing but punctuation: its characters are all there is to find it by.
        terms.update(WEAK + sign for sign in text if not sign.isspace() and not "\ud800" <= sign <= "\udfff")
    return Counter({term: min(count, HIGHEST_COUNT) for term, count in terms.items()})


@cache
def _pattern() -> re.Pattern[str]:
    unspaced, marks = scripts.UNSPACED, scripts.marks()
    word = rf"(?:[^\W_{unspaced}]++[{marks}]*+)++"
    return re.compile(
        rf"(?P<run>[{unspaced}](?:[{unspaced}{marks}])*+)|(?P<word>{word})|[{scripts.PICTURES}]"
    )


@cache
def _without_sound() -> re.Pattern[str]:
    return re.compile(f"[^{scripts.HIRAGANA}{scripts.marks()}]")


def _split(folded: str) -> tuple[list[str], Counter[str]]:
    """Part a folded text into words that have a stem and the terms of all else."""
    if folded.isascii():
        return re.findall(r"[a-z0-9]+", folded), Counter()
    words: list[str] = []
    terms: Counter[str] = Counter()
    for found in _pattern().finditer(folded):
        if found.lastgroup == "word":
            words.append(found.group())
        elif found.lastgroup == "run":
            terms.update(_run_terms(found.group()))
        else:
            terms[found.group()] += 1
    return words, terms


def _run_terms(run: str) -> Iterator[str]:
    """Yield the pairs of a run, and its single characters as weak terms; hiragana alone says too little."""
    if len(run) == 1:
        yield WEAK + run
        return
    for first, second in pairwise(run):
        yield first + second
    for character in _without_sound().findall(run):
        yield WEAK + character


def _weighty(words: list[str]) -> list[str]:
    """Drop the stop words of the text's language, unless there is nothing else."""
    language = language_of(words)
    stop = languages_of()
    return [word for word in words if language not in stop.get(word, ())] or words


def _word_terms(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        root = stem(word[:_WORD_CHARACTERS])
        yield root
        if len(root) >= _BEGINNING:
            yield WEAK + root[:_BEGINNING]
