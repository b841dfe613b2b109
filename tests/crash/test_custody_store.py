"""A custody store that is down, while the database and the keys are there. T-11, CUSTODY.md §4."""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from shomei_service.engine.errors import CustodyUnavailable, ErasurePending
from shomei_service.engine.model import (
    ArtifactKind,
    Authority,
    ConsentAction,
    Policies,
    Release,
    Scope,
)
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import access, artifact, consent, hold
from shomei_service.engine.verbs.consent import NewConsent
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.hold import NewHold
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.engine.custody.postgres import Server
from tests.fakes import Home, House, new_home
from tests.laws.workers import on_server

Outage = Callable[[House], AbstractContextManager[None]]
_GOVERNED = (
    "holds",
    "restricted",
    "consents",
    "promised",
    "requests",
    "intents",
    "tombstones",
    "journal",
    "punctured",
)


@contextmanager
def cut_off(server: Server, name: str) -> Generator[None]:
    """Let nobody into one database of a server, nor leave anybody in it, until the block ends."""
    server.say(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.say(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    yield
    server.say(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


class _Nobody:
    """Lends no connection to a file."""

    def begun(self) -> AbstractContextManager[None]:
        raise sqlite3.OperationalError("unable to open database file")


@pytest.fixture(params=["sqlite", "postgres"])
def outage(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Home, Outage]:
    """An installation, and how its custody store goes away and comes back."""
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        return on_server(folder, server, "cut_off"), lambda _: cut_off(server, "cut_off_custody")

    @contextmanager
    def unreachable(house: House) -> Generator[None]:
        with monkeypatch.context() as away:
            for lender in ("_writes", "_reads"):
                away.setattr(house.engine.custody._store, lender, _Nobody())
            yield

    return new_home(folder), unreachable


class Governing:
    """Every act that custody has to hear of before it is answered, and what it needs to be there."""

    def __init__(self, house: House) -> None:
        """Store a kettle of alice, and a lamp of bob that is held and restricted."""
        engine, admin = house.engine, house.admin
        access.set_policies(engine, admin.tenant, Policies(purposes=frozenset({"support"})))
        kettle, lamp = (
            house.remember(f"a {one}", who) for one, who in (("kettle", "alice"), ("lamp", "bob"))
        )
        made = artifact.register(engine, house.data, [kettle], ArtifactKind.SUMMARY)
        restrict(engine, admin, lamp)
        granted, withdrawn = ConsentAction.GRANTED, ConsentAction.WITHDRAWN
        consent.record(engine, admin, NewConsent("bob", "support", granted))
        on_kettle, on_lamp = (NewHold(Authority.LITIGATION, memory_id=one) for one in (kettle, lamp))
        held = hold.place(engine, admin, on_lamp).hold.hold_id
        key = access.create_key(engine, admin.tenant, Scope.DATA)
        closed = Release.MATTER_CLOSED
        self.kettle, self.lamp = kettle, lamp
        self.erasing: dict[str, Callable[[], object]] = {
            "erase": lambda: erase(engine, admin, kettle),
            "update": lambda: update(engine, admin, kettle, "a newer kettle"),
            "forget": lambda: forget(engine, admin, "alice"),
        }
        self.others: dict[str, Callable[[], object]] = {
            "restrict": lambda: restrict(engine, admin, kettle),
            "lift": lambda: lift(engine, admin, lamp),
            "hold": lambda: hold.place(engine, admin, on_kettle),
            "release": lambda: hold.release(engine, admin, held, closed),
            "grant": lambda: consent.record(engine, admin, NewConsent("alice", "support", granted)),
            "withdraw": lambda: consent.record(engine, admin, NewConsent("bob", "support", withdrawn)),
            "acknowledge": lambda: artifact.acknowledge(engine, house.data, made.artifact_id),
            "revoke": lambda: access.revoke_key(engine, admin.tenant, key.key_id),
        }


def state(home: Home) -> list[object]:
    """Return everything at rest that an act of governance changes."""
    found = oracle.read(home.settings)
    return [getattr(found, name) for name in _GOVERNED]


def seen(house: House) -> set[str]:
    """Return what a search shows."""
    found = search(house.engine, house.data, "a kettle or a lamp").results
    return {one.memory.memory_id for one in found}


def test_a_custody_store_that_is_down(outage: tuple[Home, Outage]) -> None:
    """What it has to hear of is refused, nothing of it half done; the rest goes on, and all of it after."""
    home, away = outage
    with home.opened() as house, home.opened() as unleased:
        acts = Governing(house)
        before = state(home)
        with away(house), away(unleased):
            for act, call in {**acts.erasing, **acts.others}.items():
                with pytest.raises(CustodyUnavailable):
                    call()
                assert seen(house) == {acts.kettle}, act
            another = house.remember("another kettle", "bob")  # its leaf was leased before
            with pytest.raises(CustodyUnavailable):
                unleased.remember("nobody's kettle")
            with pytest.raises(CustodyUnavailable):
                upkeep(house.engine)
        assert state(home) == before
        upkeep(house.engine)
        for call in acts.others.values():
            call()
        assert seen(house) == {acts.lamp, another}
        assert unleased.remember("somebody's kettle")
        acts.erasing["forget"]()
        (on_kettle,) = [one for one in hold.page(house.engine, house.admin).holds if one.released_at is None]
        hold.release(house.engine, house.admin, on_kettle.hold_id, Release.MATTER_CLOSED, confirm=True)
        assert set(oracle.settled(house, home.settings).values()) == {
            "a lamp",
            "another kettle",
            "somebody's kettle",
        }


@pytest.mark.parametrize("act", ["erase", "update", "forget"])
def test_a_custody_store_that_is_read_and_takes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """Somebody else writes in its file for too long: an erasure has begun by then, and ends by itself."""
    monkeypatch.setattr("shomei_service.engine.custody.files._BUSY_TIMEOUT_S", 0)
    home = new_home(folder)
    with home.opened() as house:
        acts = Governing(house)
        before = state(home)
        with closing(sqlite3.connect(home.settings.custody_store / "custody.db")) as writer:
            writer.execute("BEGIN IMMEDIATE")
            for call in acts.others.values():
                with pytest.raises(CustodyUnavailable):
                    call()
            assert state(home) == before
            with pytest.raises((CustodyUnavailable, ErasurePending)) as refused:
                acts.erasing[act]()
            is_begun = refused.type is ErasurePending
            assert is_begun is (act != "forget"), "of a forget custody hears first"
            assert (acts.kettle in seen(house)) is not is_begun
        upkeep(house.engine)
        assert (acts.kettle in oracle.settled(house, home.settings)) is not is_begun
