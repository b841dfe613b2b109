"""What people met in public in software of this kind, asked of the engine: DEV-14, 15, 17 to 21, 28, T-37."""

import base64
import hashlib
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations, product

import pytest

from shomei_service.engine.errors import Blocked, ErasureInProgress, Held, Invalid, NotFound
from shomei_service.engine.model import (
    Authority,
    Direction,
    DisclosureGround,
    Erased,
    Forgotten,
    Ground,
    NewMemory,
)
from shomei_service.engine.store import memories
from shomei_service.engine.verbs import disclose, hold, lineage, read, status
from shomei_service.engine.verbs.add import add_batch
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.lineage import Graph, graph, neighbors
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.update import update
from tests.engine.verbs import cells
from tests.engine.verbs.office import Office, at_once, kind, said_no
from tests.engine.verbs.side_by_side import Beside, Running
from tests.statements import statements

UNKNOWN = "lm_" + "0" * 32


@pytest.fixture
def office(running: Running) -> Office:
    """One tenant."""
    return Office.opened(running)


def hold_on(office: Office, memory_id: str) -> hold.Held:
    return hold.place(office.engine, office.admin, hold.NewHold(Authority.LITIGATION, memory_id=memory_id))


# ---- DEV-14


def test_dev_14_forget_reaches_every_page(office: Office) -> None:
    engine, admin, began = office.engine, office.admin, time.monotonic()
    ids: list[str] = []
    for size in (1000, 50):
        ids += [one.memory_id for one in add_batch(engine, office.data, [NewMemory("bulk", "bulk")] * size)]
    for memory_id in ids[:3]:
        restrict(engine, admin, memory_id)
    twice = update(engine, admin, update(engine, admin, ids[3], "bulk again").memory_id, "bulk at last")
    expected = {*ids[:3], *ids[4:], twice.memory_id}
    done = forget(engine, admin, "bulk")
    assert (done.matched_count, len(done.erased), done.deferred_ids) == (1050, 1050, [])
    assert {one.memory_id for one in done.erased} == expected
    assert len({one.receipt.receipt_hash for one in done.erased}) == 1050
    assert all(office.is_authentic(one.receipt) for one in done.erased)
    assert done.closure is not None
    assert office.is_authentic(done.closure)
    closure = done.closure.body
    assert (closure["matched_count"], closure["erased_count"]) == (1050, 1050)
    assert closure["closed_set_size"] == 1052  # the two wordings that updates replaced are closed too
    assert office.found("bulk") == set()
    assert read.page(engine, office.data, user_id="bulk").memories == []
    again = forget(engine, admin, "bulk")
    assert (again.matched_count, again.erased, again.already_erased_count) == (0, [], 1052)
    deleted = [body["memory_id"] for body in office.log() if kind(body) == "vector_delete"]
    assert len(deleted) == len(set(deleted)) == 1050
    assert time.monotonic() - began < 60


# ---- DEV-15

NAMES = {
    "plain": "alice",
    "capital": "Alice",
    "spaces": " alice ",
    "percent": "alice%",
    "underscore": "a_ice",
    "star": "*",
    "wildcard": "%",
    "quote": "' OR '1'='1",
    "path": "../alice",
    "full_width": "ａｌｉｃｅ",
    "composed": "Zo\u00eb",
    "decomposed": "Zoe\u0308",
    "emoji": "🐙",
    "long": "a" * 256,
}


def test_dev_15_forget_hits_exactly_its_subject(office: Office) -> None:
    engine, admin = office.engine, office.admin
    owned = {name: office.remember("a kettle", name) for name in NAMES.values()}
    nobodys = office.remember("a kettle")
    elsewhere = Office.opened(office.running, "elsewhere")
    theirs = elsewhere.remember("a kettle", "alice")
    left = {nobodys, *owned.values()}
    for name in (NAMES[one] for one in ("percent", "star", "wildcard", "underscore", "quote", "plain")):
        assert office.found("kettle", name) == {owned[name]}
        assert [one.memory_id for one in forget(engine, admin, name).erased] == [owned[name]]
        left -= {owned[name]}
        assert office.found("kettle") == left
        assert office.found("kettle", name) == set()
    assert elsewhere.found("kettle", "alice") == {theirs}
    for name in set(NAMES.values()) - {"alice", "alice%", "*", "%", "a_ice", "' OR '1'='1"}:
        assert office.found("kettle", name) == {owned[name]}  # case, form and spaces are told apart by all


@pytest.mark.parametrize("name", ["", "   ", "\t\n", "\0", "a" * 257, "\ud800"])
def test_dev_15_a_name_that_is_none_is_refused_by_every_verb(office: Office, name: str) -> None:
    engine, admin = office.engine, office.admin
    kept = office.remember("a kettle", "alice")
    calls: list[Callable[[], object]] = [
        lambda: office.remember("a kettle", name),
        lambda: office.found("kettle", name),
        lambda: forget(engine, admin, name),
        lambda: read.page(engine, office.data, user_id=name),
        lambda: hold.place(engine, admin, hold.NewHold(Authority.LITIGATION, user_id=name)),
    ]
    assert {said_no(call)[0] for call in calls} == {Invalid}
    assert office.found("kettle") == {kept}


# ---- DEV-17


def test_dev_17_a_hold_stops_every_destructive_path(office: Office) -> None:
    engine, admin = office.engine, office.admin
    m1, m2 = office.remember("kept", "alice"), office.remember("free", "alice")
    hold_on(office, m1)
    with engine.reading(office.tenant) as unit:
        before = memories.find(unit, m1)
    so_far = len(office.log())
    for stopped in (partial(erase, engine, admin, m1), partial(update, engine, admin, m1, "other")):
        assert said_no(stopped)[0] is Held
    assert len(office.log()) == so_far
    done = forget(engine, admin, "alice")
    assert ([one.memory_id for one in done.erased], done.deferred_ids) == ([m2], [m1])
    assert office.found("kept") == set()
    assert lift(engine, admin, m1).code == "erasure_deferred"
    assert said_no(partial(erase, engine, admin, m1))[0] is Held
    again = forget(engine, admin, "alice")
    assert (again.erased, again.deferred_ids) == ([], [m1])
    assert [kind(body) for body in office.log()].count("vector_delete") == 1
    # The text is preserved to the byte, and may be read on a ground.
    with engine.reading(office.tenant) as unit:
        after = memories.find(unit, m1)
    assert before is not None
    assert after is not None
    assert (after.sealed_dek, after.sealed_content) == (before.sealed_dek, before.sealed_content)
    told = disclose.disclose(engine, admin, m1, DisclosureGround.LEGAL_CLAIMS)
    assert told.memory.content.text == "kept"


def test_dev_17_a_hold_and_an_erase_at_once(office: Office) -> None:
    """T-19, fifty rounds: held and alive, or erased and the hold refused; never both, never neither."""
    came_to: set[bool] = set()
    for number in range(50):
        memory_id = office.remember("a kettle", "alice")
        wait_s = random.Random(number).uniform(-0.005, 0.005)
        calls = [
            partial(later, max(-wait_s, 0), partial(hold_on, office, memory_id)),
            partial(later, max(wait_s, 0), partial(erase, office.engine, office.admin, memory_id)),
        ]
        # In the first two rounds one is over before the other begins, so that each is met.
        outcomes = (
            at_once(calls) if number > 1 else [*at_once([calls[number]]), *at_once([calls[1 - number]])]
        )
        is_erased = any(isinstance(one, Erased) for one in outcomes)
        is_held = any(isinstance(one, hold.Held) for one in outcomes)
        assert is_erased != is_held
        (no,) = (one for one in outcomes if isinstance(one, Exception))
        assert isinstance(no, NotFound | ErasureInProgress if is_erased else Held)
        assert status.status(office.engine, office.data, memory_id).valid is is_held
        came_to.add(is_held)
    assert came_to == {True, False}


def later(seconds: float, call: Callable[[], object]) -> object:
    time.sleep(seconds)
    return call()


# ---- DEV-18


def test_dev_18_writes_racing_a_forget(office: Office) -> None:
    """Ten rounds: what was answered before the forget was sent is in it; what it does not list is alive."""
    engine, admin = office.engine, office.admin
    for round_number in range(10):
        name = f"alice {round_number}"
        answered: dict[str, float] = {}
        sent: list[float] = []

        def write(times: int = 5, name: str = name, answered: dict[str, float] = answered) -> None:
            for _ in range(times):
                memory_id = office.remember("a kettle", name)
                answered[memory_id] = time.monotonic()

        def forgets(name: str = name, sent: list[float] = sent, number: int = round_number) -> Forgotten:
            time.sleep(random.Random(number).uniform(0, 0.3))
            sent.append(time.monotonic())
            return forget(engine, admin, name)

        *wrote, done = at_once([*[write] * 20, forgets])
        assert wrote == [None] * 20
        assert isinstance(done, Forgotten)
        listed = {one.memory_id for one in done.erased}
        assert {one for one, at in answered.items() if at < sent[0]} <= listed
        alive = answered.keys() - listed
        assert office.found("kettle", name) == alive
        for memory_id in answered:
            assert status.status(engine, office.data, memory_id).valid is (memory_id in alive)
        rest = forget(engine, admin, name)
        assert {one.memory_id for one in rest.erased} == alive
        assert rest.already_erased_count == len(listed)
    erased = [body["memory_id"] for body in office.log() if kind(body) == "vector_delete"]
    assert len(erased) == len(set(erased)) == 1000


# ---- DEV-19


def test_dev_19_restriction_is_the_same_on_every_path(office: Office) -> None:
    engine, admin, data = office.engine, office.admin, office.data
    memory_id = office.remember("the unmistakable kettle of Marguerite", "alice")
    restrict(engine, admin, memory_id)
    so_far = len(office.log())
    assert office.found("unmistakable kettle") == office.found("unmistakable kettle", "alice") == set()
    assert read.page(engine, data).memories == []
    for path in (read.get, graph, neighbors):
        assert said_no(partial(path, engine, data, memory_id)) == said_no(
            partial(path, engine, data, UNKNOWN)
        )
    assert status.status(engine, data, memory_id) == status.status(engine, data, UNKNOWN)
    told = status.status(engine, admin, memory_id)
    assert (told.valid, told.retrieval_safe, told.failures) == (True, False, ("restricted",))
    assert said_no(partial(update, engine, admin, memory_id, "other"))[0] is Blocked
    again = restrict(engine, admin, memory_id)
    assert (again.restricted, again.changed, again.receipt) == (True, False, None)
    assert len(office.log()) == so_far
    done = lift(engine, admin, memory_id)
    assert (done.restricted, done.changed, done.code) == (False, True, "art18_lifted")
    assert done.receipt is not None
    assert done.receipt.body["reason_code"] == "art18_lifted"
    assert office.found("unmistakable kettle") == {memory_id}
    twice = lift(engine, admin, memory_id)
    assert (twice.restricted, twice.changed, twice.receipt) == (False, False, None)
    for reason in ("because Marguerite asked", "x" * 65):
        with pytest.raises(ValueError, match="is not a valid Ground"):
            Ground(reason)
    for ground in (Ground.DEFERRED_HOLD, Ground.SOURCE_ERASED):
        assert said_no(partial(restrict, engine, admin, memory_id, ground))[0] is Invalid
    restrict(engine, admin, memory_id)
    assert erase(engine, admin, memory_id).memory_id == memory_id
    gone = said_no(partial(restrict, engine, admin, memory_id))
    assert gone == said_no(partial(restrict, engine, admin, UNKNOWN))
    assert gone[0] is NotFound
    assert "Marguerite" not in str(office.log())


# ---- DEV-20


def sound(whole: Graph) -> Graph:
    """Both ends of every edge are among the nodes, and nothing is there twice."""
    ids = [node.node_id for node in whole.nodes]
    assert len(ids) == len(set(ids))
    assert len(whole.edges) == len(set(whole.edges))
    assert {end for edge in whole.edges for end in (edge.derived_id, edge.source_id)} <= set(ids)
    return whole


def test_dev_20_lineage_after_update_and_delete(office: Office) -> None:
    engine, admin = office.engine, office.admin
    a = office.remember("first", "alice")
    b = update(engine, admin, a, "second").memory_id
    c = update(engine, admin, b, "third").memory_id
    assert kinds_around(office, c) == {"out": {b: "tombstone"}, "in": {}, "both": {b: "tombstone"}}
    around_b = {"out": {a: "tombstone"}, "in": {c: "memory"}, "both": {a: "tombstone", c: "memory"}}
    assert kinds_around(office, b) == around_b
    assert kinds_around(office, a) == {"out": {}, "in": {b: "tombstone"}, "both": {b: "tombstone"}}
    erase(engine, admin, c)
    assert kinds_around(office, b)["in"] == {c: "tombstone"}
    assert kinds_around(office, c)["out"] == {b: "tombstone"}
    forget(engine, admin, "alice")
    assert kinds_around(office, a)["both"] == {b: "tombstone"}
    for caller, memory_id in product((office.data,), (a, b, c)):
        assert said_no(partial(graph, engine, caller, memory_id))[0] is NotFound


def kinds_around(office: Office, memory_id: str) -> dict[str, dict[str, str]]:
    """Return the neighbours' kinds by direction; graph and neighbors must agree."""
    found: dict[str, dict[str, str]] = {}
    for direction in Direction:
        whole = sound(graph(office.engine, office.admin, memory_id, direction=direction))
        around = neighbors(office.engine, office.admin, memory_id, direction=direction)
        assert whole.nodes[0].node_id == memory_id
        assert (whole.nodes[1:], whole.edges) == (around.nodes, around.edges)
        assert all(node.node_id[:3] == "lm_" for node in whole.nodes)
        found[direction.value] = {node.node_id: node.kind for node in around.nodes}
    return found


# ---- DEV-21


def test_dev_21_a_foreign_id_looks_like_an_unknown_one(office: Office) -> None:
    engine, stranger = office.engine, Office.opened(office.running, "stranger")
    live, restricted, held, erased = (office.remember("a kettle", "alice") for _ in range(4))
    restrict(engine, office.admin, restricted)
    hold_on(office, held)
    erase(engine, office.admin, erased)
    assert stranger.found("kettle", "alice") == stranger.found("kettle") == set()
    assert forget(engine, stranger.admin, "alice").matched_count == 0
    for caller, memory_id in product((stranger.admin, stranger.data), (live, restricted, held, erased)):
        for path in (read.get, graph, neighbors, status.status):
            assert work(office, partial(path, engine, caller, memory_id)) == work(
                office, partial(path, engine, caller, UNKNOWN)
            )
    for memory_id in (live, restricted, held, erased):
        for act in (erase, restrict, lift, partial_update, hold_any):
            foreign = work(stranger, partial(act, engine, stranger.admin, memory_id))
            assert foreign == work(stranger, partial(act, engine, stranger.admin, UNKNOWN))
            assert foreign[0] == (NotFound, "not_found", ("no such memory",))
    assert office.found("kettle", "alice") == {live, held}


def partial_update(engine: object, caller: object, memory_id: str) -> object:
    return update(engine, caller, memory_id, "other")  # type: ignore[arg-type]


def hold_any(engine: object, caller: object, memory_id: str) -> object:
    new = hold.NewHold(Authority.LITIGATION, memory_id=memory_id)
    return hold.place(engine, caller, new)  # type: ignore[arg-type]


def work(office: Office, call: Callable[[], object]) -> tuple[object, list[str]]:
    """Return what a call came to and every statement it took: equal work takes equal time."""
    taken: list[str] = []
    with statements(office.engine.store, taken):
        try:
            outcome: object = call()
        except (NotFound, Blocked) as refusal:
            outcome = (type(refusal), refusal.code, refusal.args)
    assert taken, "every call asks the database something"
    return outcome, taken


# ---- DEV-28

HASHES = ("md5", "sha1", "sha256", "sha512", "blake2b")


def test_dev_28_receipts_are_really_content_free(office: Office) -> None:
    name, engine = "alice@example.com", office.engine
    other = Office.opened(office.running, "other")
    for one in (office, other):
        for _ in range(2 if one is office else 1):
            memory_id = one.remember("yes", name)
        successor = update(engine, one.admin, memory_id, "no").memory_id
        restrict(engine, one.admin, successor)
        lift(engine, one.admin, successor)
        assert status.status(engine, one.admin, memory_id).failures == ("erased",)
    told = str(lineage.graph(engine, office.admin, successor_of(office)))
    erase(engine, office.admin, successor_of(office))
    closures = [forget(engine, one.admin, name).closure for one in (office, other)]
    assert all(closure is not None for closure in closures)
    everything = " ".join([told, *(str(body) for one in (office, other) for body in one.log())])
    words = ["yes", "no", name, office.tenant, other.tenant, "office", "other"]
    pairs = [left + between + right for left, right in combinations(words, 2) for between in ("", "\0", ":")]
    for word, algorithm in product([*words, *pairs], HASHES):
        digest = hashlib.new(algorithm, word.encode())
        for form in (digest.hexdigest(), base64.b64encode(digest.digest()).decode()):
            assert form[:16] not in everything
            assert form[:8] not in everything
    assert name not in everything
    commitments = [keyed_values(one.log()) for one in (office, other)]
    assert commitments[0] & commitments[1] == set()
    first, second = (body for body in office.log() if kind(body) == "memory_add")
    shared = {"tenant_id_hash", "subject_pseudonym"}  # whose it is; nothing of what it says
    assert {
        field
        for field in first.keys() & second.keys()
        if "sha256:" in str(first[field]) and first[field] == second[field]
    } == shared


def successor_of(office: Office) -> str:
    (update_receipt,) = (body for body in office.log() if kind(body) == "memory_update")
    return str(update_receipt["memory_id"])


def keyed_values(log: list[dict[str, object]]) -> set[str]:
    text = str(log)
    return {part.split("'")[0] for part in text.split("sha256:")[1:]}


# ---- T-37


def test_t_37_blocked_is_one_answer_for_every_reason(office: Office) -> None:
    """Restricted, without consent, expired or made from a hidden source: class, code and words agree."""
    reasons: dict[str, tuple[object, ...]] = {}
    for build in (cells.restricted, cells.preserved, cells.consent_invalid, cells.expired):
        tenant = Beside(office.running)
        memory_id = build(tenant)
        reasons[build.__name__] = said_no(partial(update, office.engine, tenant.admin, memory_id, "other"))
    source = office.remember("a kettle", "alice")
    made = office.remember("of a kettle", "alice", derived_from=(source,))
    restrict(office.engine, office.admin, source)
    reasons["hidden source"] = said_no(partial(update, office.engine, office.admin, made, "other"))
    assert set(reasons.values()) == {
        (Blocked, "blocked", ("the memory does not permit this now",)),
    }


def test_t_37_not_found_is_one_answer_for_every_reason(office: Office) -> None:
    engine, admin = office.engine, office.admin
    erased = office.remember("a kettle")
    erase(engine, admin, erased)
    superseded = office.remember("a kettle")
    update(engine, admin, superseded, "another kettle")
    foreign = Office.opened(office.running, "foreign").remember("a kettle")
    for act in (erase, restrict, lift, partial_update, hold_any):
        told = {said_no(partial(act, engine, admin, one)) for one in (erased, superseded, foreign, UNKNOWN)}
        assert told == {(NotFound, "not_found", ("no such memory",))}


def test_t_37_forgetting_a_stranger_and_one_who_is_gone(office: Office) -> None:
    """Only counts of what the tenant itself knows tell the two apart."""
    engine, admin = office.engine, office.admin
    office.remember("a kettle", "gone")
    forget(engine, admin, "gone")
    gone, stranger = forget(engine, admin, "gone"), forget(engine, admin, "stranger")
    for field in ("matched_count", "erased", "deferred_ids", "restricted_now", "obligation_ids"):
        assert getattr(gone, field) == getattr(stranger, field)
    assert gone.closure is not None
    assert stranger.closure is not None
    assert gone.closure.body.keys() == stranger.closure.body.keys()
    assert gone.closure.body["disposition"] == stranger.closure.body["disposition"] == "noop_no_match"
