"""What must hold after every run, whatever happened in it. SEMANTICS.md §23.

The database and the custody store are read by plain SQL, and everything is recomputed by code that shares
nothing with the engine, so that a mistake there is not repeated here. Only leaves come from the engine:
nobody else can derive them.
"""

import hashlib
import hmac
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
import rfc8785
from psycopg.rows import dict_row

from shomei_memory_verify import verify_signed_receipt
from shomei_service.engine.custody import address
from shomei_service.engine.store import memories
from shomei_service.settings import Settings
from tests.fakes import House

Row = dict[str, Any]

_ADD = "shomei.memory_add.v1"
_UPDATE = "shomei.memory_update.v1"
_DESTROYING = {"shomei.vector_delete.v1", "shomei.reerase.v1", _UPDATE}
_CLOSURE = "shomei.subject_closure.v1"
_RESTART = "shomei.log_restart.v1"
_ROTATION = "shomei.key_rotation.v1"
_OWED = "erase_on_hold_release"
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Records:
    """Everything at rest, in the order it was committed."""

    tenants: dict[str, Row]
    memories: list[Row]
    tombstones: list[Row]
    receipts: list[Row]
    intents: list[Row]
    subjects: dict[str, set[str]]
    requests: list[Row]
    deferrals: list[Row]
    owed: list[Row]
    promised: list[Row]
    cancelled: list[Row]
    holds: list[Row]
    restricted: set[str]
    consents: dict[tuple[str, str], str]
    journal: list[Row]
    commitment_ranges: list[Row]
    punctured: dict[int, Row]
    key_names: set[str]
    known_keys: set[str]


def read(settings: Settings) -> Records:
    """Read both stores and the names of the key files."""
    database, custody = settings.database, settings.custody_database
    if database.startswith(_SQLITE):
        receipts = _rows(database, "SELECT * FROM receipts ORDER BY rowid")
    else:
        receipts = _in_order(_rows(database, "SELECT * FROM receipts ORDER BY tenant_id, origin, seq"))
    punctures = _rows(custody, "SELECT * FROM custody_puncture JOIN custody_epoch USING (epoch)")
    return Records(
        tenants={one["tenant_id"]: one for one in _rows(database, "SELECT * FROM tenants")},
        memories=_rows(database, "SELECT * FROM memories"),
        tombstones=_rows(database, "SELECT * FROM tombstones"),
        receipts=[one | {"statement": json.loads(one["body"])} for one in receipts],
        intents=_rows(database, "SELECT * FROM intents"),
        subjects=_subjects(_rows(database, "SELECT * FROM memory_subjects")),
        requests=_rows(database, "SELECT * FROM requests"),
        deferrals=_rows(database, "SELECT * FROM deferrals"),
        owed=_rows(database, f"SELECT * FROM obligations WHERE state = 'open' AND kind = '{_OWED}'"),
        promised=_rows(database, "SELECT * FROM obligations WHERE state = 'open'"),
        cancelled=_rows(
            database, f"SELECT * FROM obligations WHERE state = 'cancelled' AND kind = '{_OWED}'"
        ),
        holds=_rows(database, "SELECT * FROM holds WHERE released_at IS NULL"),
        restricted={one["memory_id"] for one in _rows(database, "SELECT memory_id FROM grounds")},
        consents={
            (one["subject"], one["purpose"]): one["action"]
            for one in _rows(database, "SELECT * FROM consents ORDER BY number")
        },
        journal=_rows(custody, "SELECT * FROM custody_journal ORDER BY seq"),
        commitment_ranges=_rows(database, "SELECT * FROM commitment_ranges ORDER BY origin, first_seq"),
        punctured={int.from_bytes(one["path"]): one for one in punctures if len(one["path"]) == 7},
        key_names={entry.stem for entry in (settings.keys / "custody").glob("*")},
        known_keys={
            one["name"]
            for one in _rows(
                custody,
                "SELECT key_name AS name FROM custody_head UNION SELECT name FROM custody_pending"
                " UNION SELECT key_name FROM custody_signer",
            )
        },
    )


def _in_order(rows: list[Row]) -> list[Row]:
    """Put logs behind those that they say they follow; within one, the numbers are the order."""
    logs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        logs[row["origin"]].append(row)
    first = {origin: json.loads(log[0]["body"]) for origin, log in logs.items()}
    follows = {one["previous_origin"]: origin for origin, one in first.items() if one["schema"] == _RESTART}
    ordered: list[Row] = []
    for origin in logs.keys() - follows.values():
        following: str | None = origin
        while following is not None:
            ordered += logs[following]
            following = follows.get(following)
    assert len(ordered) == len(rows)
    return ordered


def _rows(url: str, query: str) -> list[Row]:
    if not url.startswith(_SQLITE):
        with psycopg.connect(url.replace("+psycopg", ""), row_factory=dict_row) as server:
            server.execute("SELECT set_config('shomei.tenant', '*', false)")
            return list(server.execute(query))
    with closing(sqlite3.connect(f"file:{url.removeprefix(_SQLITE)}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def _subjects(rows: list[Row]) -> dict[str, set[str]]:
    about: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        about[row["memory_id"]].add(row["subject"])
    return about


def settled(house: House, settings: Settings) -> dict[str, str]:
    """Assert every invariant of an open installation where no work is under way; return live texts by id."""
    records = read(settings)
    nothing_is_under_way(records)
    every_receipt_is_authentic(records, house.pin)
    no_log_has_a_gap(records)
    receipts_and_states_agree(records)
    no_living_row_has_a_dead_key(records)
    keys = {one: commitment_key(house, row["number"]) for one, row in records.tenants.items()}
    tombstones_are_derived(records, keys)
    every_receipt_names_the_key_of_its_time(records)
    every_closure_adds_up(records, commitment_keys(house, records))
    every_request_is_closed_as_far_as_it_came(records)
    what_is_owed_is_held(records)
    return every_living_row_opens(house, records)


def nothing_is_under_way(records: Records) -> None:
    """I-2: recovery leaves no intent, no row half erased, and no key that nobody names."""
    assert records.intents == []
    assert {row["life"] for row in records.memories} <= {"live"}
    assert records.key_names <= records.known_keys
    assert all(row["destroyed_at"] is not None for row in records.punctured.values())


def every_receipt_is_authentic(records: Records, pin: str | None) -> None:
    """I-4: each signature verifies under a pin, over exactly the text that is stored.

    A key counts as a pin once a receipt that is authentic says that it follows another.
    """
    pins = {pin}
    for row in records.receipts:
        body = row["statement"]
        text = row["body"].encode()
        assert rfc8785.dumps(body) == text
        assert row["receipt_hash"] == "sha256:" + hashlib.sha256(text).hexdigest()
        assert row["schema"] == body["schema"]
        assert (row["origin"], row["seq"]) == (body["log"]["origin"], body["log"]["seq"])
        envelope = {name: row[name] for name in ("schema", "receipt_hash", "signer_id", "public_key_hex")}
        whole = envelope | {"signature_hex": row["signature_hex"], "body": body}
        assert row["public_key_hex"] in pins
        result = verify_signed_receipt(whole, expected_public_key_hex=row["public_key_hex"])
        assert result.authenticated, result.reason
        if row["schema"] == _ROTATION and body["key_role"] == "signer":
            pins.add(body["new_public_key_hex"])


def no_log_has_a_gap(records: Records) -> None:
    """I-4: `log.seq` counts from 0 without gaps in each origin; a new origin says which one it follows."""
    logs: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in records.receipts:
        logs[row["tenant_id"], row["origin"]].append(row)
    for rows in logs.values():
        assert [row["seq"] for row in rows] == list(range(len(rows)))
        assert all(row["schema"] != _RESTART for row in rows[1:])
    for tenant, row in records.tenants.items():
        origins = [origin for owner, origin in logs if owner == tenant]
        assert all(logs[tenant, origin][0]["schema"] == _RESTART for origin in origins[1:])
        assert len(logs.get((tenant, row["log_origin"]), [])) == row["next_seq"]


def receipts_and_states_agree(records: Records) -> None:
    """I-3: one creation receipt for each living row, one destroying receipt for each tombstone, no others."""
    made: Counter[str] = Counter()
    destroyed: Counter[str] = Counter()
    by_hash = {row["receipt_hash"]: row["statement"] for row in records.receipts}
    assert len(by_hash) == len(records.receipts)
    for body in by_hash.values():
        if body["schema"] in {_ADD, _UPDATE}:
            made[body["memory_id"]] += 1
        if body["schema"] in _DESTROYING:
            destroyed[erased_by(body)] += 1
    living = [row["memory_id"] for row in records.memories]
    erased = [stone["memory_id"] for stone in records.tombstones]
    assert +made == Counter([*living, *erased])
    assert +destroyed == Counter(erased)
    for stone in records.tombstones:
        body = by_hash[stone["receipt_hash"]]
        assert body["schema"] in _DESTROYING
        assert (erased_by(body), body["tombstone_id"]) == (stone["memory_id"], stone["tombstone_id"])


def erased_by(body: Row) -> str:
    """Return which memory a destroying receipt is about; an update destroys its predecessor."""
    return body["previous_id"] if body["schema"] == _UPDATE else body["memory_id"]


def no_living_row_has_a_dead_key(records: Records) -> None:
    """I-1, I-2: a row whose leaf is punctured is never live, and no two rows share a leaf."""
    leaves = [row["address"] for row in records.memories]
    assert len(set(leaves)) == len(leaves)
    assert records.punctured.keys().isdisjoint(leaves)


def commitment_key(house: House, number: int, row: int = 0) -> bytes:
    """Return a tenant's K_commit: HKDF-Expand of a reserved leaf, the first at first. RFC 5869 §2.3."""
    leaf = house.engine.custody.derive(address(number, row))
    return hmac.digest(leaf, b"shomei/v1/tenant/commit\x01", "sha256")


def commitment_keys(house: House, records: Records) -> dict[tuple[str, str], bytes]:
    """Return every commitment key there has been, by tenant and id."""
    return {
        (one["tenant_id"], one["commit_key_id"]): commitment_key(
            house, records.tenants[one["tenant_id"]]["number"], one["leaf"]
        )
        for one in records.commitment_ranges
    }


def mac(key: bytes, label: str, data: bytes) -> str:
    """Return a keyed hash as receipts carry it."""
    return hmac.digest(key, label.encode() + b"\0" + data, "sha256").hex()


def tombstones_are_derived(records: Records, keys: Mapping[str, bytes]) -> None:
    """I-1: a tombstone's id follows from its memory, and time and cause are those of custody's epoch log."""
    statements = {row["receipt_hash"]: row["statement"] for row in records.receipts}
    epochs = {(row["epoch"], row["at"], row["cause"]) for row in records.punctured.values()}
    for stone in records.tombstones:
        key = keys[stone["tenant_id"]]
        assert stone["tombstone_id"] == "ts_" + mac(key, "tombstone-v1", stone["memory_id"].encode())[:32]
        body = statements[stone["receipt_hash"]]
        epoch = body.get("original_epoch", body["epoch_after"])
        assert (epoch, stone["erased_at"], stone["cause"]) in epochs


def every_receipt_names_the_key_of_its_time(records: Records) -> None:
    """T-15: the last range that began at or before a receipt has its key; a new one follows its statement."""
    logs: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for one in records.commitment_ranges:
        logs[one["tenant_id"], one["origin"]].append(one)
    follows: dict[tuple[str, str, int], str] = {}
    for row in records.receipts:
        body = row["statement"]
        ranges = logs[row["tenant_id"], row["origin"]]
        named = [one["commit_key_id"] for one in ranges if one["first_seq"] <= row["seq"]]
        assert body["commit_key_id"] == named[-1]
        if row["schema"] == _ROTATION and body["key_role"] == "commit":
            assert body["old_key_id"] == body["commit_key_id"]
            follows[row["tenant_id"], row["origin"], row["seq"] + 1] = body["new_key_id"]
    begun = {
        (tenant, origin, one["first_seq"]): one["commit_key_id"]
        for (tenant, origin), ranges in logs.items()
        for one in ranges
        if one["first_seq"]
    }
    assert begun == follows
    for tenant, row in records.tenants.items():
        newest = max(logs[tenant, row["log_origin"]], key=lambda one: one["first_seq"])
        assert row["commit_key_id"] == newest["commit_key_id"]


def every_closure_adds_up(records: Records, keys: Mapping[tuple[str, str], bytes]) -> None:
    """I-7: m = e + d, the disposition follows, and an auditor recomputes the closed set of that moment."""
    before: set[str] = set()
    for row in records.receipts:
        body = row["statement"]
        before.add(row["receipt_hash"])
        if body["schema"] != _CLOSURE:
            continue
        matched, erased, deferred = (body[f"{name}_count"] for name in ("matched", "erased", "deferred"))
        assert matched == erased + deferred
        assert body["disposition"] == _disposition(matched, erased)
        stones = [
            stone
            for stone in records.tombstones
            if body["subject_pseudonym"] in records.subjects[stone["memory_id"]]
            and stone["receipt_hash"] in before
        ]
        assert body["closed_set_size"] == len(stones)
        assert body["closed_set_commitment"] == _closed_set(
            keys[row["tenant_id"], body["commit_key_id"]], body, stones
        )


def every_request_is_closed_as_far_as_it_came(records: Records) -> None:
    """I-7: closures of one request agree, follow each other and grow; nothing is counted that is alive."""
    closures: dict[str, list[Row]] = defaultdict(list)
    for row in records.receipts:
        if row["schema"] == _CLOSURE:
            closures[row["statement"]["request_id"]].append(row)
    # What a lost database held and erased has no tombstone in the one that was put back.
    restored = {row["tenant_id"] for row in records.receipts if row["schema"] == _RESTART}
    for request in records.requests:
        stated = closures.pop(request["request_id"], [])
        bodies = [row["statement"] for row in stated]
        hashes = [None, *(row["receipt_hash"] for row in stated)]
        assert [body["prior_closure_hash"] for body in bodies] == hashes[:-1]
        assert {body["matched_count"] for body in bodies} <= {request["matched_count"]}
        counts = [body["erased_count"] for body in bodies]
        assert counts == sorted(set(counts))
        assert not counts or counts[-1] == request["erased_count"]
        waiting = [one for one in records.deferrals if one["request_id"] == request["request_id"]]
        taken_back = [one for one in records.cancelled if one["subject"] == request["subject"]]
        rest = request["matched_count"] - request["erased_count"] - len(waiting)
        assert 0 <= rest <= len(taken_back)
        subject, stones = request["subject"], records.tombstones
        about = [one for one in stones if subject in records.subjects[one["memory_id"]]]
        assert request["tenant_id"] in restored or request["erased_count"] <= len(about)
    assert closures == {}


def what_is_owed_is_held(records: Records) -> None:
    """I-6, I-11: an erasure that is still owed waits for a living row, and for a hold that is open."""
    living = {row["memory_id"] for row in records.memories}
    held = {one["memory_id"] for one in records.holds} | {one["subject"] for one in records.holds}
    for one in [*records.owed, *records.deferrals]:
        assert one["memory_id"] in living
        assert held & {one["memory_id"], *records.subjects[one["memory_id"]]}


def _disposition(matched: int, erased: int) -> str:
    """The table of SEMANTICS.md §8."""
    table = {(False, False): "noop_no_match", (True, False): "deferred"}
    return table.get((matched > 0, erased > 0)) or ("complete" if erased == matched else "partial")


def _closed_set(key: bytes, body: Row, stones: Sequence[Row]) -> str:
    names = ("memory_id", "tombstone_id", "erased_at", "cause")
    leaves = sorted(rfc8785.dumps({name: stone[name] for name in names}).decode() for stone in stones)
    whole = rfc8785.dumps([body["tenant_id_hash"], body["subject_pseudonym"], leaves])
    return "hmac-sha256:" + mac(key, "closed-set-v1", whole)


def every_living_row_opens(house: House, records: Records) -> dict[str, str]:
    """I-12: every live row of every tenant opens, content and features; return the texts by id."""
    texts: dict[str, str] = {}
    for tenant, row in _living(house, records):
        texts[row.memory_id] = house.engine.rows.open_content(tenant, row).text
        house.engine.rows.open_features(tenant, row)
    return texts


def _living(house: House, records: Records) -> Iterator[tuple[Any, Any]]:
    with house.engine.store.snapshot() as connection:
        yield from memories.at_addresses(connection, [row["address"] for row in records.memories])
