"""Exports over HTTP: what a person is sent, how it is sent, and who may ask. docs/spec/export.md."""

import io
import json
import socket
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from shomei_memory_verify.witness import check
from tests.api.desk import Desk, open_desk
from tests.api.house import UNKNOWN, read_answer, serve

M = "/v1/memories"
MARK = "ZQ7-9d27f3b8"
ZIP = {"accept": "application/zip"}
LINES = {"accept": "application/x-ndjson"}


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with open_desk() as opened:
        yield opened


def package(desk: Desk, subject: str, **headers: str) -> httpx.Response:
    answer = desk.house.call(
        "GET", f"/v1/export?user_id={subject}", key=desk.house.admin, headers={**ZIP, **headers}
    )
    assert answer.status_code == 200, answer.text
    return answer


def files(answer: httpx.Response) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_an_export_as_json_has_the_described_shape_and_a_witness_that_fits(
    desk: Desk, tmp_path: Path
) -> None:
    memory_id = desk.add(f"{MARK} one", user_id="ada", metadata={"n": 1.5})
    desk.restricted(user_id="ada")
    desk.erased(user_id="ada")
    for answer in (
        desk.send("POST", "/v1/export", {"user_id": "ada"}),
        desk.send("GET", "/v1/export?user_id=ada&identity_check_code=passport_seen"),
    ):
        told = answer.json()
        export = told["export"]
        assert export["records"][0]["memory_id"] == memory_id
        assert [one["text"] for one in export["records"]] == [f"{MARK} one", "the kettle is blue"]
        assert len(export["tombstones"]) == told["receipt"]["tombstone_count"] == 1
        assert told["receipt"]["as_of_seq"] == export["as_of_seq"] == told["receipt"]["log"]["seq"]
        (tmp_path / "answer.json").write_bytes(answer.content)
        assert check(str(tmp_path / "answer.json"), pin=desk.pin)
        # It stands the way of any other client's JSON library too.
        (tmp_path / "answer.json").write_text(json.dumps(told, indent=2))
        assert check(str(tmp_path / "answer.json"), pin=desk.pin)
    assert export["identity_check_code"] == "passport_seen"


def test_an_export_as_a_package(desk: Desk, tmp_path: Path) -> None:
    desk.add(f"{MARK} <b>bold</b>", user_id="bea")
    answer = package(desk, "bea")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["cache-control"] == "no-store"
    held = files(answer)
    assert list(held) == [
        "art20/memories.jsonl",
        "export.json",
        "report.html",
        "manifest.json",
        "witness.json",
    ]
    export_id = json.loads(held["export.json"])["export_id"]
    assert answer.headers["content-disposition"] == f'attachment; filename="{export_id}.zip"'
    assert json.loads(held["art20/memories.jsonl"])["text"] == f"{MARK} <b>bold</b>"
    page = held["report.html"].decode()
    assert f"{MARK} &lt;b&gt;bold&lt;/b&gt;" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")  # nothing is fetched from anywhere
    (tmp_path / "package.zip").write_bytes(answer.content)
    assert check(str(tmp_path / "package.zip"), pin=desk.pin)
    posted = desk.house.call("POST", "/v1/export", key=desk.house.admin, body={"user_id": "bea"}, headers=ZIP)
    assert list(files(posted)) == list(held)


def test_nobody_known_is_answered_like_anybody(desk: Desk) -> None:
    export = desk.done("GET", "/v1/export?user_id=nobody")["export"]
    assert export["records"] == export["artifacts"] == export["disclosures"] == export["tombstones"] == []
    assert b"No memory about you is kept" in files(package(desk, "nobody"))["report.html"]


def test_the_words_of_others_can_be_left_out(desk: Desk) -> None:
    secret, plain = desk.add(MARK, user_id="cleo", metadata={"note": MARK}), desk.add("mine", user_id="cleo")
    left_out = [{"memory_id": secret, "code": "art15_4_rights_of_others"}]
    body = {"user_id": "cleo", "redactions": left_out}
    answer = desk.send("POST", "/v1/export", body)
    assert MARK not in answer.text
    records = {one["memory_id"]: one for one in answer.json()["export"]["records"]}
    assert (records[secret]["text"], records[secret]["redacted"]) == (None, "art15_4_rights_of_others")
    assert (records[plain]["text"], records[plain]["redacted"]) == ("mine", None)
    held = files(desk.house.call("POST", "/v1/export", key=desk.house.admin, body=body, headers=ZIP))
    assert MARK.encode() not in b"".join(held.values())
    assert [json.loads(line)["id"] for line in held["art20/memories.jsonl"].splitlines()] == [plain]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"user_id": " "},
        {"user_id": "ada", "identity_check_code": "Passport"},
        {"user_id": "ada", "redactions": [{"memory_id": UNKNOWN, "code": "art15_4_rights_of_others"}]},
        {"user_id": "ada", "redactions": [{"memory_id": UNKNOWN, "code": MARK}]},
    ],
)
def test_refused_exports_leave_no_receipt(desk: Desk, body: dict[str, Any]) -> None:
    receipts = len(desk.log())
    assert desk.refused("POST", "/v1/export", body) == (422, {"code": "invalid_request"})
    assert len(desk.log()) == receipts


def test_only_an_admin_of_the_tenant_exports(desk: Desk) -> None:
    desk.add(MARK, user_id="dora")
    assert desk.refused("GET", "/v1/export?user_id=dora", key=desk.house.data)[0] == 403
    assert desk.refused("GET", "/v1/export?user_id=dora", key=desk.house.revoked)[0] == 401
    answer = desk.send("GET", "/v1/export?user_id=dora", key=desk.house.other)
    assert answer.json()["export"]["records"] == []
    assert MARK not in answer.text


def test_an_export_is_an_access_like_any_other(desk: Desk) -> None:
    memory_id = desk.add(user_id="eve")
    desk.done("GET", f"{M}/{memory_id}", key=desk.house.data)
    first = desk.done("GET", "/v1/export?user_id=eve")
    assert [one["verb"] for one in first["export"]["disclosures"]] == ["get"]
    second = desk.done("GET", "/v1/export?user_id=eve")
    shown = second["export"]["disclosures"]
    assert [one["verb"] for one in shown] == ["get", "export"]
    assert shown[1]["receipt_hash"] == first["receipt_hash"]
    assert {one["recipient"]: one["access_count"] for one in second["export"]["recipients"]} == {
        shown[0]["recipient"]: 1,
        shown[1]["recipient"]: 1,
    }
    (event,) = desk.done("GET", "/v1/audit?user_id=eve&limit=500")["results"][-1:]
    assert (event["verb"], event["receipt_hash"]) == ("export", second["receipt_hash"])


def test_who_read_about_a_person(desk: Desk) -> None:
    mine = desk.add(f"{MARK} kite", user_id="finn")
    derived = desk.add(f"{MARK} sail", user_id="gwen", derived_from=[mine])
    other = desk.add(f"{MARK} oar", user_id="gwen")
    for one in (mine, derived, other):
        desk.done("GET", f"{M}/{one}", key=desk.house.data)
    desk.done("POST", "/v1/search", {"query": MARK, "user_id": "finn"}, key=desk.house.data)
    desk.done("DELETE", f"{M}/{mine}")  # what was read stays on record though it is erased
    found = desk.done("GET", "/v1/audit?user_id=finn")["results"]
    assert [(one["verb"], one["memory_ids"]) for one in found] == [
        ("get", [mine]),
        ("get", [derived]),
        ("search", [mine]),
    ]
    pseudonym = desk.done("GET", "/v1/export?user_id=finn")["export"]["subject_pseudonym"]
    assert desk.done("GET", f"/v1/audit?subject_pseudonym={pseudonym}&limit=3")["results"] == found
    assert all(pseudonym in one["subject_pseudonyms"] for one in found)
    both = f"/v1/audit?user_id=finn&subject_pseudonym={pseudonym}"
    assert desk.refused("GET", both) == (422, {"code": "invalid_request"})


def test_an_event_tells_its_request(desk: Desk) -> None:
    memory_id, held = desk.add(), desk.add()
    desk.hold(held)
    began = time.time()
    desk.done("GET", f"{M}/{memory_id}", key=desk.house.data)
    refused = desk.send("DELETE", f"{M}/{held}")
    desk.done("POST", "/v1/search", {"query": "kettle", "purpose": "care"}, key=desk.house.data)
    read, stopped, found = desk.done("GET", "/v1/audit?limit=500")["results"][-3:]
    assert (read["http_status"], stopped["http_status"], found["http_status"]) == (200, 423, 200)
    assert stopped["request_id"] == refused.json()["request_id"]
    assert len({one["request_id"] for one in (read, stopped, found)}) == 3
    assert found["purpose_code"] == "care"
    assert all(0 <= one["latency_ms"] <= 1000 * (time.time() - began + 1) for one in (read, stopped, found))


@pytest.mark.parametrize("path", ["receipts", "tombstones", "audit"])
def test_records_come_as_json_lines_to_the_end(desk: Desk, path: str) -> None:
    desk.erased(user_id="ivy")
    body = {"memories": [{"messages": f"part {index}"} for index in range(600)]}
    if path == "receipts":
        desk.done("POST", f"{M}/batch", body)
    answer = desk.house.call("GET", f"/v1/{path}", key=desk.house.admin, headers=LINES)
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.content.splitlines()]
    if path == "receipts":
        assert lines == [one["signed_receipt"] for one in desk.log()]
        assert len(lines) > 600  # more than a page
    elif path == "tombstones":
        assert lines == desk.done("GET", "/v1/tombstones?limit=500")["results"]
    else:
        assert lines[: len(lines)] == desk.done("GET", "/v1/audit?limit=500")["results"][: len(lines)]
    refused = desk.house.call("GET", f"/v1/{path}?limit=0", key=desk.house.admin, headers=LINES)
    assert refused.status_code == 422


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/zip", "application/zip"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("application/zip;q=0.5, application/json", "application/json"),
        ("text/html, application/zip;q=0.9, */*;q=0.1", "application/zip"),
        ("application/zip;q=0", "application/json"),
        ("application/zip;q=much", "application/json"),
        ("text/plain", "application/json"),
        ("APPLICATION/ZIP", "application/zip"),
    ],
)
def test_the_client_chooses_the_form(desk: Desk, accept: str, wanted: str) -> None:
    answer = desk.house.call("GET", "/v1/export?user_id=jo", key=desk.house.admin, headers={"accept": accept})
    assert answer.headers["content-type"] == wanted


def test_holds_and_obligations_come_in_pages(desk: Desk) -> None:
    ids = [desk.add(user_id="kim") for _ in range(5)]
    holds = []
    for index, one in enumerate(ids):
        holds.append(desk.hold(one))
        desk.clock.at += index % 2  # some at one moment, some later
    desk.done("POST", "/v1/forget", {"user_id": "kim"})
    for path in ("/v1/holds", "/v1/obligations"):
        every = desk.done("GET", f"{path}?limit=500")
        assert every["next_cursor"] is None
        for limit in (1, 2, len(every["results"])):
            found, cursor = [], ""
            while True:
                page = desk.done("GET", f"{path}?limit={limit}{cursor}")
                found += page["results"]
                if page["next_cursor"] is None:
                    break
                assert len(page["results"]) == limit
                cursor = f"&cursor={page['next_cursor']}"
            assert found == every["results"]
        assert desk.refused("GET", f"{path}?cursor=x") == (422, {"code": "invalid_request"})
    listed = [one["hold_id"] for one in desk.done("GET", "/v1/holds?limit=500")["results"]]
    assert [one for one in listed if one in holds] == sorted(holds, key=listed.index)
    assert set(holds) <= set(listed)


def _request(desk: Desk) -> bytes:
    lines = (
        "GET /v1/export?user_id=lou HTTP/1.1",
        "Host: service",
        f"Authorization: Bearer {desk.house.admin}",
    )
    return "\r\n".join([*lines, "", ""]).encode()


def test_over_the_wire_it_comes_in_chunks_and_an_early_leaver_harms_nobody(desk: Desk) -> None:
    body = {"memories": [{"messages": "word " * 8_000, "user_id": "lou"} for _ in range(60)]}
    desk.done("POST", f"{M}/batch", body)
    with serve(desk.house) as live:
        request = _request(desk)
        for _ in range(40):  # more than there are places for
            with closing(live.connect()) as early:
                early.sendall(request)
                early.recv(100)
        url = f"http://127.0.0.1:{live.port}/v1/export?user_id=lou"
        whole = httpx.get(url, headers={"authorization": f"Bearer {desk.house.admin}"}, timeout=30)
        assert whole.headers["transfer-encoding"] == "chunked"
        assert len(whole.json()["export"]["records"]) == 60


def test_a_stuck_reader_holds_a_place_and_no_thread(desk: Desk) -> None:
    with serve(desk.house) as live:
        stuck: list[socket.socket] = []
        try:
            for _ in range(6):
                one = live.connect()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.sendall(_request(desk))
                stuck.append(one)
            answer = live.ask("GET", f"{M}?limit=1", key=desk.house.data)
            assert answer.status == 200
            stuck[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # or it would take a minute
            assert read_answer(stuck[0]).status == 200
        finally:
            for one in stuck:
                one.close()
