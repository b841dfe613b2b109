"""What must be so after each answer, and what may be either way where there was none. RELIABILITY T-09."""

from collections.abc import Iterable
from dataclasses import dataclass, field

BOTH = frozenset({True, False})
YES, NO = frozenset({True}), frozenset({False})


@dataclass(slots=True)
class Memory:
    """Everything that may be true of one memory, given what its callers were told."""

    text: str
    user: str
    lives: frozenset[bool] = YES
    held: frozenset[bool] = NO
    restricted: frozenset[bool] = NO
    owed: frozenset[bool] = NO

    def let_go(self) -> None:
        """Whatever was owed and is held by nothing is erased."""
        if self.owed == NO or self.held == YES:
            return
        self.lives = NO if self.owed == YES and self.held == NO else self.lives | NO

    @property
    def surely_found(self) -> bool:
        """Whether recall has to find it."""
        return self.lives == YES and self.restricted == NO

    @property
    def surely_hidden(self) -> bool:
        """Whether recall must not find it."""
        return self.lives == NO or self.restricted == YES


@dataclass(slots=True)
class World:
    """All memories that callers know of, and texts of which nobody was told whether they were kept."""

    memories: dict[str, Memory] = field(default_factory=dict[str, Memory])
    ghosts: dict[str, str] = field(default_factory=dict[str, str])  # text: user

    def forget(self, user: str, known: Iterable[Memory], *, is_told: bool) -> None:
        """Everything of the user goes, but for what is held, which is owed and out of recall."""
        for one in known:
            if one.user != user or one.lives == NO:
                continue
            if not is_told:
                one.lives |= NO if one.held != YES else frozenset()
                one.owed |= YES if one.held != NO else frozenset()
                one.restricted |= YES if one.held != NO else frozenset()
            elif one.held == NO:
                one.lives = NO
            elif one.held == YES:
                one.owed = one.restricted = YES
            else:
                one.lives, one.owed, one.restricted = BOTH, BOTH, BOTH

    def check_found(self, found: Iterable[str], texts: dict[str, str]) -> None:
        """Hold what a search found against what it had to and what it must not find. I-5, I-12."""
        found = set(found)
        for memory_id, one in self.memories.items():
            assert not (one.surely_hidden and memory_id in found), f"{one.text}: found after its end"
            assert not (one.surely_found and memory_id not in found), f"{one.text}: not found"
        for memory_id in found - self.memories.keys():
            assert texts[memory_id] in self.ghosts, f"{texts[memory_id]}: from nowhere"

    def check_settled(self, texts: dict[str, str]) -> None:
        """Hold everything that is left, with nothing under way, against what was told. I-1, I-2, I-6."""
        for memory_id, one in self.memories.items():
            one.let_go()
            assert not (one.lives == YES and memory_id not in texts), f"{one.text}: lost"
            assert not (one.lives == NO and memory_id in texts), f"{one.text}: came back"
            assert texts.get(memory_id, one.text) == one.text
        for memory_id in texts.keys() - self.memories.keys():
            assert texts[memory_id] in self.ghosts, f"{texts[memory_id]}: from nowhere"
