"""Moving in: every line once, whatever is refused does not stop the others, and nothing erased returns."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from shomei_service.cli import import_files
from shomei_service.cli.import_files import Format, Skipped
from shomei_service.engine.errors import Invalid
from shomei_service.engine.model import (
    Caller,
    LawfulBasis,
    NewMemory,
    Policies,
    PostForget,
    SourceKind,
)
from shomei_service.engine.store import memories
from shomei_service.engine.verbs import access, erase, export, forget, read, update
from shomei_service.engine.verbs.importing import Fate, Line, Outcome, look, take_in
from tests.engine.verbs.office import Office
from tests.engine.verbs.side_by_side import Running

UUID = "892db2ae-06d9-49e5-8b3e-585ef9b85b8{}"


@pytest.fixture
def office(running: Running) -> Office:
    return Office.opened(running)


def write(folder: Path, name: str, *lines: object) -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return path


def read_lines(path: Path, form: Format | None = None, user_id: str | None = None) -> list[Line | Skipped]:
    return list(import_files.opened(path, form, user_id).lines)


def take(
    office: Office, path: Path, user_id: str | None = None, *, caller: Caller | None = None
) -> list[Outcome]:
    source = import_files.opened(path, None, user_id)
    lines = [one for one in source.lines if isinstance(one, Line)]
    return take_in(office.engine, caller or office.admin, source.format.value, lines)


def fates(outcomes: list[Outcome]) -> list[str]:
    return [one.fate.value for one in outcomes]


def texts(office: Office, user_id: str | None = None) -> list[str]:
    return [one.content.text for one in read.page(office.engine, office.data, user_id=user_id).memories]


def portable(office: Office, user_id: str, path: Path) -> Path:
    package = export.export(office.engine, office.admin, export.Wanted(user_id), form=export.Form.ZIP)
    path.write_bytes(b"".join(package.as_zip()))
    package.close()
    return path


# ---- Our own exports


def test_an_export_moves_to_another_tenant_with_equal_text_and_back(
    running: Running, office: Office, tmp_path: Path
) -> None:
    said = ["straße \U0001f600 مرحبا", "two\nlines\ttab", "\u0000".replace("\0", "no nul"), "x" * 60_000]
    for text in said:
        office.remember(text, "ada", metadata={"n": 2**60, "f": 1.5, "deep": [{"a": None}]})
    office.remember("for support", "ada", lawful_basis=LawfulBasis.CONTRACT, purposes=("support",))
    package = portable(office, "ada", tmp_path / "ada.zip")

    other = Office.opened(running, "elsewhere")
    assert fates(take(other, package)) == ["taken"] * 5
    assert texts(other, "ada") == texts(office, "ada")
    moved = read.page(other.engine, other.data, user_id="ada").memories
    assert moved[0].content.metadata == {"n": 2**60, "f": 1.5, "deep": [{"a": None}]}
    with other.engine.reading(other.tenant) as unit:
        row = memories.find(unit, moved[4].memory_id)
    assert row is not None
    assert (row.source_kind, row.lawful_basis) == (SourceKind.IMPORTED, LawfulBasis.CONTRACT)
    # Where it came from is on record, and it can be taken along once more.
    again = portable(other, "ada", tmp_path / "again.zip")
    with zipfile.ZipFile(again) as archive:
        told = json.loads(archive.read("export.json"))
        assert {one["origin"]["format"] for one in told["records"]} == {"jsonl"}
        assert [json.loads(line)["text"] for line in archive.read("art20/memories.jsonl").splitlines()] == [
            one["text"] for one in told["records"]
        ]
    # At home it is all there already.
    assert fates(take(office, package)) == ["already_here"] * 5
    third = Office.opened(running, "third")
    assert fates(take(third, again)) == ["taken"] * 5
    assert texts(third) == texts(office)


def test_what_was_erased_does_not_come_back(office: Office, tmp_path: Path) -> None:
    kept, gone = office.remember("kept", "ada"), office.remember("gone", "ada")
    package = portable(office, "ada", tmp_path / "ada.zip")
    erase.erase(office.engine, office.admin, gone)
    first, second = take(office, package)
    assert (first.fate, second) == (Fate.KNOWN, Outcome(2, Fate.ERASED, gone))
    forget.forget(office.engine, office.admin, "ada")
    assert fates(take(office, package)) == ["erased", "erased"]
    assert texts(office) == []
    assert kept


def test_an_imported_line_is_refused_once_its_memory_is_erased(office: Office, tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", {"id": UUID.format(1), "text": "the lighthouse", "user_id": "ada"})
    (taken,) = take(office, path)
    assert taken.memory_id is not None
    new = update.update(office.engine, office.admin, taken.memory_id, "the harbour").memory_id
    assert fates(take(office, path)) == ["erased"]  # replaced: the old words do not return
    erase.erase(office.engine, office.admin, new)
    assert fates(take(office, path)) == ["erased"]


def test_nothing_made_of_an_erased_text_is_kept(office: Office, tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", {"text": "the lighthouse", "user_id": "ada"})
    (taken,) = take(office, path)
    assert fates(take(office, path)) == ["already_here"]
    assert office.running.database.execute("SELECT count(*) FROM imports").fetchone()[0] == 1
    assert taken.memory_id is not None
    erase.erase(office.engine, office.admin, taken.memory_id)
    assert office.running.database.execute("SELECT count(*) FROM imports").fetchone()[0] == 0
    # Without an id it is a new line; who must not be remembered again is told by the tenant's policy.
    assert fates(take(office, path)) == ["taken"]
    access.set_policies(office.engine, office.tenant, Policies(post_forget=PostForget.BLOCK))
    forget.forget(office.engine, office.admin, "ada")
    (refused,) = take(office, path)
    assert (refused.fate, refused.memory_id) == (Fate.REFUSED, None)
    assert refused.reason is not None
    assert "lighthouse" not in refused.reason


# ---- Idempotence


def test_a_file_is_taken_once_however_often_it_comes(office: Office, tmp_path: Path) -> None:
    lines: list[object] = [{"text": "yes", "user_id": "ada"}, {"text": "yes", "user_id": "ada"}]
    path = write(tmp_path, "m.jsonl", *lines, {"text": "yes", "user_id": "bob"}, {"text": "no"})
    assert fates(take(office, path)) == ["taken"] * 4  # said twice is two memories
    assert fates(take(office, path)) == ["already_here"] * 4
    grown = write(tmp_path, "grown.jsonl", *lines, {"text": "yes", "user_id": "ada"})
    assert fates(take(office, grown)) == ["already_here", "already_here", "taken"]
    assert sorted(texts(office)) == ["no", "yes", "yes", "yes", "yes"]


def test_one_id_is_one_memory_even_within_a_file(office: Office, tmp_path: Path) -> None:
    same = {"id": UUID.format(1), "text": "first"}
    path = write(tmp_path, "m.jsonl", same, {**same, "text": "second"})
    assert fates(take(office, path)) == ["taken", "already_here"]
    assert texts(office) == ["first"]


def test_a_run_that_looks_takes_nothing(office: Office) -> None:
    gone = office.remember("gone")
    erase.erase(office.engine, office.admin, gone)
    lines = [Line(1, "a", True, NewMemory("one")), Line(2, gone, True, NewMemory("two"))]
    assert [one.fate for one in look(office.engine, office.admin, "jsonl", lines)] == [
        Fate.TAKEN,
        Fate.ERASED,
    ]
    assert texts(office) == []


def test_an_id_can_not_pass_for_what_another_line_says(office: Office, tmp_path: Path) -> None:
    (said,) = read_lines(write(tmp_path, "m.jsonl", {"text": "a"}))
    assert isinstance(said, Line)
    path = write(
        tmp_path, "m.jsonl", {"text": "b", "id": said.identity}, {"text": "a"}, {"text": "c", "id": "\0"}
    )
    assert fates(take(office, path)) == ["taken"] * 3


def test_metadata_that_is_nested_without_end_is_exported_as_text(office: Office, tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    office.remember("deep", "ada", metadata={"deep": deep})
    package = portable(office, "ada", tmp_path / "a.zip")
    (line,) = zipfile.ZipFile(package).read("art20/memories.jsonl").splitlines()
    assert json.loads(json.loads(line)["metadata_text"]) == {"deep": deep}


def test_one_line_that_is_refused_does_not_stop_the_others(office: Office) -> None:
    def line(number: int, text: str, **facts: Any) -> Line:
        return Line(number, str(number), True, NewMemory(text, "ada", **facts))

    outcomes = take_in(
        office.engine,
        office.admin,
        "jsonl",
        [
            line(1, "one"),
            line(2, "two", purposes=("unregistered",)),
            line(3, "three", expires_at=1),
            line(4, " "),
            line(5, "five"),
        ],
    )
    assert fates(outcomes) == ["taken", "refused", "refused", "refused", "taken"]
    assert [one.reason for one in outcomes[1:4]] == [
        "purposes must be registered for the tenant",
        "expires_at must be a time to come, in seconds since the epoch",
        "messages must not be empty",
    ]
    assert texts(office) == ["one", "five"]


def test_another_tenant_imports_for_itself(running: Running, office: Office, tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", {"id": UUID.format(1), "text": "the lighthouse"})
    other = Office.opened(running, "other")
    assert fates(take(office, path)) == fates(take(other, path)) == ["taken"]


# ---- Files of others


def test_a_mem0_export(office: Office, tmp_path: Path) -> None:
    """The shapes its documentation shows: get_all's results, a bare list, an export's memories."""
    item = {
        "id": UUID.format(1),
        "memory": "Name is Alex. Enjoys basketball.",
        "hash": "69b1d3bc4c6cbbf6c1c7dd1c2b1c5b8e",
        "user_id": "alex",
        "agent_id": "travel",
        "categories": ["hobbies"],
        "metadata": {"category": "hobbies"},
        "created_at": "2024-07-20T01:30:36.275141-07:00",
        "updated_at": "2024-07-20T01:30:36.275172-07:00",
        "expiration_date": "2999-12-31",
    }
    bare = {
        "id": UUID.format(2),
        "memory": "Likes gaming",
        "metadata": None,
        "created_at": None,
        "user_id": None,
    }
    for name, shape in (
        ("results.json", {"count": 2, "results": [item, bare], "relations": []}),
        ("bare.json", [item, bare]),
        ("memories.json", {"memories": [item, bare]}),
    ):
        path = tmp_path / name
        path.write_text(json.dumps(shape, indent=1))
        source = import_files.opened(path, None, "me")
        assert (source.format, source.total) == (Format.MEM0, 2)
        first, second = source.lines
        assert isinstance(first, Line)
        assert (first.identity, first.created_at) == (UUID.format(1), 1_721_464_236)
        assert first.new == NewMemory(
            "Name is Alex. Enjoys basketball.",
            "alex",
            metadata={"category": "hobbies", "agent_id": "travel", "categories": ["hobbies"]},
            expires_at=32_503_680_000,
        )
        assert isinstance(second, Line)
        assert second.new == NewMemory("Likes gaming", "me")
    assert fates(take(office, tmp_path / "bare.json")) == ["taken", "taken"]
    assert fates(take(office, tmp_path / "results.json")) == ["already_here", "already_here"]


def test_an_mcp_server_memory_file(office: Office, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "memory.jsonl",
        {
            "type": "entity",
            "name": "John_Smith",
            "entityType": "person",
            "observations": ["Speaks fluent Spanish", "Graduated in 2019"],
        },
        {"type": "relation", "from": "John_Smith", "to": "Anthropic", "relationType": "works_at"},
        {"type": "entity", "name": "Empty", "entityType": "thing", "observations": []},
        {"type": "note"},
    )
    lines = read_lines(path, user_id="john")
    assert [one.new.text for one in lines if isinstance(one, Line)] == [
        "John_Smith: Speaks fluent Spanish",
        "John_Smith: Graduated in 2019",
        "John_Smith works at Anthropic",
    ]
    assert [one for one in lines if isinstance(one, Skipped)] == [
        Skipped(3, "an entity without observations says nothing to remember"),
        Skipped(4, "neither an entity nor a relation"),
    ]
    assert import_files.opened(path, None, None).format is Format.MCP
    assert fates(take(office, path, "john")) == ["taken"] * 3
    assert fates(take(office, path, "john")) == ["already_here"] * 3
    (found,) = office.found("Graduated", "john")
    assert found


def test_lines_with_any_of_the_usual_names_for_a_text(tmp_path: Path) -> None:
    names = ("text", "memory", "messages", "content", "data")
    path = write(tmp_path, "m.jsonl", *({name: name} for name in names))
    assert [one.new.text for one in read_lines(path) if isinstance(one, Line)] == list(names)
    example = Path(__file__).parents[3] / "examples" / "apollo11.jsonl"
    lines = read_lines(example)
    assert len(lines) == 419
    assert all(isinstance(one, Line) for one in lines)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("7", "not an object"),
        ("{}", "without a text"),
        ('{"text":" "}', "without a text"),
        ('{"text":7}', "without a text"),
        ('{"text":"a","user_id":7}', "a field has another type than it should"),
        ('{"text":"a","expires_at":true}', "a field has another type than it should"),
        ('{"text":"a","metadata":[]}', "a field has another type than it should"),
        ('{"text":"a","metadata_text":"["}', "metadata_text is not JSON"),
        ('{"text":"a","metadata_text":"[]"}', "metadata_text is not an object"),
        ('{"text":"a","lawful_basis":"whim"}', "lawful_basis is none of the documented ones"),
        ('{"type":"relation","text":"a"}', None),
        ('{"text":"a","metadata":' + '{"a":' * 40 + "1" + "}" * 41, "nested deeper than 32 levels"),
        ('{"text":"\\ud800"}', "holds a lone surrogate, which is not a character"),
        ('{"text":"a","id":"\\udfff"}', "holds a lone surrogate, which is not a character"),
        ('{"text":"' + "a" * (1 << 20) + '"}', "longer than any memory may be"),
    ],
)
def test_a_line_that_is_no_memory_is_named_and_not_repeated(
    tmp_path: Path, line: str, reason: str | None
) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"text":"before"}\n' + line + '\n\n{"text":"after"}\n')
    before, odd, after = read_lines(path, Format.LINES)
    assert (before.number, after.number) == (1, 4)
    if reason is None:
        assert isinstance(odd, Line)
    else:
        assert odd == Skipped(2, reason)


@pytest.mark.parametrize("text", ["7", '"a"', "{", "", "null", "[" * 100_000, "[1"])
def test_a_file_of_no_known_kind_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd"
    path.write_text(text)
    with pytest.raises(Invalid):
        read_lines(path)


def test_an_object_that_says_nothing_is_a_line_that_says_nothing(tmp_path: Path) -> None:
    assert read_lines(write(tmp_path, "odd", {"results": 7})) == [Skipped(1, "without a text")]


def test_an_archive_that_is_no_export_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("memories.jsonl", "{}")
    with pytest.raises(Invalid):
        import_files.opened(path, None, None)


def test_times_in_any_usual_spelling(tmp_path: Path) -> None:
    spelled = [5, "1970-01-01T00:00:05Z", "1970-01-01T00:00:05", "1970-01-01", "soon", None, True, -1, 10**30]
    path = write(tmp_path, "m.jsonl", *({"text": "a", "created_at": one} for one in spelled))
    assert [one.created_at for one in read_lines(path) if isinstance(one, Line)] == [
        5, 5, 5, 0, None, None, None, None, None
    ]  # fmt: skip
