"""An id of another tenant is nobody: on SQLite, where no second wall stands. I-9, RELIABILITY T-32."""

from collections.abc import Callable

import pytest

from shomei_service.engine.errors import NotFound
from shomei_service.engine.model import Authority, Caller
from shomei_service.engine.parts import Engine
from shomei_service.engine.verbs import hold
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.fakes import Home, House

ASKED: dict[str, Callable[[Engine, Caller, str], object]] = {
    "erase": erase,
    "update": lambda engine, caller, memory_id: update(engine, caller, memory_id, "another kettle"),
    "restrict": restrict,
    "lift": lift,
    "hold": lambda engine, caller, memory_id: hold.place(
        engine, caller, hold.NewHold(Authority.LITIGATION, memory_id=memory_id)
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_another_tenants_memory_is_not_found(house: House, home: Home, name: str) -> None:
    memory_id = house.remember("a kettle", "alice")
    stranger = house.stranger()
    with pytest.raises(NotFound):
        ASKED[name](house.engine, stranger, memory_id)
    assert search(house.engine, stranger, "kettle").results == []
    assert forget(house.engine, stranger, "alice").matched_count == 0
    assert oracle.settled(house, home.settings) == {memory_id: "a kettle"}
    (found,) = search(house.engine, house.data, "kettle").results
    assert found.memory.memory_id == memory_id
