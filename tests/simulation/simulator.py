"""One run of the engine under one seed: what it is asked, what fails, when it dies, who comes in between.

Nothing here looks at a clock or starts a thread: the seed decides everything, and what failed fails again.
"""

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from shomei_service.engine import failpoints
from shomei_service.engine.errors import Blocked, ErasurePending, Held, NotFound, Refusal
from shomei_service.engine.errors import Fault as EngineFault
from shomei_service.engine.model import Authority, NewMemory, Release
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import hold
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.fakes import FixedClock, Home, House
from tests.simulation.faults import Crash, Weather, expose
from tests.simulation.world import BOTH, NO, YES, Memory, World

STEPS = 25
USERS = ("alice", "bob", "carol")
_DAY, _YEAR = 86_400, 365 * 86_400
# Inside a transaction nobody else can come in between: SQLite has one writer.
_ALONE = {"add.before_commit", "e1.before", "e3.before_fsync", "e6.after_sign", "hold.release_commit"}


@dataclass(slots=True)
class Simulation:
    """Two openings of one installation in one thread, on a clock that jumps, in changing weather."""

    home: Home
    seed: int
    likely: float = 0.01
    world: World = field(default_factory=World)
    clock: FixedClock = field(default_factory=FixedClock)
    trace: list[str] = field(default_factory=list[str])
    crashes: int = 0
    chance: random.Random = field(init=False)
    weather: Weather = field(init=False)
    _houses: list[House] = field(default_factory=list[House])
    _opened: ExitStack = field(default_factory=ExitStack)
    _is_inside: bool = False
    _asked: House | None = None
    _words: int = 0
    _perhaps_forgotten: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        """Draw everything from the seed alone."""
        self.chance = random.Random(self.seed)
        self.weather = Weather(self.chance, self.likely)

    def run(self) -> None:
        """Do every step, then let the sky clear and look at what is left."""
        try:
            self._open()
            self.weather.is_fair = False
            for _ in range(STEPS):
                self._guarded(self._step, self._houses[self.chance.randrange(2)])
            self._die()  # whatever was under way is finished by an opening that nobody disturbs
            self._look(self._houses[0])
            self._settle()
        except BaseException as failure:
            failure.add_note(f"seed {self.seed}, likely {self.likely}: " + "; ".join(self.trace[-12:]))
            raise
        finally:
            failpoints.disarm()
            self._opened.close()

    # Opening and dying

    def _open(self) -> None:
        self.weather.is_fair, fair = True, self.weather.is_fair
        self._houses = [self._opened.enter_context(self.home.opened()) for _ in range(2)]
        for house in self._houses:
            house.engine.clock = self.clock
            expose(house.engine, self.weather)
        self.weather.is_fair = fair
        failpoints.arm("", self._at)

    def _die(self) -> None:
        """End both processes as a kill does, nothing being written on the way, and open again."""
        failpoints.disarm()
        self.crashes += 1
        for house in self._houses:
            house.engine.store.close()
            house.engine.custody.close()
        abandoned = self._opened.pop_all()
        self._abandon(abandoned)
        self._open()

    def _abandon(self, abandoned: ExitStack) -> None:
        """Let go of locks; what closing would write is refused, as there is no process to write it."""

        def is_gone(*_: object, **__: object) -> Any:
            raise NotFound("this process is gone")

        for house in self._houses:
            store: Any = house.engine.store
            kept: Any = house.engine.custody
            store.transaction = store.snapshot = is_gone
            kept._store.writing = kept._store.reading = is_gone
        try:
            abandoned.close()
        except NotFound:
            return

    def _at(self, point: str) -> None:
        """At a failpoint the process may die, or the other one be asked something."""
        if self.weather.dies():
            self.trace.append(f"dies at {point}")
            raise Crash(point)
        if point in _ALONE or self._is_inside or self.weather.is_fair or self.chance.random() >= 0.03:
            return
        self._is_inside = True
        try:
            self._step(next(one for one in self._houses if one is not self._asked))
        finally:
            self._is_inside = False

    def _guarded(self, step: Callable[[House], None], house: House) -> None:
        self._asked = house
        try:
            step(house)
        except Crash:
            self._is_inside = False
            self._die()

    def _settle(self) -> None:
        self.weather.is_fair = True
        house = self._houses[0]
        upkeep(house.engine)
        self.world.check_settled(oracle.settled(house, self.home.settings))
        self._look(house)

    # Steps

    def _step(self, house: House) -> None:
        acts = [self._add, self._look, self._erase, self._update, self._forget]
        acts += [self._restrict, self._lift, self._hold, self._release, self._tend, self._jump]
        act = self.chance.choices(acts, [6, 4, 3, 2, 1, 2, 1, 2, 2, 3, 2])[0]
        act(house)

    def _note(self, said: str) -> None:
        self.trace.append(said)

    def _tell(self, name: str, ask: Callable[[], Any]) -> Any:
        """Ask; return the answer, or the refusal or fault there was instead. A crash passes through."""
        try:
            answer = ask()
        except (Refusal, EngineFault) as refused:
            self._note(f"{name}: {type(refused).__name__}")
            return refused
        except Crash:
            self._note(f"{name}: dies")
            raise
        self._note(f"{name}: done")
        return answer

    def _pick(self) -> tuple[str, Memory] | None:
        known = list(self.world.memories.items())
        return known[self.chance.randrange(len(known))] if known else None

    def _text(self) -> str:
        self._words += 1
        return f"kettle number {self._words}"

    def _add(self, house: House) -> None:
        text, user = self._text(), self.chance.choice(USERS)
        self.world.ghosts[text] = user  # until told
        added = self._tell("add", lambda: add(house.engine, house.data, NewMemory(text, user)))
        if not isinstance(added, Exception):
            del self.world.ghosts[text]
            self.world.memories[added.memory_id] = self._added(text, user)

    def _added(self, text: str, user: str) -> Memory:
        """Return what is known of a memory: its subject may have been forgotten before its answer came."""
        memory = Memory(text, user)
        memory.lives |= NO if text in self._perhaps_forgotten else frozenset()
        return memory

    def _look(self, house: House) -> None:
        """Whatever is asked of a search, it is asked at once: nobody comes in between."""
        self._is_inside, inside = True, self._is_inside
        try:
            found = self._tell(
                "search", lambda: search(house.engine, house.data, "kettle", limit=100).results
            )
        finally:
            self._is_inside = inside
        if not isinstance(found, Exception):
            texts = {one.memory.memory_id: one.memory.content.text for one in found}
            self.world.check_found(texts, texts)

    def _erase(self, house: House) -> None:
        picked = self._pick()
        if picked is None:
            return
        memory_id, one = picked
        held, lives = one.held, one.lives
        one.lives |= NO if held != YES else frozenset()  # until told, and if it dies
        erased = self._tell("erase", lambda: erase(house.engine, house.admin, memory_id))
        self._ended(one, erased, held=held, lived=lives)

    def _update(self, house: House) -> None:
        picked = self._pick()
        if picked is None:
            return
        memory_id, one = picked
        text, held, lives = self._text(), one.held, one.lives
        self.world.ghosts[text] = one.user
        if held != YES and one.restricted != YES:
            one.lives |= NO
        updated = self._tell("update", lambda: update(house.engine, house.admin, memory_id, text))
        self._ended(one, updated, held=held, lived=lives)
        if not isinstance(updated, Exception):
            del self.world.ghosts[text]
            self.world.memories[updated.memory_id] = self._added(text, one.user)

    def _ended(self, one: Memory, told: Any, *, held: frozenset[bool], lived: frozenset[bool]) -> None:
        """Take in what an erasure came to. What somebody did in between has widened what may be."""
        if isinstance(told, Held):
            assert True in one.held, f"{one.text}: refused for a hold it has not"
            one.lives = lived
        elif isinstance(told, Blocked):
            assert True in one.restricted, f"{one.text}: refused for a restriction it has not"
            one.lives = lived
        elif isinstance(told, NotFound):
            assert False in one.lives, f"{one.text}: not found, and it lives"
            one.lives = NO
        elif isinstance(told, ErasurePending) or not isinstance(told, Exception):
            assert held != YES, f"{one.text}: erased under a hold"
            one.lives = NO

    def _forget(self, house: House) -> None:
        user = self.chance.choice(USERS)
        known = list(self.world.memories.values())  # what is added while it goes on comes after it
        gone = {memory_id for memory_id, one in self.world.memories.items() if one.lives == NO}
        self._perhaps_forgotten |= {text for text, whose in self.world.ghosts.items() if whose == user}
        self.world.forget(user, known, is_told=False)
        forgotten = self._tell("forget", lambda: forget(house.engine, house.admin, user))
        if isinstance(forgotten, Exception):
            return
        self.world.forget(user, known, is_told=True)
        assert not gone & {one.memory_id for one in forgotten.erased}, "erased once more"

    def _restrict(self, house: House) -> None:
        picked = self._pick()
        if picked is not None:
            self._set(picked[1], "restricted", YES, lambda: restrict(house.engine, house.admin, picked[0]))

    def _lift(self, house: House) -> None:
        picked = self._pick()
        if picked is None or picked[1].owed != NO:  # a system ground stays: see the state machine for that
            return
        self._set(picked[1], "restricted", NO, lambda: lift(house.engine, house.admin, picked[0]))

    def _set(self, one: Memory, name: str, value: frozenset[bool], ask: Callable[[], Any]) -> None:
        setattr(one, name, getattr(one, name) | value)  # until told, and if it dies
        told = self._tell(name, ask)
        if isinstance(told, NotFound):
            assert False in one.lives, f"{one.text}: not found, and it lives"
        elif not isinstance(told, Exception):
            setattr(one, name, value)

    def _hold(self, house: House) -> None:
        picked = self._pick()
        if picked is None or picked[1].held != NO:
            return
        memory_id, one = picked
        new = hold.NewHold(Authority.LITIGATION, memory_id=memory_id)
        one.held = BOTH
        told = self._tell("hold", lambda: hold.place(house.engine, house.admin, new))
        if isinstance(told, NotFound):
            assert False in one.lives, f"{one.text}: not found, and it lives"
            one.held = NO
        elif isinstance(told, Refusal):  # it is being erased
            assert False in one.lives, f"{one.text}: on its way out, and nobody sent it"
            one.held = NO
        elif not isinstance(told, Exception):
            one.held = YES

    def _release(self, house: House) -> None:
        listed = self._tell("holds", lambda: hold.page(house.engine, house.admin, limit=100).holds)
        if isinstance(listed, Exception) or not listed:
            return
        by_text = sorted(
            (self.world.memories[one.memory_id].text, one.hold_id, one.memory_id)
            for one in listed
            if one.memory_id in self.world.memories and one.released_at is None
        )
        if not by_text:
            return
        _, hold_id, memory_id = by_text[self.chance.randrange(len(by_text))]
        one = self.world.memories[memory_id]
        one.held |= NO
        one.let_go()
        code = Release.MATTER_CLOSED
        told = self._tell(
            "release", lambda: hold.release(house.engine, house.admin, hold_id, code, confirm=True)
        )
        if not isinstance(told, Exception) or isinstance(told, ErasurePending):
            one.held = NO
            one.let_go()

    def _tend(self, house: House) -> None:
        self._tell("upkeep", lambda: upkeep(house.engine))

    def _jump(self, _: House) -> None:
        """Move the clock: mostly on, now and then a year, also back. T-14."""
        self.clock.at += self.chance.choice([1, 60, 3_600, _DAY, _YEAR, -_DAY, -_YEAR])
        self._note("clock")
