"""`shomei scan`: what it sees, what it says of it, and that it never says the word."""

import gzip
import io
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shomei_service.cli.main import main
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.erase import erase
from shomei_service.proof import residue
from shomei_service.proof.residue import scan
from shomei_service.proof.spellings import Needle
from tests.crash.test_restore import back_up
from tests.fakes import new_home
from tests.residue.markers import CYRILLIC, LATIN

OTHER = "neverwrittenanywhere"


@pytest.fixture
def needles(tmp_path: Path) -> Path:
    """A file with three needles, the second of which is nowhere."""
    file = tmp_path / "needles"
    file.write_text(f"{LATIN}\n{OTHER}\n\n{CYRILLIC}\n")
    return file


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with two files that say something and one that does not."""
    place = tmp_path / "place"
    (place / "below").mkdir(parents=True)
    (place / "log").write_text(f"a line with {LATIN} in it")
    (place / "below" / "packed.gz").write_bytes(gzip.compress(CYRILLIC.encode()))
    (place / "noise").write_bytes(bytes(range(256)) * 99)
    return place


def test_it_says_where_and_never_what(place: Path, needles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(place), "--needle", str(needles)]) == 1
    said = capsys.readouterr()
    assert f"needle 1  spelling utf-8  offset 12  file {place / 'log'}" in said.out
    assert f"needle 4  spelling compressed utf-8  offset 0  file {place / 'below' / 'packed.gz'}" in said.out
    assert said.err == "shomei: what was looked for is there, or not everything could be read\n"
    for word in (LATIN, OTHER, CYRILLIC):
        assert word not in said.out + said.err


def test_it_says_so_as_one_object(place: Path, needles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "scan", str(place), "--needle", str(needles)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["files"], told["needles"], told["not_read"]) == (3, 3, [])
    assert {(one["needle"], Path(one["file"]).name) for one in told["sightings"]} == {
        (1, "log"),
        (4, "packed.gz"),
    }
    assert told["found"] == len(told["sightings"])


def test_nothing_is_found_where_nothing_is(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(OTHER + "\n"))
    assert main(["scan", str(place), "--needle", "-"]) == 0
    assert "found: 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is no needle in the file"),
        ("short\n", "a needle has at least 8 bytes, or noise would be found"),
        (None, "the needles are not in a readable file of UTF-8 text"),
    ],
)
def test_a_needle_that_is_none_is_refused(
    place: Path, tmp_path: Path, text: str | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "needles"
    file.write_bytes(b"\xff\xfe\xfd" if text is None else text.encode())
    assert main(["scan", str(place), "--needle", str(file)]) == 1
    assert capsys.readouterr().err == f"shomei: {sentence}\n"


def test_nothing_to_look_at_is_not_nothing_found(
    tmp_path: Path, needles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["scan", str(tmp_path / "empty"), "--needle", str(needles)]) == 1
    assert main(["scan", str(tmp_path / "not there"), "--needle", str(needles)]) == 1
    assert "there is no file at any of these places" in capsys.readouterr().err


def test_a_file_that_can_not_be_read_is_named(
    place: Path, needles: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needles.write_text(OTHER)
    genuine = Path.open

    def refuse(path: Path, mode: str = "r", **named: str) -> object:
        if path.name == "log":
            raise PermissionError
        return genuine(path, mode, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    assert main(["scan", str(place), "--needle", str(needles)]) == 1
    assert f"file {place / 'log'}" in capsys.readouterr().out


def test_links_are_not_followed_and_devices_not_read(tmp_path: Path, needles: Path) -> None:
    place = tmp_path / "links"
    place.mkdir()
    (place / "away").symlink_to(needles)
    (place / "round").symlink_to(place)
    os.mkfifo(place / "pipe")
    (place / "file").write_text("nothing")
    done = scan([place], [Needle.word(1, LATIN)])
    assert (done.files, done.seen, done.unread) == (1, [], [])


def test_a_scan_that_does_not_see_its_own_control_says_nothing(
    place: Path, needles: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(residue, "_inflated", lambda *_: iter(()))  # an eye for everything but what is packed
    assert main(["scan", str(place), "--needle", str(needles)]) == 1
    said = capsys.readouterr()
    assert said.err == "shomei: the scan did not see what it had planted itself, so it says nothing\n"
    assert "found" not in said.out


def test_a_word_torn_by_the_end_of_a_page_is_seen(tmp_path: Path) -> None:
    """SQLite goes on in another page wherever the first one is full, in the middle of a word too."""
    word = "zqcanarytornintwobyapage"
    torn = 0
    for before in range(780, 830, 2):  # around the end of what SQLite keeps of 9,000 bytes in the first page
        file = tmp_path / f"{before}.db"
        with closing(sqlite3.connect(file)) as plain:
            plain.execute("CREATE TABLE memories (text)")
            plain.execute("INSERT INTO memories VALUES (?)", [("." * before + word).ljust(9000, ".")])
            plain.commit()
        torn += word.encode() not in file.read_bytes()
        assert scan([file], [Needle.word(1, word)]).seen
    assert torn >= 3, "the control: some of them are torn"


def test_a_word_across_two_readings_is_seen(tmp_path: Path) -> None:
    for spelt in (LATIN.encode(), LATIN.encode("utf-32-le"), gzip.compress(LATIN.encode() * 3)):
        for shift in (1, len(spelt) // 2, len(spelt) - 1):
            file = tmp_path / f"{len(spelt)}.{shift}"
            file.write_bytes(bytes(residue._CHUNK - shift) + spelt + bytes(99))
            assert scan([file], [Needle.word(1, LATIN)]).seen


def test_a_damaged_stream_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = gzip.compress(LATIN.encode() + os.urandom(20_000))
    file = tmp_path / "damaged.gz"
    file.write_bytes(packed[:12_000] + bytes(100) + packed[12_100:])
    assert scan([file], [Needle.word(1, LATIN)]).seen


# The sealed bytes of erased rows: a backup from before still has them, so they can be looked for.


def test_erased_rows_are_looked_for_by_their_sealed_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = new_home(tmp_path)
    monkeypatch.setenv("SHOMEI_HOME", str(home.settings.home))
    with home.opened() as house:
        gone = house.remember("a stone " * 300, "alice")
        house.remember("a lamp")
        backup = back_up(home, tmp_path / "backup.db")
        since = ["scan", "--erased-since", str(backup)]
        assert (main(since), capsys.readouterr().out) == (1, ""), "nothing was erased yet, and that is said"
        erase(house.engine, house.admin, gone)
        assert main(since) == 1, "the control: until the log is truncated they are there"
        assert "shomei.db-wal" in capsys.readouterr().out
        upkeep(house.engine)
        assert main(since) == 0
        said = capsys.readouterr().out
        assert ("needles: 3" in said, "found: 0" in said) == (True, True)
        shutil.copy(backup, home.settings.data / "forgotten-copy.db")
        assert main(since) == 1
        assert "forgotten-copy.db" in capsys.readouterr().out
