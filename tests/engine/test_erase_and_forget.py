"""Erase and forget: the proof says what happened, and only what happened."""

import hashlib
import hmac
import json

import pytest
import rfc8785

from shomei_service.engine.custody import Address, Punctured, address
from shomei_service.engine.custody.sealing import commitment_key
from shomei_service.engine.errors import Forbidden, Invalid, NotFound
from shomei_service.engine.model import Basis, Json, MemoryStatus, NewMemory
from shomei_service.engine.store import memories, receipts, tenants, tombstones
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.add import add_batch
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.read import get, page
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.status import status
from tests.fakes import House, authentic


def test_an_erased_memory_is_gone_and_proven(house: House) -> None:
    memory_id = house.remember("the kettle is blue", "alice")
    with house.engine.reading(house.data.tenant) as unit:
        row = memories.find(unit, memory_id)
    assert row is not None
    proof = erase(house.engine, house.admin, memory_id, Basis.SUBJECT_REQUEST)
    assert authentic(proof.receipt, house.pin)
    assert search(house.engine, house.data, "kettle").results == []
    with pytest.raises(NotFound):
        get(house.engine, house.data, memory_id)
    with pytest.raises(Punctured):
        house.engine.custody.derive(Address(row.address))
    body = proof.receipt.body
    assert (body["cause"], body["basis"]) == ("delete_request", "subject_request")
    assert (body["epoch_before"], body["epoch_after"]) == (0, 1)
    assert (body["key_custody"], body["finality"]) == ("dev_local_file", "unassured")


def test_status_follows_a_memory_to_its_end(house: House) -> None:
    memory_id = house.remember("the kettle is blue")
    assert status(house.engine, house.data, memory_id) == MemoryStatus(valid=True, retrieval_safe=True)
    erase(house.engine, house.admin, memory_id)
    erased = MemoryStatus(valid=False, embedding_retired=True, failures=("erased",))
    assert status(house.engine, house.data, memory_id) == erased
    upkeep(house.engine)
    # On PostgreSQL old pages stay until vacuum and log recycling, and the status says so.
    purged = status(house.engine, house.data, memory_id).physically_purged
    assert purged is house.engine.store.is_sqlite


def test_unknown_foreign_and_erased_ids_are_one_answer(house: House) -> None:
    memory_id = house.remember("mine")
    stranger = house.stranger()
    unknown = MemoryStatus(valid=None)
    assert status(house.engine, stranger, memory_id) == status(house.engine, stranger, "lm_0") == unknown
    erase(house.engine, house.admin, memory_id)
    for caller, asked in ((stranger, memory_id), (house.admin, memory_id), (house.admin, "lm_" + "0" * 32)):
        with pytest.raises(NotFound, match="no such memory"):
            erase(house.engine, caller, asked)


def test_a_data_key_may_not_erase(house: House) -> None:
    with pytest.raises(Forbidden, match="this action requires an admin-scoped key"):
        erase(house.engine, house.data, "lm_0")
    with pytest.raises(Forbidden):
        forget(house.engine, house.data, "alice")


def test_forget_erases_exactly_the_subject_in_one_epoch(house: House) -> None:
    kept = house.remember("bob's fact", "bob")
    nobodys = house.remember("a fact about nobody")
    add_batch(house.engine, house.data, [NewMemory(f"fact {n}", "alice") for n in range(40)])
    forgotten = forget(house.engine, house.admin, "alice")
    assert len({one.memory_id for one in forgotten.erased}) == forgotten.matched_count == 40
    assert {one.receipt.body["epoch_after"] for one in forgotten.erased} == {1}
    assert all(authentic(one.receipt, house.pin) for one in forgotten.erased)
    assert [one.memory_id for one in page(house.engine, house.data).memories] == [kept, nobodys]


def test_a_forget_reaches_past_every_chunk(house: House) -> None:
    """DEV-14: no page, chunk or limit ends a forget early."""
    for _ in range(2):
        add_batch(house.engine, house.data, [NewMemory(f"fact {n}", "bulk") for n in range(525)])
    forgotten = forget(house.engine, house.admin, "bulk")
    assert forgotten.closure is not None
    assert len({one.memory_id for one in forgotten.erased}) == 1050
    assert forgotten.closure.body["erased_count"] == 1050
    assert forget(house.engine, house.admin, "bulk").erased == []


def test_the_closure_adds_up_and_repeats_agree(house: House) -> None:
    add_batch(house.engine, house.data, [NewMemory(f"fact {n}", "alice") for n in range(3)])
    first = forget(house.engine, house.admin, "alice").closure
    second = forget(house.engine, house.admin, "alice").closure
    assert first is not None
    assert second is not None
    assert authentic(first, house.pin)
    counts = [first.body[name] for name in ("matched_count", "erased_count", "deferred_count", "disposition")]
    assert counts == [3, 3, 0, "complete"]
    assert second.body["disposition"] == "noop_no_match"
    assert second.body["closed_set_commitment"] == first.body["closed_set_commitment"]


def test_an_auditor_recomputes_the_closed_set(house: House) -> None:
    """From the tombstones and the commitment key alone, by code that shares nothing with the service."""
    add_batch(house.engine, house.data, [NewMemory(f"fact {n}", "alice") for n in range(3)])
    closure = forget(house.engine, house.admin, "alice").closure
    assert closure is not None
    with house.engine.reading(house.data.tenant) as unit:
        tenant = tenants.get(unit)
        stones = tombstones.about(unit, closure.body["subject_pseudonym"])  # type: ignore[arg-type]
    key = commitment_key(house.engine.custody.derive(address(tenant.number, 0)))

    def mac(label: str, data: bytes) -> str:
        return "hmac-sha256:" + hmac.new(key, label.encode() + b"\0" + data, hashlib.sha256).hexdigest()

    assert closure.body["tenant_id_hash"] == mac("tenant-v1", tenant.tenant_id.encode())
    assert closure.body["subject_pseudonym"] == mac("subject-v1", b"alice")
    leaves = sorted(
        json.dumps(
            {
                "cause": one.cause,
                "erased_at": one.erased_at,
                "memory_id": one.memory_id,
                "tombstone_id": one.tombstone_id,
            },
            separators=(",", ":"),
        )
        for one in stones
    )
    whole: list[Json] = [
        closure.body["tenant_id_hash"],
        closure.body["subject_pseudonym"],
        list[Json](leaves),
    ]
    assert closure.body["closed_set_commitment"] == mac("closed-set-v1", rfc8785.dumps(whole))  # type: ignore[arg-type]


def test_forgetting_a_stranger_is_no_error_and_tells_nothing(house: House) -> None:
    closure = forget(house.engine, house.admin, "nobody ever").closure
    assert closure is not None
    assert closure.body["disposition"] == "noop_no_match"
    assert "nobody ever" not in str(closure)


@pytest.mark.parametrize("name", ["", "   ", "a\0"])
def test_a_blank_subject_is_refused_and_erases_nothing(house: House, name: str) -> None:
    house.remember("kept")
    with pytest.raises(Invalid):
        forget(house.engine, house.admin, name)
    assert len(page(house.engine, house.data).memories) == 1


def test_new_memories_after_a_forget_are_new(house: House) -> None:
    house.remember("old", "alice")
    forget(house.engine, house.admin, "alice")
    again = house.remember("new", "alice")
    assert [one.memory_id for one in page(house.engine, house.data, user_id="alice").memories] == [again]


def test_the_log_counts_every_receipt_once(house: House) -> None:
    house.remember("one", "alice")
    erase(house.engine, house.admin, house.remember("two"))
    forget(house.engine, house.admin, "alice")
    with house.engine.reading(house.data.tenant) as unit:
        rows = receipts.page(unit, tenants.get(unit).log_origin, -1, 100)
    assert [row.seq for row in rows] == list(range(5))
    assert [row.schema.removeprefix("shomei.").removesuffix(".v1") for row in rows] == [
        "memory_add",
        "memory_add",
        "vector_delete",
        "vector_delete",
        "subject_closure",
    ]


def test_receipts_hold_no_guessable_hash(house: House) -> None:
    """DEV-28: equal texts share no value, and no plain hash of text, subject or tenant is in any receipt."""
    stranger = house.stranger()
    news = [NewMemory("yes", "alice@example.com")] * 2
    mine = [one.receipt for one in add_batch(house.engine, house.data, news)]
    theirs = [one.receipt for one in add_batch(house.engine, stranger, news[:1])]
    own = [{str(value) for value in one.body.values() if "hmac" in str(value)} for one in (*mine, *theirs)]
    assert own[0] & own[2] == set()
    everything = " ".join(str(one) for one in (*mine, *theirs)) + str(
        forget(house.engine, house.admin, "alice@example.com")
    )
    for word in ("yes", "alice@example.com", house.data.tenant, "default"):
        for name in ("md5", "sha1", "sha256", "sha512", "blake2b"):
            digest = hashlib.new(name, word.encode()).hexdigest()
            assert digest[:16] not in everything
