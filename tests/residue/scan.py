"""Find planted words in every file below a folder, with what `shomei scan` looks with. I-14."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shomei_service.proof.residue import scan
from shomei_service.proof.spellings import Needle

_STEM: Final = 12  # what stemming may leave of a marker, in characters


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a word was seen, and in which form."""

    file: str
    word: str
    form: str


def sightings(folders: Iterable[Path], words: Iterable[str]) -> list[Sighting]:
    """Return every place below the folders where one of the words is written in any form."""
    wanted = list(words)
    done = scan(folders, [Needle.word(number, word[:_STEM]) for number, word in enumerate(wanted)])
    assert done.unread == []
    return [Sighting(one.file.name, wanted[one.needle], one.spelling) for one in done.seen]


def forms(word: str) -> dict[str, frozenset[bytes]]:
    """Return how a word may lie on a disk; a long spelling by its halves."""
    return dict(Needle.word(0, word).spellings)
