"""Export, audit, pages and import on both databases."""

import json
from contextlib import closing
from pathlib import Path

from shomei_memory_verify.witness import check
from shomei_service.engine.model import (
    ArtifactKind,
    Authority,
    Ground,
    MemoryId,
    NewMemory,
)
from shomei_service.engine.store import audit
from shomei_service.engine.verbs import (
    access,
    artifact,
    erase,
    export,
    forget,
    hold,
    obligation,
    read,
    records,
    restrict,
)
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.importing import Fate, Line, take_in
from tests.fakes import House
from tests.recompute_export import disagreements


def test_an_export_holds_what_the_database_holds(house: House, tmp_path: Path) -> None:
    engine, admin = house.engine, house.admin
    first, second = house.remember("first", "ada"), house.remember("second", "ada")
    derived = add(engine, house.data, NewMemory("both", "bob", derived_from=(first,))).memory_id
    artifact.register(engine, house.data, (derived,), ArtifactKind.SUMMARY)
    restrict.restrict(engine, admin, second, Ground.LEGAL_CLAIMS)
    hold.place(engine, admin, hold.NewHold(Authority.LITIGATION, first, None, "the matter"))
    erase.erase(engine, admin, house.remember("gone", "ada"))
    read.get(engine, house.data, first)
    read.page(engine, house.data, user_id="ada")
    package = export.export(engine, admin, export.Wanted("ada"), form=export.Form.ZIP)
    with closing(package):
        path = tmp_path / "ada.zip"
        path.write_bytes(b"".join(package.as_zip()))
    assert check(str(path), pin=house.pin)
    _, key = access.commitment_key(engine, admin.tenant)
    assert list(disagreements(path, key)) == []
    package = export.export(engine, admin, export.Wanted("ada"), form=export.Form.JSON)
    with closing(package):
        told = json.loads(b"".join(package.as_json()))["export"]
    states = {one["memory_id"]: one["state"] for one in told["records"]}
    assert list(states) == [first, second, derived]
    assert states[first]["preserved_for_legal_reasons"]
    assert states[second]["restricted"] == ["art18_1_c_legal_claims"]
    assert [one["recallable"] for one in told["artifacts"]] == [True]
    assert [(one["verb"], one["memory_count"]) for one in told["disclosures"]] == [
        ("get", 1),
        ("list", 1),
        ("export", 3),
    ]


def test_events_chain_and_name_their_subjects(house: House) -> None:
    engine = house.engine
    mine, other = house.remember("mine", "ada"), house.remember("other", "bob")
    for one in (mine, other, mine):
        read.get(engine, house.data, one)
    engine.audit.flush()
    read.page(engine, house.data, user_id="nobody")
    events = records.audit_page(engine, house.admin)
    assert audit.is_chained(events)
    assert [one.seq for one in events] == list(range(4))
    assert [len(one.access.subjects) for one in events] == [1, 1, 1, 1]
    about = records.audit_page(engine, house.admin, user_id="ada")
    assert [one.access.memory_ids for one in about] == [(mine,), (mine,)]
    asked_for = records.audit_page(engine, house.admin, user_id="nobody")
    assert [(one.access.verb, one.access.count) for one in asked_for] == [("list", 0)]


def test_holds_and_obligations_in_pages(house: House) -> None:
    engine, admin = house.engine, house.admin
    placed = [
        hold.place(
            engine, admin, hold.NewHold(Authority.LITIGATION, house.remember("kept", "ada"), None)
        ).hold
        for _ in range(3)
    ]
    forget.forget(engine, admin, "ada")
    found: list[str] = []
    cursor = None
    while True:
        page = hold.page(engine, admin, cursor=cursor, limit=2)
        found += [one.hold_id for one in page.holds]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(found) == sorted(one.hold_id for one in placed)
    first = obligation.page(engine, admin, limit=2)
    rest = obligation.page(engine, admin, cursor=first.next_cursor, limit=2)
    assert rest.next_cursor is None
    assert len({one.obligation_id for one in (*first.obligations, *rest.obligations)}) == 3


def test_an_import_takes_each_line_once(house: House) -> None:
    lines = [Line(n, f"line {n}", n % 2 == 0, NewMemory(f"text {n}", "ada")) for n in range(6)]
    taken = take_in(house.engine, house.admin, "jsonl", lines)
    assert {one.fate for one in taken} == {Fate.TAKEN}
    assert {one.fate for one in take_in(house.engine, house.admin, "jsonl", lines)} == {Fate.KNOWN}
    for one in taken:
        assert one.memory_id is not None
        erase.erase(house.engine, house.admin, MemoryId(one.memory_id))
    again = take_in(house.engine, house.admin, "jsonl", lines)
    assert [one.fate for one in again] == [Fate.ERASED, Fate.TAKEN] * 3
