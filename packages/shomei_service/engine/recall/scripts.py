"""Which characters make a word, in which script. RECALL.md §3.

Character classes are written for use inside a regular expression's brackets.
"""

import re
import unicodedata
from functools import cache
from typing import Final

# Scripts written without spaces between words: their runs are cut into single characters and pairs.
UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0edf"  # Lao
    "\u1000-\u109f"  # Myanmar
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"  # Hangul: spaced, but agglutinative
    "\u1780-\u17d3"  # Khmer
    "\u3005-\u3007\u3021-\u3029"  # ideographic marks and numerals
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Kana
    "\u3105-\u312f"  # Bopomofo
    "\u2e80-\u2fdf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
)
# What models make about a token a character of, as they do of three plain letters: scripts, pictures, marks,
# accents, controls. Data that is no text is full of these.
_HEAVY: Final = "\u0000-\u001f!-/:-@\\[-`{-\u024f\u0e00-\u1dff\u2070-\U0010ffff"
_HEAVY_WEIGHT: Final = 3
HIRAGANA: Final = "\u3041-\u309f"
# Pictures people search for: arrows, symbols, dingbats, emoji without the skin tones.
PICTURES: Final = "\u2190-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
# Invisible characters that may stand inside a word: soft hyphen, joiners, direction marks.
_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
)
_TATWEEL: Final = "\u0640"

# UAX #15 §13: the Stream-Safe Text Format holds at most 30 marks in a row. Longer runs make normalisation
# quadratic, because it sorts them by insertion.
_MARKS_IN_A_ROW: Final = 30
# All marks but the variation selectors' supplement lie below.
_LAST_MARK: Final = 0x1FFFF

# Letters that carry a stroke or are joined have no decomposition to drop.
_UNDECOMPOSED: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
)


@cache
def marks() -> str:
    """Return the class of combining marks, which `\\w` leaves out."""
    ranges: list[list[int]] = []
    for point in range(0x300, _LAST_MARK):
        if unicodedata.category(chr(point)).startswith("M"):
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@cache
def _long_run() -> re.Pattern[str]:
    return re.compile(f"([{marks()}]{{{_MARKS_IN_A_ROW}}})[{marks()}]++")


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(f"[{_INVISIBLE}{_TATWEEL}]++")


@cache
def _heavy() -> re.Pattern[str]:
    return re.compile(f"[{_HEAVY}]")


def weight(text: str) -> int:
    """Return how much a model has to read: about three or four to a token."""
    return len(text) + (_HEAVY_WEIGHT - 1) * len(_heavy().findall(text))


def beginning(text: str, limit: int) -> str:
    """Return as much of a text's beginning as weighs no more than the limit."""
    piece = text[:limit]
    extra = 0
    for found in _heavy().finditer(piece):
        if found.start() + extra + _HEAVY_WEIGHT > limit:
            return piece[: min(found.start(), limit - extra)]
        extra += _HEAVY_WEIGHT - 1
    return piece[: limit - extra]


def stream_safe(text: str) -> str:
    """Cut runs of combining marks to thirty, so that normalising takes linear time. UAX #15 §13."""
    return text if text.isascii() else _long_run().sub(r"\1", text)


def fold(text: str) -> str:
    """Return text in the one form in which words are compared: NFKC, case folded, nothing invisible."""
    if text.isascii():
        return text.lower()
    visible = _unseen().sub("", text)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", stream_safe(visible)).casefold())


def bare(word: str) -> str:
    """Return a folded word without its accents."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word.translate(_UNDECOMPOSED))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
