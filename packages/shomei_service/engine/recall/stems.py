"""Stems: one form for a word's inflections. RECALL.md §3.

Latin script has one stemmer for all its languages: a short query does not show its language, and a stem that
depends on it would miss the memory. English stems first, then the endings that German, Dutch, Romance and
Nordic words have in common fall off; measured equal to choosing a stemmer by language.
"""

import re
from functools import cache
from typing import Final, Protocol, cast

import Stemmer

from .scripts import bare

_LATIN: Final = "english"
_ENDING: Final = re.compile(r"(?<=...)(?:ern|em|en|er|es|os|as|e|n|s|a|o|i)$")
# First and last code point of a script, and who stems it.
_SCRIPTS: Final = (
    (0x0041, 0x024F, _LATIN),
    (0x1E00, 0x1EFF, _LATIN),
    (0x0370, 0x03FF, "greek"),
    (0x1F00, 0x1FFF, "greek"),
    (0x0400, 0x052F, "russian"),
    (0x0530, 0x058F, "armenian"),
    (0x0600, 0x06FF, "arabic"),
    (0x0900, 0x097F, "hindi"),
    (0x0B80, 0x0BFF, "tamil"),
)
# Scripts whose marks are vowels, not accents.
_VOWEL_MARKS: Final = (0x0900, 0x0DFF)


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802  (PyStemmer's name)


@cache
def _stemmer(language: str) -> _Stemmer:
    # No cache of words inside the stemmer: it would outlive an erase.
    return cast("_Stemmer", Stemmer.Stemmer(language, 0))  # pyright: ignore[reportUnknownMemberType]


def _language(word: str) -> str | None:
    point = ord(word[0])
    return next((language for first, last, language in _SCRIPTS if first <= point <= last), None)


def stem(word: str) -> str:
    """Return the stem of a folded word, without accents; a word of an unknown script is its own stem."""
    if word.isdecimal():
        return word
    language = _language(word)
    if language is None:
        root = word
    elif language == _LATIN:
        return _ENDING.sub("", bare(_stemmer(language).stemWord(word)))
    else:
        root = _stemmer(language).stemWord(word)
    return root if _VOWEL_MARKS[0] <= ord(word[0]) <= _VOWEL_MARKS[1] else bare(root)
