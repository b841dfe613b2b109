"""An export against its witness: what is missing, added or altered is named, in every form a package has."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shomei_memory_verify import witness_files
from shomei_memory_verify.canonical import canonical_bytes
from shomei_memory_verify.witness import Witnessed, as_lines, check
from shomei_memory_verify.witness_files import NotAPackage
from tests.verify import corpus
from tests.verify.conftest import Ran
from tests.verify.examples import EXAMPLES

Run = Callable[..., Ran]
Files = dict[str, bytes]
Kind = Callable[[Path, Files], Path]

NONCE = bytes(range(32))
PACKED = ("art20/memories.jsonl", "export.json", "report.html")
EVERY = (*PACKED, "manifest.json", "witness.json")


def export() -> dict[str, Any]:
    body = EXAMPLES["access_export"]
    return {
        "export_id": body["export_id"],
        "subject_pseudonym": body["subject_pseudonym"],
        "tenant_id_hash": body["tenant_id_hash"],
        "as_of_seq": body["as_of_seq"],
        "records": [{"memory_id": f"lm_{n}", "text": "straße \U0001f600"} for n in range(4)],
        "artifacts": [{**one, "kind": "summary"} for one in body["artifacts"]],
        "disclosures": [{"at": 1}, {"at": 2}],
        "tombstones": [{"tombstone_id": "ts_1"}],
    }


def manifest(files: Files, *, nonce: str | None = None, listed: object = None) -> bytes:
    entries = [[name, hashlib.sha256(files[name]).hexdigest()] for name in sorted(files)]
    return canonical_bytes(
        {
            "files": entries if listed is None else listed,
            "format": "shomei-export-manifest/v1",
            "nonce": NONCE.hex() if nonce is None else nonce,
        }
    )


def made(
    told: dict[str, Any] | None = None, *, signed: dict[str, Any] | None = None, key: Any = corpus.SIGNER
) -> Files:
    """Return the files of a package; `told` is its export, `signed` what the witness says otherwise."""
    files = {
        "art20/memories.jsonl": b'{"id":"lm_0"}\n',
        "export.json": canonical_bytes(export() if told is None else told),
        "report.html": b"<!doctype html>",
    }
    listing = manifest(files)
    entries = json.loads(listing)["files"]
    digest = "sha256:" + hashlib.sha256(NONCE + canonical_bytes(entries)).hexdigest()
    body = {**EXAMPLES["access_export"], "package_digest": digest, **(signed or {})}
    body = {name: value for name, value in body.items() if value is not ...}
    return {**files, "manifest.json": listing, "witness.json": canonical_bytes(corpus.seal(body, key))}


def as_zip(folder: Path, files: Files) -> Path:
    path = folder / "package.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def as_folder(folder: Path, files: Files) -> Path:
    path = folder / "package"
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


KINDS = pytest.mark.parametrize("pack", [as_zip, as_folder])


def look(path: Path, pin: str | None = corpus.PIN) -> Witnessed:
    return check(str(path), pin=pin)


def differences(found: Witnessed) -> tuple[tuple[str, ...], ...]:
    return found.missing, found.added, found.altered, found.contradicts


@KINDS
def test_a_package_as_it_was_made(pack: Kind, tmp_path: Path) -> None:
    found = look(pack(tmp_path, made()))
    assert found
    assert (found.package, differences(found)) == ("complete", ((), (), (), ()))
    unpinned = look(tmp_path / ("package.zip" if pack is as_zip else "package"), None)
    assert not unpinned
    assert (unpinned.is_complete, unpinned.witness.reason) == (True, "ok_unpinned")


@KINDS
@pytest.mark.parametrize("name", PACKED)
def test_a_file_that_is_altered_missing_or_added_is_named(pack: Kind, tmp_path: Path, name: str) -> None:
    for number, (change, wanted) in enumerate(
        (
            ({name: made()[name] + b" "}, ((), (), (name,), ())),
            ({name: b""}, ((), (), (name,), ())),
            ({name: None}, ((name,), (), (), ())),
            ({"notes.txt": b"a"}, ((), ("notes.txt",), (), ())),
            ({name: None, name + ".txt": made()[name]}, ((name,), (name + ".txt",), (), ())),
        )
    ):
        files = {one: content for one, content in {**made(), **change}.items() if content is not None}
        folder = tmp_path / str(number)
        folder.mkdir()
        found = look(pack(folder, files))
        assert (found.package, differences(found)) == ("different", wanted)
        assert not found


@KINDS
def test_every_byte_of_the_small_files_counts(pack: Kind, tmp_path: Path) -> None:
    files = made()
    for name in ("manifest.json", "witness.json"):
        for at in range(0, len(files[name]), 7):
            changed = bytearray(files[name])
            changed[at] ^= 1
            folder = tmp_path / f"{name}-{at}"
            folder.mkdir()
            found = look(pack(folder, {**files, name: bytes(changed)}))
            if name == "manifest.json":
                assert (found.package, found.altered[0]) == ("different", name)
            elif found:  # a label nobody signed: the signer's id, or the case of a hex digit
                assert found.witness.reason == "ok"
            else:
                assert found.package == "unknown"
                assert found.altered in {(name,), ()}


@KINDS
def test_without_a_witness_nothing_is_known(pack: Kind, tmp_path: Path) -> None:
    files = made()
    del files["witness.json"]
    found = look(pack(tmp_path, files))
    assert (found.package, differences(found)) == ("unknown", (("witness.json",), (), (), ()))
    assert found.witness.reason.startswith("malformed")


@KINDS
def test_a_witness_by_somebody_else(pack: Kind, tmp_path: Path) -> None:
    path = pack(tmp_path, made(key=corpus.STRANGER))
    found = look(path)
    assert (found.package, differences(found)) == ("unknown", ((), (), (), ()))
    assert found.witness.reason == "public_key_mismatch"
    assert look(path, corpus.STRANGER_PIN)


@KINDS
def test_a_receipt_of_another_kind_is_no_witness(pack: Kind, tmp_path: Path) -> None:
    other = canonical_bytes(corpus.seal(EXAMPLES["memory_add"]))
    found = look(pack(tmp_path, {**made(), "witness.json": other}))
    assert (found.package, found.altered) == ("unknown", ("witness.json",))
    assert found.witness.authenticated
    assert not found


@KINDS
def test_without_a_manifest_the_files_are_not_judged(pack: Kind, tmp_path: Path) -> None:
    files = made()
    del files["manifest.json"]
    found = look(pack(tmp_path, files))
    assert (found.package, differences(found)) == ("different", (("manifest.json",), (), (), ()))


@pytest.mark.parametrize(
    "listing",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"a":1,"a":1}',
        b'{"a":NaN}',
        b'{"a":"\\ud800"}',
        manifest(made()) + b"\n",
        manifest({}, nonce="00"),
        manifest({}, nonce=32 * "GG"),
        manifest({}, listed={}),
        manifest({}, listed=[7]),
        manifest({}, listed=[["a"]]),
        manifest({}, listed=[["a", 7]]),
        manifest({}, listed=[[7, 64 * "0"]]),
        manifest({}, listed=[["b", 64 * "0"], ["a", 64 * "0"]]),
        manifest({}, listed=[["a", 64 * "0"], ["a", 64 * "0"]]),
        manifest({}, listed=[["manifest.json", 64 * "0"]]),
        manifest({}, listed=[["witness.json", 64 * "0"]]),
        manifest({name: made()[name] for name in PACKED}, nonce=32 * "01"),
        manifest({name: made()[name] for name in PACKED}).replace(b"/v1", b"/v2"),
    ],
)
def test_a_manifest_that_is_not_exactly_ours(tmp_path: Path, listing: bytes) -> None:
    found = look(as_folder(tmp_path, {**made(), "manifest.json": listing}))
    assert found.package == "different"
    assert "manifest.json" in found.altered


def test_a_manifest_made_to_fit_altered_files_is_found_out(tmp_path: Path) -> None:
    files = made()
    files["report.html"] = b"a better story"
    files["manifest.json"] = manifest({name: files[name] for name in PACKED})
    found = look(as_zip(tmp_path, files))
    assert differences(found) == ((), (), ("manifest.json",), ())


def test_a_witness_that_binds_no_package(tmp_path: Path) -> None:
    found = look(as_zip(tmp_path, made(signed={"package_digest": 7})))
    assert differences(found) == ((), (), ("manifest.json",), ())


# ---- When the signer's own words do not agree


@pytest.mark.parametrize(
    ("signed", "named"),
    [
        ({"record_count": 3}, "record_count"),
        ({"artifact_count": 2}, "artifact_count"),
        ({"disclosure_count": 0}, "disclosure_count"),
        ({"tombstone_count": True}, None),
        ({"tombstone_count": 2}, "tombstone_count"),
        ({"export_id": "exp_" + 32 * "0"}, "export_id"),
        ({"subject_pseudonym": "hmac-sha256:" + 64 * "0"}, "subject_pseudonym"),
        ({"as_of_seq": 0}, "as_of_seq"),
        ({"artifacts": []}, "artifacts"),
        ({"artifacts": [{**EXAMPLES["access_export"]["artifacts"][0], "recallable": True}]}, "artifacts"),
        ({"artifacts": ...}, None),
    ],
)
def test_a_witness_that_contradicts_its_package(
    tmp_path: Path, signed: dict[str, Any], named: str | None
) -> None:
    found = look(as_zip(tmp_path, made(signed=signed)))
    wanted = () if named is None else (named,)
    assert (found.contradicts, found.is_complete) == (wanted, named is None)


@pytest.mark.parametrize("name", ["records", "artifacts"])
@pytest.mark.parametrize("value", [7, None, [7]])
def test_an_export_with_odd_lists_contradicts(tmp_path: Path, name: str, value: object) -> None:
    told = {**export(), name: value}
    found = look(as_zip(tmp_path, made(told)))
    assert not found.is_complete
    assert found.contradicts


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff", b"[" * 100_000])
def test_an_export_that_is_none(tmp_path: Path, content: bytes) -> None:
    files = {**made(), "export.json": content}
    listing = manifest({name: files[name] for name in PACKED})
    digest = hashlib.sha256(NONCE + canonical_bytes(json.loads(listing)["files"])).hexdigest()
    body = {**EXAMPLES["access_export"], "package_digest": "sha256:" + digest}
    files |= {"manifest.json": listing, "witness.json": canonical_bytes(corpus.seal(body))}
    found = look(as_zip(tmp_path, files))
    assert found.contradicts == ("export.json",)


def test_a_package_without_an_export_contradicts(tmp_path: Path) -> None:
    files: Files = {"report.html": b""}
    listing = manifest(files)
    digest = hashlib.sha256(NONCE + canonical_bytes(json.loads(listing)["files"])).hexdigest()
    body = {**EXAMPLES["access_export"], "package_digest": "sha256:" + digest}
    files |= {"manifest.json": listing, "witness.json": canonical_bytes(corpus.seal(body))}
    assert look(as_zip(tmp_path, files)).contradicts == ("export.json",)


# ---- Archives, folders and answers that are not what they seem


def test_a_name_that_is_there_twice_is_added(tmp_path: Path) -> None:
    path = as_zip(tmp_path, made())
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("report.html", "manifest.json", "witness.json"):
            with pytest.warns(UserWarning, match="Duplicate name"):
                archive.writestr(name, made()[name])
    found = look(path)
    assert differences(found) == ((), ("manifest.json", "report.html", "witness.json"), (), ())


def test_folders_inside_are_no_files(tmp_path: Path) -> None:
    path = as_zip(tmp_path, made())
    with zipfile.ZipFile(path, "a") as archive:
        archive.mkdir("art20")
    assert look(path)


def damaged(path: Path, name: str) -> None:
    """Turn over a byte in the compressed content of one entry."""
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(name)
    data = bytearray(path.read_bytes())
    data[entry.header_offset + 30 + len(name) + entry.compress_size // 2] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["export.json", "report.html"])
def test_a_damaged_entry_is_altered(tmp_path: Path, name: str) -> None:
    path = as_zip(tmp_path, made())
    damaged(path, name)
    assert look(path).altered == (name,)


def test_an_entry_that_can_not_be_opened_is_altered(tmp_path: Path) -> None:
    path = as_zip(tmp_path, made())
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("report.html")
    data[entry.header_offset + 6] |= 1  # encrypted, says the local header
    at = data.rindex(b"report.html") - 46
    data[at + 8] |= 1
    path.write_bytes(data)
    assert look(path).altered == ("report.html",)


def test_a_damaged_manifest_and_witness(tmp_path: Path) -> None:
    path = as_zip(tmp_path, made())
    damaged(path, "manifest.json")
    assert "manifest.json" in look(path).altered
    damaged(path, "witness.json")
    found = look(path)
    assert (found.package, found.missing) == ("unknown", ("witness.json",))


def test_links_and_pipes_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    path = as_folder(tmp_path, made())
    (path / "report.html").rename(tmp_path / "elsewhere.html")
    (path / "report.html").symlink_to(tmp_path / "elsewhere.html")
    (path / "more").symlink_to(tmp_path)
    os.mkfifo(path / "pipe")
    found = look(path)
    assert (found.altered, found.added) == (("report.html",), ("more", "pipe"))


def test_a_huge_manifest_is_not_taken(tmp_path: Path) -> None:
    found = look(as_zip(tmp_path, {**made(), "manifest.json": b" " * ((1 << 24) + 1)}))
    assert found.altered == ("manifest.json",)


def answer(files: Files) -> dict[str, Any]:
    listing = manifest({"export.json": files["export.json"]})
    digest = hashlib.sha256(NONCE + canonical_bytes(json.loads(listing)["files"])).hexdigest()
    body = {**EXAMPLES["access_export"], "package_digest": "sha256:" + digest}
    return {
        "export": json.loads(files["export.json"]),
        "manifest": json.loads(listing),
        "receipt": body,
        "signed_receipt": corpus.seal(body),
    }


def write_answer(folder: Path, told: object) -> Path:
    path = folder / "answer.json"
    path.write_text(json.dumps(told, indent=3))
    return path


def test_the_json_answer_is_a_package_too(tmp_path: Path) -> None:
    told = answer(made())
    assert look(write_answer(tmp_path, told))
    told["export"]["records"][0]["text"] = "another"
    assert look(write_answer(tmp_path, told)).altered == ("export.json",)
    del told["export"]
    assert look(write_answer(tmp_path, told)).missing == ("export.json",)
    assert look(write_answer(tmp_path, {"export": {}})).missing == ("witness.json",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"7",
        b"{}",
        b"{",
        b"[" * 100_000,
        b'{"export":1,"export":2}',
        b'{"export":9007199254740993}',
        b'{"export":Infinity}',
        b"PK",
        b"PK\x03\x04" + 200 * b"\0",
        b"PK\x05\x06" + 18 * b"\xff",
    ],
)
def test_what_is_no_package_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    with pytest.raises(NotAPackage):
        witness_files.opened(str(path))


# ---- The command


def test_the_command(run: Run, tmp_path: Path) -> None:
    path = as_zip(tmp_path, made())
    line = "valid=True authenticated=True reason=ok schema=shomei.access_export.v1\n"
    assert run("--witness", path, "--pin", corpus.PIN) == Ran(0, line + "package=complete\n", "")
    unpinned = run("--witness", path)
    assert (unpinned.status, unpinned.out.splitlines()[1]) == (3, "package=complete")
    assert unpinned.err.startswith("note: valid, but it proves no authorship")
    assert run("--witness", path, "--pin", corpus.STRANGER_PIN).status == 1
    altered = as_folder(tmp_path, {**made(), "report.html": b"", "no\ntes\u202e.txt": b""})
    ran = run("--witness", altered, "--pin", corpus.PIN)
    assert ran == Ran(
        1, line + "package=different\n  added: no\\ntes\\u202e.txt\n  altered: report.html\n", ""
    )
    assert run("--witness", altered).status == 1  # never less than refused


def test_the_command_in_json(run: Run, tmp_path: Path) -> None:
    files = made()
    del files["report.html"]
    ran = run("--witness", as_zip(tmp_path, files), "--pin", corpus.PIN, "--json")
    assert ran.status == 1
    assert json.loads(ran.out) == {
        "valid": True,
        "authenticated": True,
        "reason": "ok",
        "public_key_hex": corpus.PIN,
        "schema": "shomei.access_export.v1",
        "package": "different",
        "missing": ["report.html"],
        "added": [],
        "altered": [],
        "contradicts": [],
    }


def test_a_witness_from_elsewhere_counts_instead(run: Run, tmp_path: Path) -> None:
    """From the receipt log, or kept by somebody else: the one in the package is then not looked at."""
    files, own = made(), tmp_path / "receipt.json"
    own.write_bytes(files["witness.json"])
    files["witness.json"] = b"somebody took it away"
    path = as_zip(tmp_path, files)
    assert run("--witness", path, "--pin", corpus.PIN).status == 1
    assert run(own, "--witness", path, "--pin", corpus.PIN).status == 0
    assert run("-", "--witness", path, "--pin", corpus.PIN, stdin=own.read_bytes()).status == 0
    own.write_bytes(made(key=corpus.STRANGER)["witness.json"])
    ran = run(own, "--witness", path, "--pin", corpus.PIN)
    assert (ran.status, ran.out.splitlines()[1:]) == (1, ["package=unknown"])
    own.write_text("{}")
    assert run(own, "--witness", path).out.splitlines()[1:] == ["package=unknown"]


@pytest.mark.parametrize("option", ["--batch", "--render", "--html"])
def test_a_page_or_a_batch_of_packages_is_not_had(run: Run, tmp_path: Path, option: str) -> None:
    assert run("--witness", as_zip(tmp_path, made()), option).status == 2


def test_what_can_not_be_looked_into_is_usage(run: Run, tmp_path: Path) -> None:
    assert run("--witness", tmp_path / "absent").status == 2
    assert run("--witness", "a\0b").status == 2
    assert run().status == 2
    (tmp_path / "odd").write_text("odd")
    ran = run("--witness", tmp_path / "odd")
    assert ran.status == 2
    assert "neither a ZIP archive nor the JSON answer of an export" in ran.err


def test_lines_are_ascii(tmp_path: Path) -> None:
    found = look(as_zip(tmp_path, {**made(), "straße\x1b[31m.txt": b""}))
    assert as_lines(found).splitlines()[1] == "  added: stra\\xdfe\\x1b[31m.txt"
