"""Remember and recall: what goes in comes out unchanged, to its own tenant and subject only."""

import pytest

from shomei_service.engine import limits
from shomei_service.engine.errors import Forbidden, Invalid, NotFound, TooLarge
from shomei_service.engine.model import Caller, NewMemory, Scope
from shomei_service.engine.verbs.add import add, add_batch
from shomei_service.engine.verbs.read import get, page
from shomei_service.engine.verbs.search import search
from tests.fakes import Home, House, authentic

ODD = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\r\nh\ti\ufeffj \U0001f469\u200d\U0001f467 \u200fx\x00y"


def _ids(house: House, query: str, **options: object) -> list[str]:
    found = search(house.engine, house.data, query, **options)  # pyright: ignore[reportArgumentType]
    return [one.memory.memory_id for one in found.results]


def test_an_added_memory_is_found_with_a_verbatim_quote(house: House) -> None:
    house.remember(
        "The weather at the pad was fine. The master alarm came with a pressure light. Lunch was late today.",
        "lmp",
    )
    (found,) = search(house.engine, house.data, "pressure light", user_id="lmp").results
    assert found.quote.text == "The master alarm came with a pressure light."
    assert found.memory.content.text[found.quote.start : found.quote.end] == found.quote.text
    assert 0 < found.score <= 1


def test_every_add_leaves_an_authentic_receipt_in_log_order(house: House) -> None:
    added = add_batch(house.engine, house.data, [NewMemory(f"fact {n}") for n in range(5)])
    assert all(authentic(one.receipt, house.pin) for one in added)
    logs = [one.receipt.body["log"] for one in added]
    assert [log["seq"] for log in logs] == list(range(5))  # type: ignore[index, call-overload]
    assert len({log["origin"] for log in logs}) == 1  # type: ignore[index, call-overload]


def test_text_comes_back_code_point_for_code_point(house: House) -> None:
    memory_id = house.remember(ODD, "alice")
    assert get(house.engine, house.data, memory_id).content.text == ODD


def test_metadata_and_semantic_type_survive_sealing(house: House) -> None:
    new = NewMemory("x", "alice", "HEALTH", {"mission": "apollo-11", "tags": ["a", 1, None, 0.5]})
    memory_id = add(house.engine, house.data, new).memory_id
    assert get(house.engine, house.data, memory_id).content.metadata == new.metadata
    assert _ids(house, "x", semantic_type="HEALTH") == [memory_id]
    assert _ids(house, "x", semantic_type="GENERIC") == []


def test_a_semantic_type_that_is_not_registered_never_stands_in_a_receipt(house: House) -> None:
    first, second = (add(house.engine, house.data, NewMemory("yes", "a", "Jane Doe")) for _ in range(2))
    assert "Jane Doe" not in str(first.receipt)
    assert first.receipt.body["semantic_type_ref"] != second.receipt.body["semantic_type_ref"]


@pytest.mark.parametrize(
    "name", ["Alice", "alice%", "a_ice", "*", "' OR '1'='1", "../alice", "e\u0301", "é", "🙂"]
)
def test_subjects_are_exact(house: House, name: str) -> None:
    """DEV-15: no case, no wildcard, no normal form joins two subjects."""
    own = house.remember("a shared fact", name)
    other = house.remember("a shared fact", "alice")
    assert _ids(house, "shared fact", user_id=name) == [own]
    assert _ids(house, "shared fact", user_id="alice") == [other]


def test_the_limit_is_filled_with_visible_rows(house: House) -> None:
    """DEV-11 without restriction: other subjects' rows never use up the limit."""
    add_batch(house.engine, house.data, [NewMemory("the same fact", "a") for _ in range(60)])
    add_batch(house.engine, house.data, [NewMemory("the same fact", "b") for _ in range(8)])
    assert len(_ids(house, "same fact", user_id="b", limit=5)) == 5
    assert len(set(_ids(house, "same fact", limit=100))) == 68


def test_pages_list_everything_once_in_order(house: House) -> None:
    added = [
        one.memory_id for one in add_batch(house.engine, house.data, [NewMemory(f"{n}") for n in range(7)])
    ]
    seen: list[str] = []
    cursor = None
    while True:
        shown = page(house.engine, house.data, cursor=cursor, limit=3)
        seen += [one.memory_id for one in shown.memories]
        cursor = shown.next_cursor
        if cursor is None:
            break
    assert seen == added


def test_tenants_never_meet(house: House) -> None:
    memory_id = house.remember("a secret fact", "alice")
    stranger = house.stranger()
    assert search(house.engine, stranger, "secret fact", user_id="alice").results == []
    assert page(house.engine, stranger).memories == []
    with pytest.raises(NotFound):
        get(house.engine, stranger, memory_id)


def test_a_restart_finds_what_was_added(home: Home) -> None:
    with home.opened() as house:
        memory_id = house.remember("the kettle is blue", "alice")
    with home.opened() as house:
        assert _ids(house, "kettle") == [memory_id]


def test_nothing_of_a_failed_batch_is_kept(house: House) -> None:
    news = [NewMemory("fine"), NewMemory("x" * (limits.TEXT_BYTES + 1))]
    with pytest.raises(TooLarge):
        add_batch(house.engine, house.data, news)
    assert page(house.engine, house.data).memories == []


@pytest.mark.parametrize(
    "new",
    [
        NewMemory("  "),
        NewMemory("x", " "),
        NewMemory("x", "a\0b"),
        NewMemory("x", "é" * 129),
        NewMemory("x\ud800"),
        NewMemory("x", "a", "t" * 65),
        NewMemory("x", "a", ""),
        NewMemory("x", metadata={str(n): n for n in range(33)}),
        NewMemory("x", metadata={"n": float("nan")}),
    ],
)
def test_inadmissible_memories_are_refused(house: House, new: NewMemory) -> None:
    with pytest.raises(Invalid):
        add(house.engine, house.data, new)


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": 101}, {"min_score": 2.0}, {"min_score": float("nan")}]
)
def test_a_search_out_of_bounds_is_refused(house: House, options: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        _ids(house, "x", **options)


def test_an_unscoped_caller_may_do_nothing(house: House) -> None:
    nobody = Caller(house.data.tenant, "key_0000000000000000", frozenset[Scope]())
    with pytest.raises(Forbidden):
        add(house.engine, nobody, NewMemory("x"))


def test_min_score_only_hides_weaker_results(house: House) -> None:
    house.remember("oxygen pressure light")
    house.remember("oxygen and other gases in general use")
    every = search(house.engine, house.data, "oxygen pressure light").results
    strong = search(house.engine, house.data, "oxygen pressure light", min_score=every[0].score).results
    assert len(every) == 2
    assert strong == every[:1]
