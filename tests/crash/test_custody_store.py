"""A custody store that is down, while the database and the keys are there. T-11, CUSTODY.md §4."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shomei_service.engine.errors import CustodyUnavailable
from shomei_service.engine.model import Authority, ConsentAction, Policies
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import access, consent, hold
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.engine.custody.postgres import Server
from tests.fakes import House
from tests.laws.workers import on_server


def cut_off(server: Server, name: str) -> None:
    """Let nobody into one database of a server, nor leave anybody in it."""
    server.say(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.say(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


def governing(house: House, memory_id: str) -> dict[str, Callable[[], object]]:
    """Return every act that custody has to hear of before it is answered."""
    engine, admin = house.engine, house.admin
    granted = consent.NewConsent("alice", "support", ConsentAction.GRANTED)
    held = hold.NewHold(Authority.LITIGATION, memory_id=memory_id)
    return {
        "erase": lambda: erase(engine, admin, memory_id),
        "update": lambda: update(engine, admin, memory_id, "a newer kettle"),
        "forget": lambda: forget(engine, admin, "alice"),
        "restrict": lambda: restrict(engine, admin, memory_id),
        "hold": lambda: hold.place(engine, admin, held),
        "consent": lambda: consent.record(engine, admin, granted),
    }


def test_a_custody_store_that_is_down(postgres: Server, folder: Path) -> None:
    """What it has to hear of is refused, nothing of it half done; the rest goes on, and all of it after."""
    home = on_server(folder, postgres, "cut_off")
    with home.opened() as house:
        access.set_policies(house.engine, home.tenant, Policies(purposes=frozenset({"support"})))
        memory_id = house.remember("a kettle", "alice")
        before = oracle.read(home.settings)
        cut_off(postgres, "cut_off_custody")
        for act, call in governing(house, memory_id).items():
            with pytest.raises(CustodyUnavailable):
                call()
            assert [one.memory.memory_id for one in search(house.engine, house.data, "kettle").results] == [
                memory_id
            ], act
        another = house.remember("another kettle", "bob")  # its leaf was leased before
        with pytest.raises(CustodyUnavailable):
            upkeep(house.engine)
        postgres.say("ALTER DATABASE cut_off_custody ALLOW_CONNECTIONS true")
        after = oracle.read(home.settings)
        assert (after.holds, after.restricted, after.consents, after.intents) == ([], set(), {}, [])
        assert (after.journal, after.punctured) == (before.journal, before.punctured)
        upkeep(house.engine)
        acts = governing(house, memory_id)
        for act in ("consent", "restrict"):
            acts[act]()
        lift(house.engine, house.admin, memory_id)
        acts["forget"]()
        assert oracle.settled(house, home.settings) == {another: "another kettle"}
