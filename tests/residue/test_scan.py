"""The control of every scan: a word that was written down is found, whatever form it took."""

import base64
import gzip
import json
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.residue.markers import CYRILLIC, LATIN
from tests.residue.scan import sightings

WRITTEN: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "upper case": lambda word: word.upper().encode(),
    "utf-16 little": lambda word: word.encode("utf-16-le"),
    "utf-16 big": lambda word: word.encode("utf-16-be"),
    "hex": lambda word: word.encode().hex().encode(),
    "upper hex": lambda word: word.encode().hex().upper().encode(),
    "base64": lambda word: base64.b64encode(word.encode()),
    "base64 after one": lambda word: base64.b64encode(b"x" + word.encode() + b"yy"),
    "base64 after two": lambda word: base64.b64encode(b"xx" + word.encode() + b"y"),
    "base64 of utf-16": lambda word: base64.b64encode(word.encode("utf-16-le")),
    "urlsafe base64": lambda word: base64.urlsafe_b64encode(b"\xff\xfe" + word.encode()),
    "json escapes": lambda word: json.dumps({"text": word}).encode(),
    "percent": lambda word: quote(word).encode(),
    "zlib": lambda word: zlib.compress(word.encode() * 3),
    "zlib, fast": lambda word: zlib.compress(word.encode(), 1),
    "gzip": lambda word: gzip.compress(json.dumps(word).encode()),
}


@pytest.mark.parametrize("word", [LATIN, CYRILLIC])
@pytest.mark.parametrize("form", WRITTEN)
def test_a_word_in_any_form_is_found(tmp_path: Path, form: str, word: str) -> None:
    noise = bytes(range(256)) * 20
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(noise + WRITTEN[form](word) + noise)
    assert {one.word for one in sightings([tmp_path], [word, "neverwrittenanywhere"])} == {word}


def test_a_stem_of_the_word_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CYRILLIC[:-3].encode())
    assert sightings([tmp_path], [CYRILLIC])


def test_noise_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 999)
    assert sightings([tmp_path], [LATIN, CYRILLIC]) == []


def test_a_database_that_only_deletes_is_caught(tmp_path: Path) -> None:
    """What an ordinary store leaves behind after its DELETE has been answered."""
    with closing(sqlite3.connect(tmp_path / "plain.db")) as plain:
        plain.execute("PRAGMA journal_mode=WAL")
        plain.execute("CREATE TABLE memories (text)")
        plain.execute("INSERT INTO memories VALUES (?)", [LATIN])
        plain.commit()
        plain.execute("DELETE FROM memories")
        plain.commit()
        assert plain.execute("SELECT * FROM memories").fetchall() == []
        assert {one.file for one in sightings([tmp_path], [LATIN])} == {"plain.db-wal"}
