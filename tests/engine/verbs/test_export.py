"""T-44: an export holds every live memory about its subject and only those; its witness binds all of it."""

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from shomei_memory_verify.witness import check
from shomei_service.engine.custody.spool import Spool
from shomei_service.engine.errors import AuditUnavailable, Forbidden, Invalid, StorageUnavailable
from shomei_service.engine.model import (
    ArtifactKind,
    Authority,
    Cause,
    ConsentAction,
    Ground,
    LawfulBasis,
    Policies,
    Redaction,
    SourceKind,
)
from shomei_service.engine.verbs import (
    access,
    artifact,
    consent,
    erase,
    export,
    forget,
    hold,
    read,
    restrict,
    update,
)
from shomei_service.engine.verbs.export import phrases
from tests import recompute_export
from tests.engine.verbs.office import Office
from tests.engine.verbs.side_by_side import PURPOSES, SUBJECTS, Beside, Running
from tests.model import DAY, Rules

SCRIPT = Path(recompute_export.__file__)
MARK = "ZQ7-9d27f3b8"


@pytest.fixture
def office(running: Running) -> Office:
    return Office.opened(running)


def packed(office: Office, subject: str, path: Path, **wanted: Any) -> Path:
    package = export.export(
        office.engine, office.admin, export.Wanted(subject, **wanted), form=export.Form.ZIP
    )
    with closing(package):
        path.write_bytes(b"".join(package.as_zip()))
    return path


def told(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("export.json"))


# ---- Against the model


def test_every_state_of_a_memory_beside_the_model(running: Running) -> None:
    tenant = Beside(running, Rules(erase_when_expired=False))
    add = tenant.add

    def made(outcome: Any) -> str:
        return str(outcome.answer["memory_id"])

    plain, held, contested = made(add("alice")), made(add("alice")), made(add("alice"))
    tenant.place(memory_id=held)
    tenant.restrict(contested, Ground.ACCURACY_CONTESTED)
    tenant.consent("alice", "support", ConsentAction.GRANTED)
    add("alice", basis=LawfulBasis.CONSENT, purposes=("support",))
    tenant.consent("alice", "support", ConsentAction.WITHDRAWN)
    add("alice", basis=LawfulBasis.CONTRACT, expires_at=running.clock.at + 60)
    shared = made(add("bob", sources=(plain,)))
    add("bob", sources=(shared,))
    add("bob")
    used, asked = tenant.register((plain,)), tenant.register((shared,))
    tenant.acknowledge(str(asked.answer["artifact_id"]))
    tenant.register((str(used.answer["artifact_id"]),))
    tenant.erase(made(add("alice")))
    tenant.update(made(add("alice")))
    tenant.wait(61)
    for subject in SUBJECTS:
        tenant.export(subject)
    assert len(tenant.export("alice").answer["records"]) == 8
    tenant.forget("alice")
    left = tenant.export("alice").answer
    assert set(left["records"]) == {held}
    tenant.export("bob")
    tenant.stranger().export("alice")


def test_erasures_and_updates_under_way_are_counted(running: Running) -> None:
    tenant = Beside(running)
    first, second = (str(tenant.add("alice").answer["memory_id"]) for _ in range(2))
    with tenant.custody_down():
        tenant.erase(first)
    with tenant.custody_down():
        tenant.update(second)
    assert tenant.export("alice").answer["pending"] == (2, 1)
    tenant.tick()
    assert tenant.export("alice").answer["pending"] == (0, 0)


# ---- By a script that knows nothing of us


def storied(office: Office) -> None:
    """Tell a story that leaves something in every part of an export about ada."""
    engine, admin = office.engine, office.admin
    policies = Policies(purposes=frozenset(PURPOSES), texts={office.data.actor: "Care app", "contact": "dpo"})
    access.set_policies(engine, office.tenant, policies)
    plain = office.remember(
        MARK, "ada", metadata={"1e21": 1e21, "\U0001f600": 0.1, "\uffff": -1e-7, "big": 2**60}
    )
    bob = office.remember("bob's", "bob")
    office.remember("of both", "bob", derived_from=(plain, bob))
    restricted = office.remember("contested", "ada")
    restrict.restrict(engine, admin, restricted, Ground.LEGAL_CLAIMS)
    consent.record(engine, admin, consent.NewConsent("ada", "support", ConsentAction.GRANTED))
    office.remember("studied", "ada", lawful_basis=LawfulBasis.CONSENT, purposes=("support",))
    consent.record(engine, admin, consent.NewConsent("ada", "support", ConsentAction.WITHDRAWN))
    hold.place(engine, admin, hold.NewHold(Authority.LITIGATION, office.remember("held", "ada"), None, MARK))
    erase.erase(engine, admin, office.remember("gone", "ada"))
    update.update(engine, admin, office.remember("old", "ada"), "new")
    artifact.register(engine, office.data, (plain,), ArtifactKind.SUMMARY)
    read.get(engine, office.data, plain)
    office.found(MARK, "ada")
    office.found("kettle")


def log_of(office: Office, path: Path) -> Path:
    log = office.log()
    path.write_text("".join(json.dumps({"body": one}) + "\n" for one in log))
    return path


def audited(package: Path, key: bytes, log: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-I", "-S", SCRIPT, package, key.hex(), log], capture_output=True, text=True
    )


def test_an_auditor_recomputes_every_commitment(office: Office, tmp_path: Path) -> None:
    storied(office)
    _, key = access.commitment_key(office.engine, office.tenant)
    package = packed(office, "ada", tmp_path / "ada.zip")
    office.remember("after the export", "ada")
    erase.erase(office.engine, office.admin, office.remember("after it too", "ada"))
    log = log_of(office, tmp_path / "log.jsonl")
    ran = audited(package, key, log)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "everything agrees\n", "")
    # A later export: its point in the log is another one. And the key decides.
    later = packed(office, "ada", tmp_path / "later.zip")
    assert audited(later, key, log).returncode == 0
    assert told(later)["as_of_seq"] > told(package)["as_of_seq"]
    wrong = audited(package, bytes(32), log)
    assert wrong.returncode == 1
    assert wrong.stdout.splitlines()[-1] == "does not agree: tombstone_id"
    # A memory that the log knows and the export does not hold is an omission.
    lines = log.read_text().splitlines(keepends=True)
    own = next(one for one in lines if "memory_add" in one and told(package)["subject_pseudonym"] in one)
    invented = own.replace(json.loads(own)["body"]["memory_id"], "lm_" + 32 * "0")
    (tmp_path / "more.jsonl").write_text("".join([invented, *lines]))
    assert audited(package, key, tmp_path / "more.jsonl").stdout == "does not agree: the log\n"


def test_the_closed_set_is_the_closures(office: Office, tmp_path: Path) -> None:
    office.remember("gone", "ada")
    closure = forget.forget(office.engine, office.admin, "ada").closure
    assert closure is not None
    packed(office, "ada", tmp_path / "ada.zip")
    assert office.log()[-1]["closed_set_commitment"] == closure.body["closed_set_commitment"]


CHANGES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("export.json", lambda content: content.replace(b'"recallable":true', b'"recallable":false', 1)),
    ("export.json", lambda content: content.replace(MARK.encode(), b"ZQ7-9d27f3b9", 1)),
    ("art20/memories.jsonl", lambda content: content.partition(b"\n")[2]),
    ("report.html", lambda content: content.replace(b"Not in use", b"In use", 1)),
    ("manifest.json", lambda content: content.replace(b'"nonce":"', b'"nonce":"0', 1)[:-3] + b'"}'),
]


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_each_file_tampered_with_is_named(
    office: Office, tmp_path: Path, name: str, change: Callable[[bytes], bytes]
) -> None:
    storied(office)
    package = packed(office, "ada", tmp_path / "ada.zip")
    pin = office.running.home.pin
    assert check(str(package), pin=pin)
    with zipfile.ZipFile(package) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    changed = {**parts, name: change(parts[name])}
    assert changed[name] != parts[name]
    with zipfile.ZipFile(tmp_path / "changed.zip", "w") as archive:
        for one, content in changed.items():
            archive.writestr(one, content)
    found = check(str(tmp_path / "changed.zip"), pin=pin)
    assert not found
    assert found.altered == (name,)


# ---- What it says, and what it does not


def test_nothing_that_is_put_aside_lies_in_clear() -> None:
    spool = Spool()
    said = MARK.encode() * 100_000
    spool.write(said)
    file: Any = spool._file  # pyright: ignore[reportPrivateUsage]
    file.rollover()
    file.seek(0)
    assert MARK.encode() not in file.read()
    assert b"".join(spool.pieces()) == b"".join(spool.pieces()) == said
    spool.close()


def test_a_full_disk_is_said_to_be_one() -> None:
    spool = Spool()
    file: Any = spool._file  # pyright: ignore[reportPrivateUsage]
    file.rollover()
    file._file.close()
    with open("/dev/full", "r+b", buffering=0) as full:
        file._file = full
        with pytest.raises(StorageUnavailable):
            spool.write(bytes(1 << 18))


def test_others_ids_and_matters_are_not_told(office: Office, tmp_path: Path) -> None:
    storied(office)
    package = packed(office, "ada", tmp_path / "ada.zip")
    with zipfile.ZipFile(package) as archive:
        every = b"".join(archive.read(one) for one in archive.namelist()).decode()
    export_told = told(package)
    mine = {one["memory_id"] for one in (*export_told["records"], *export_told["tombstones"])}
    seen = {one for entry in export_told["disclosures"] for one in entry["memory_ids"]}
    assert seen <= mine
    assert "litigation" not in every
    assert "bob's" not in every  # what it was made from stays bob's
    assert "of both" in every


def test_a_row_that_can_not_be_read_is_listed_and_said_to_be(office: Office, tmp_path: Path) -> None:
    first, damaged = office.remember("first", "ada"), office.remember("second", "ada")
    with office.engine.store.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE memories SET sealed_content = zeroblob(60) WHERE memory_id = ?", (damaged,)
        )
    records = {one["memory_id"]: one for one in told(packed(office, "ada", tmp_path / "a.zip"))["records"]}
    assert records[first]["text"] == "first"
    assert (records[damaged]["text"], records[damaged]["state"]["readable"]) == (None, "integrity_error")
    assert records[damaged]["state"]["recallable"] is False


def test_a_memory_erased_while_it_is_exported_is_said_to_be(office: Office, tmp_path: Path) -> None:
    """Its key goes while the snapshot still shows its row."""
    memory_id, rows = office.remember("going", "ada"), office.engine.rows
    usual, erased = rows.open_content, list[str]()

    def slow(tenant: Any, row: Any) -> Any:
        if not erased:
            erased.append(memory_id)
            erase.erase(office.engine, office.admin, memory_id)
        return usual(tenant, row)

    rows.open_content = slow
    package = packed(office, "ada", tmp_path / "a.zip")
    (record,) = told(package)["records"]
    assert (record["text"], record["state"]["readable"]) == (None, "erased_meanwhile")
    _, key = access.commitment_key(office.engine, office.tenant)
    assert audited(package, key, log_of(office, tmp_path / "log.jsonl")).returncode == 0


def test_refused_exports(office: Office) -> None:
    def asked(**wanted: Any) -> None:
        export.export(office.engine, office.admin, export.Wanted(**wanted), form=export.Form.ZIP)

    foreign = office.remember("bob's", "bob")
    before = len(office.log())
    with pytest.raises(Forbidden):
        export.export(office.engine, office.data, export.Wanted("ada"), form=export.Form.JSON)
    for wanted in ({"user_id": ""}, {"user_id": "ada", "redactions": {foreign: Redaction.TRADE_SECRET}}):
        with pytest.raises(Invalid):
            asked(**wanted)
    full = "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    with office.engine.store.transaction() as connection:
        connection.exec_driver_sql(full)
    with pytest.raises(AuditUnavailable):
        asked(user_id="ada")
    with office.engine.store.transaction() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")
    assert len(office.log()) == before


def test_as_many_artifacts_as_a_receipt_holds_and_one_more(office: Office, tmp_path: Path) -> None:
    memory_id = office.remember("much used", "ada")
    for _ in range(500):
        artifact.register(office.engine, office.data, (memory_id,), ArtifactKind.CACHE)
    package = packed(office, "ada", tmp_path / "a.zip")
    with zipfile.ZipFile(package) as archive:
        witness = json.loads(archive.read("witness.json"))
    laid_out = json.dumps(witness, indent=2).encode()  # however its JSON is laid out
    assert len(laid_out) < 65_536
    assert check(str(package), pin=office.running.home.pin, witness=laid_out)
    artifact.register(office.engine, office.data, (memory_id,), ArtifactKind.CACHE)
    package = packed(office, "ada", tmp_path / "b.zip")
    body = office.log()[-1]
    assert (body["artifact_count"], "artifacts" in body) == (501, False)
    assert check(str(package), pin=office.running.home.pin)
    _, key = access.commitment_key(office.engine, office.tenant)
    assert list(recompute_export.disagreements(package, key)) == []


def test_an_hour_later_it_is_another_export(office: Office, tmp_path: Path) -> None:
    office.remember("same", "ada")
    first = told(packed(office, "ada", tmp_path / "a.zip"))
    office.running.clock.at += DAY
    second = told(packed(office, "ada", tmp_path / "b.zip"))
    assert second["generated_at"] == first["generated_at"] + DAY
    assert first["records"] == second["records"]
    one, two = [body for body in office.log() if body["schema"].startswith("shomei.access_export")]
    assert one["record_set_commitment"] == two["record_set_commitment"]
    assert one["package_digest"] != two["package_digest"]


class _Page(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.style = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {str(value) for name, value in attrs if name in {"href", "src"}}
        self.is_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self.is_style:
            self.style, self.is_style = data, False


def test_the_page_is_inert_whatever_it_shows(office: Office, tmp_path: Path) -> None:
    hostile = "</style></p><script src=//evil>alert(1)</script><img src=x onerror=a>\u202e\x1b[31m\x85&amp;"
    texts = {"controller": hostile, office.data.actor: hostile}
    access.set_policies(office.engine, office.tenant, Policies(texts=texts))
    read.get(office.engine, office.data, office.remember(hostile, hostile, metadata={hostile: hostile}))
    with zipfile.ZipFile(packed(office, hostile, tmp_path / "a.zip")) as archive:
        text = archive.read("report.html").decode()
    page = _Page()
    page.feed(text)
    assert page.tags == {
        *("html", "head", "meta", "title", "style", "body", "main", "nav", "article", "section", "div"),
        *("h1", "h2", "h3", "p", "strong", "b", "bdi", "a", "br", "code", "dl", "dt", "dd"),
        *("table", "tr", "th", "td"),
    }
    assert page.attributes <= {
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "class",
        "id",
        "href",
        "dir",
    }
    assert all(one.startswith("#") for one in page.links)
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert f"default-src &#x27;none&#x27;; style-src &#x27;sha256-{digest}&#x27;" in text
    assert "[U+202E][U+001B][31m[U+0085]&amp;amp;" in text
    assert not set(text) & {"\u202e", "\x1b", "\x85"}


def test_every_code_has_plain_words() -> None:
    assert set(phrases.SOURCES) == set(SourceKind)
    assert set(phrases.BASES) == set(LawfulBasis)
    assert set(phrases.GROUNDS) == set(Ground)
    assert set(phrases.REDACTIONS) == set(Redaction)
    assert set(phrases.CAUSES) == set(Cause)
    assert phrases.said(phrases.CAUSES, "some_new_code") == "some new code"
