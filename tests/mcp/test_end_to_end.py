"""All ten tools through real pipes against the real service, in both protocol generations."""

import json
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from shomei_memory_mcp.answers import MAX_TEXT_BYTES
from tests.fakes import Home, new_home
from tests.mcp.host import RELAY, Host, environment, until
from tests.service import serving

MARK = "zq7end2end"
FORBIDDEN = "this action requires an admin-scoped key"
UNKNOWN = "lm_" + 32 * "0"
MANY = 300
ADMIN_TOOLS = ("update_memory", "delete_memory", "forget_subject", "restrict_memory")


@dataclass(frozen=True)
class World:
    """One running service, its keys and its log."""

    home: Home
    url: str
    log: Path

    def http(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Ask the service itself what no tool asks."""
        key = {"authorization": f"Bearer {self.home.admin_token}"}
        answer = httpx.request(method, self.url + path, json=body, headers=key, trust_env=False, timeout=30)
        assert answer.is_success, answer.text
        return answer.json()

    def is_idle(self) -> bool:
        """Say whether the service does nothing but answer this."""
        answer = httpx.get(
            self.url + "/metrics",
            headers={"authorization": f"Bearer {self.home.admin_token}"},
            trust_env=False,
            timeout=30,
        )
        calls = re.findall(r'^shomei_lane_calls{lane="(\w+)"} ([\d.]+)$', answer.text, re.MULTILINE)
        return {lane for lane, count in calls if float(count)} == {"read"}

    def receipts(self) -> list[dict[str, Any]]:
        """Return the whole receipt log."""
        found: list[dict[str, Any]] = []
        while page := self.http("GET", f"/v1/receipts?limit=500&after_seq={len(found) - 1}")["results"]:
            found += page
        return found


@dataclass(frozen=True)
class Relay:
    """A host's connection to one relay process."""

    portal: BlockingPortal
    client: Client

    def call(self, name: str, **params: Any) -> dict[str, Any]:
        """Call a tool that must succeed; both forms of its answer are one."""
        result = self._call(name, params)
        assert not result.is_error, result.content[0].text
        assert json.loads(result.content[0].text) == result.structured_content
        assert len(result.content[0].text.encode()) <= MAX_TEXT_BYTES
        return result.structured_content

    def refused(self, name: str, **params: Any) -> tuple[str, dict[str, Any] | None]:
        """Call a tool that must fail; return its words and its structure."""
        result = self._call(name, params)
        assert result.is_error, result.content[0].text
        return result.content[0].text, result.structured_content

    def found(self, query: str, **params: Any) -> set[str]:
        """Search and return the ids."""
        return {one["id"] for one in self.call("search_memory", query=query, **params)["results"]}

    def _call(self, name: str, params: dict[str, Any]) -> Any:
        return self.portal.call(self.client.call_tool, name, {"params": params})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("service")
    home = new_home(folder)
    with serving(home, folder) as service:
        yield World(home, service.url, service.log)


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


def connected(world: World, portal: BlockingPortal, mode: str, key: str) -> Any:
    env = environment(world.url, SHOMEI_MCP_API_KEY=key)
    relay = StdioServerParameters(command=RELAY[0], args=RELAY[1:], env=env)
    return portal.wrap_async_context_manager(Client(stdio_client(relay), mode=mode))


@pytest.fixture(scope="module", params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def admin(world: World, portal: BlockingPortal, mode: str) -> Iterator[Relay]:
    with connected(world, portal, mode, world.home.admin_token) as client:
        yield Relay(portal, client)


@pytest.fixture(scope="module")
def data(world: World, portal: BlockingPortal, mode: str) -> Iterator[Relay]:
    with connected(world, portal, mode, world.home.data_token) as client:
        yield Relay(portal, client)


def is_authentic(relay: Relay, world: World, envelope: object) -> bool:
    verdict = relay.call("verify_receipt", receipt=envelope, expected_public_key_hex=world.home.pin)
    assert verdict["valid"] is verdict["authenticated"]
    return verdict["authenticated"]


def test_a_memory_lives_and_is_erased_through_the_tools(world: World, admin: Relay, mode: str) -> None:
    word = f"{MARK}{mode}life"
    before = len(world.receipts())
    added = admin.call("add_memory", messages=f"  the {word} lamp ", user_id=mode)["results"][0]
    assert (added["memory"], added["event"]) == (f"the {word} lamp", "ADD")
    hit = admin.call("search_memory", query=word, user_id=mode, limit=5)["results"][0]
    assert (hit["id"], hit["memory"], hit["user_id"]) == (added["id"], f"the {word} lamp", mode)
    assert hit["quote"]["text"] == hit["memory"][hit["quote"]["start"] : hit["quote"]["end"]]
    assert admin.call("get_receipt", memory_id=added["id"])["valid"] is True

    updated = admin.call("update_memory", memory_id=added["id"], data=f"the {word} lantern")["results"][0]
    assert (updated["previous_id"], updated["event"]) == (added["id"], "UPDATE")
    assert admin.found(word) == {updated["id"]}
    assert admin.call("get_receipt", memory_id=added["id"])["failures"] == ["erased"]

    on = admin.call("restrict_memory", memory_id=updated["id"])
    assert (on["restricted"], on["changed"], on["receipt"]["reason_code"]) == (True, True, "art18_request")
    assert admin.call("restrict_memory", memory_id=updated["id"]) == {
        "id": updated["id"],
        "restricted": True,
        "changed": False,
    }
    assert admin.found(word) == admin.found(word, user_id=mode) == set()
    status = admin.call("get_receipt", memory_id=updated["id"])
    assert (status["valid"], status["retrieval_safe"], status["failures"]) == (True, False, ["restricted"])
    words, structure = admin.refused("update_memory", memory_id=updated["id"], data="x")
    assert ("409" in words, structure) == (True, None)
    assert not any(hint in words.lower() for hint in ("art18", "withdrawn"))
    off = admin.call("restrict_memory", memory_id=updated["id"], restricted=False, reason="whatever")
    assert (off["restricted"], off["code"]) == (False, "art18_lifted")
    assert admin.found(word) == {updated["id"]}

    gone = admin.call("delete_memory", memory_id=updated["id"])
    assert (gone["deleted"], gone["message"]) == (True, "memory deleted (governed crypto-erasure)")
    assert gone["receipt"]["cause"] == "delete_request"
    assert admin.found(word) == set()
    assert admin.call("get_receipt", memory_id=updated["id"])["embedding_retired"] is True
    _, structure = admin.refused("delete_memory", memory_id=updated["id"])
    assert structure is not None
    assert (structure["code"], structure["deleted"]) == ("not_found", False)

    envelopes = [one["signed_receipt"] for one in (added, updated, on, off, gone)]
    assert len(world.receipts()) == before + len(envelopes)
    assert all(is_authentic(admin, world, envelope) for envelope in envelopes)
    forged = {**gone["signed_receipt"], "body": {**gone["receipt"], "memory_id": added["id"]}}
    assert not is_authentic(admin, world, forged)
    unpinned = admin.call("verify_receipt", receipt=gone["signed_receipt"])
    assert (unpinned["valid"], unpinned["authenticated"], unpinned["reason"]) == (True, False, "ok_unpinned")


def test_lineage_through_both_tools(world: World, data: Relay, admin: Relay) -> None:
    source = data.call("add_memory", messages=f"{MARK} a source")["results"][0]["id"]
    body = {"messages": f"{MARK} made from it", "derived_from": [source]}
    derived = world.http("POST", "/v1/memories", body)["results"][0]["id"]
    made = {"type": "derived_from", "from": derived, "to": source}
    for start, end, direction in (
        (derived, source, "out"),
        (source, derived, "in"),
        (source, derived, "both"),
    ):
        near = data.call("lineage_neighbors", memory_id=start, direction=direction)
        graph = data.call("lineage_graph", memory_id=start, direction=direction, limit="50")
        assert near["neighbors"] == [{"id": end, "kind": "memory", "recallable": True}]
        assert graph["nodes"] == [{"id": start, "kind": "memory", "recallable": True}, *near["neighbors"]]
        assert graph["edges"] == near["edges"] == [made]
        assert (graph["truncated"], near["truncated"]) == (False, False)
    assert data.call("lineage_neighbors", memory_id=source)["neighbors"] == []
    assert data.call("lineage_graph", memory_id=source, direction="in", limit=0)["truncated"] is True
    admin.call("delete_memory", memory_id=source)
    assert data.refused("lineage_graph", memory_id=derived)[1] is None  # out of recall with its source
    nodes = admin.call("lineage_graph", memory_id=derived)["nodes"]
    assert nodes[1] == {"id": source, "kind": "tombstone", "recallable": False}


def test_a_hold_stops_the_tools(world: World, admin: Relay, mode: str) -> None:
    subject = f"{mode} held"
    held, free = (
        admin.call("add_memory", messages=f"{MARK} {word}", user_id=subject)["results"][0]["id"]
        for word in ("held", "free")
    )
    hold = {"scope": "memory", "memory_id": held, "authority_code": "litigation"}
    hold_id = world.http("POST", "/v1/holds", hold)["hold_id"]
    _, structure = admin.refused("delete_memory", memory_id=held)
    assert structure is not None
    assert (structure["code"], structure["deleted"], structure["held"]) == ("held", False, True)
    words, _ = admin.refused("update_memory", memory_id=held, data="x")
    assert "423" in words
    forgotten = admin.call("forget_subject", user_id=subject)
    assert (forgotten["erased_ids"], forgotten["deferred_ids"]) == ([free], [held])
    assert is_authentic(admin, world, forgotten["signed_closure_receipt"])
    lifted = admin.call("restrict_memory", memory_id=held, restricted=False)
    assert (lifted["restricted"], lifted["changed"], lifted["code"]) == (True, False, "erasure_deferred")
    url = f"/v1/holds/{hold_id}?release_code=matter_closed&confirm=true"
    assert world.http("DELETE", url)["erased_ids"] == [held]
    assert admin.call("get_receipt", memory_id=held)["failures"] == ["erased"]


def test_a_subject_with_many_memories_is_forgotten_and_every_proof_holds(
    world: World, admin: Relay, mode: str
) -> None:
    subject = f"{mode} many"
    body = {"memories": [{"messages": f"{MARK} note {index}", "user_id": subject} for index in range(MANY)]}
    ids = {one["id"] for one in world.http("POST", "/v1/memories/batch", body)["results"]}
    shown = admin.call("search_memory", query=f"{MARK} note", user_id=subject, limit=100)
    assert len(shown["results"]) + shown.get("omitted", 0) == 100
    before = len(world.receipts())
    forgotten = admin.call("forget_subject", user_id=subject)
    assert (forgotten["subject"], forgotten["matched_count"], forgotten["erased_count"]) == (
        subject,
        MANY,
        MANY,
    )
    assert (forgotten["deferred_count"], forgotten["closure_receipt"]["disposition"]) == (0, "complete")
    # Too much for a host: the proofs are where the answer says they are.
    assert forgotten["signed_receipts_omitted"] == MANY
    assert forgotten["signed_receipts_at"] == "GET /v1/receipts"
    assert admin.found(f"{MARK} note", user_id=subject) == set()
    proofs = [one["signed_receipt"] for one in world.receipts()[before:]]
    assert {one["body"]["memory_id"] for one in proofs[:-1]} == ids
    assert proofs[-1] == forgotten["signed_closure_receipt"]
    assert all(is_authentic(admin, world, proof) for proof in proofs)
    again = admin.call("forget_subject", user_id=subject)
    assert (again["matched_count"], again["already_erased_count"]) == (0, MANY)


def test_a_data_key_governs_nothing(world: World, data: Relay, mode: str) -> None:
    subject = f"{mode} safe"
    memory_id = data.call("add_memory", messages=f"{MARK} stays", user_id=subject)["results"][0]["id"]
    before = len(world.receipts())
    for target in (memory_id, UNKNOWN):
        asked: dict[str, dict[str, Any]] = {
            "update_memory": {"memory_id": target, "data": "x"},
            "delete_memory": {"memory_id": target},
            "forget_subject": {"user_id": subject},
            "restrict_memory": {"memory_id": target},
        }
        assert asked.keys() == set(ADMIN_TOOLS)
        for name, params in asked.items():
            words, structure = data.refused(name, **params)
            assert FORBIDDEN in words
            assert structure is None
        assert FORBIDDEN in data.refused("restrict_memory", memory_id=target, restricted=False)[0]
    assert len(world.receipts()) == before
    assert data.found(f"{MARK} stays", user_id=subject) == {memory_id}
    assert data.call("get_receipt", memory_id=memory_id)["valid"] is True
    world.http("POST", f"/v1/memories/{memory_id}/restrict", {})
    assert data.call("get_receipt", memory_id=memory_id) == {"valid": None, "reason": "not_found"}


@pytest.mark.parametrize(
    "segment", [".", " .. ", "../memories", "%2e%2e", "x/restrict", "x?basis=unspecified"]
)
def test_no_id_reaches_anything_else(world: World, admin: Relay, segment: str) -> None:
    """DEV-06, with the service that would have obeyed."""
    before = len(world.receipts())
    for name, more in (
        ("delete_memory", {}),
        ("update_memory", {"data": "x"}),
        ("restrict_memory", {}),
        ("restrict_memory", {"restricted": False}),
        ("lineage_graph", {}),
    ):
        admin.refused(name, memory_id=segment, **more)
    assert len(world.receipts()) == before


def test_a_text_comes_back_code_point_for_code_point(world: World, admin: Relay, mode: str) -> None:
    """DEV-03, through the relay, the service and its storage."""
    family, mark = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u200f"
    text = f"{MARK} a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\r\nh\ti\ufeffj {family} {mark} k"
    subject = f"{mode} points"
    added = admin.call("add_memory", messages=text, user_id=subject)["results"][0]
    found = admin.call("search_memory", query=text, user_id=subject)["results"][0]
    assert added["memory"] == found["memory"] == text
    exported = world.http("GET", f"/v1/export?user_id={quote(subject)}")
    assert [one["text"] for one in exported["export"]["records"]] == [text]
    with_nul = admin.call("add_memory", messages=f"{MARK} x\x00y", user_id=subject)["results"][0]
    assert with_nul["memory"] == f"{MARK} x\x00y"
    words, _ = admin.refused("add_memory", messages=MARK, user_id="u\x00v")
    assert "422" in words
    admin.call("forget_subject", user_id=subject)


def test_a_cancelled_write_is_whole_or_absent(world: World, mode: str) -> None:
    """DEV-02 (d): nothing claims success, and what is stored is stored with its proof."""
    subject, dice = f"{mode} cancelled", random.Random(3)
    before = len(world.receipts())
    with Host(environment(world.url, SHOMEI_MCP_API_KEY=world.home.admin_token)) as host:
        host.initialize()
        cancelled: list[object] = []
        for turn in range(30):
            params = {"messages": f"{MARK} number {turn}", "user_id": subject}
            cancelled.append(host.ask("tools/call", {"name": "add_memory", "arguments": {"params": params}}))
            time.sleep(dice.random() * 0.02)
            notice = {"method": "notifications/cancelled", "params": {"requestId": cancelled[-1]}}
            host.send({"jsonrpc": "2.0", **notice})
        assert host.request("ping")["result"] == {}
        until(world.is_idle)
        answered = {json.loads(line)["id"] for line in host.lines} & set(cancelled)
        found = host.call("search_memory", query=f"{MARK} number", user_id=subject, limit=100)
        stored = {one["id"] for one in found["structuredContent"]["results"]}
        assert len(stored) >= len(answered)
        issued = {one["signed_receipt"]["body"]["memory_id"] for one in world.receipts()[before:]}
        assert issued == stored
        forgotten = host.call("forget_subject", user_id=subject)["structuredContent"]
        assert forgotten["erased_count"] == len(stored)
        assert host.end() == 0
    assert host.stderr == b""


def test_a_key_nobody_gave_out_is_refused(world: World, portal: BlockingPortal, mode: str) -> None:
    forged = world.home.admin_token[:-4] + "AAAA"
    with connected(world, portal, mode, forged) as client:
        relay = Relay(portal, client)
        assert "401" in relay.refused("add_memory", messages=MARK)[0]
        assert forged not in relay.refused("forget_subject", user_id=MARK)[0]
        envelope = world.receipts()[0]["signed_receipt"]
        assert is_authentic(relay, world, envelope)  # which asks nobody


def test_the_service_logged_nothing_personal(world: World) -> None:
    log = world.log.read_text()
    assert "route=/v1/memories/{memory_id} status=200" in log
    assert "status=500" not in log
    for word in (MARK, "legacy", "auto held", "lm_", world.home.admin_token, world.home.data_token):
        assert word not in log
