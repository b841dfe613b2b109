"""Who holds epoch keys: the provider in use, the one being moved to, and those that keys were left with."""

from collections.abc import Callable
from typing import Final

from .faults import CustodyMismatch
from .providers.protocol import KeyCustody, Provider

Elsewhere = Callable[[KeyCustody], Provider | None]


def nowhere(_: KeyCustody) -> None:
    """Know no other provider."""


class Holders:
    """Finds the provider of a key by the code that its name was written down with."""

    def __init__(self, current: Provider, elsewhere: Elsewhere = nowhere) -> None:
        """Use one provider; ask `elsewhere` for others, for what a move between providers left."""
        self._current = current
        self._known: Final = {code_of(current): current}
        self._elsewhere: Final = elsewhere
        self._goal: KeyCustody | None = None

    @property
    def current(self) -> Provider:
        """The provider that makes the next key."""
        return self._current

    def head_for(self, goal: Provider) -> None:
        """From now on the head may be found with this provider; finding it there ends the move."""
        self._goal = code_of(goal)
        self._known[self._goal] = goal

    def of_head(self, code: KeyCustody) -> Provider:
        """Return the provider that opens the head; raise CustodyMismatch if custody was moved elsewhere."""
        if code == self._goal:
            self._current, self._goal = self._known[code], None
        if code != code_of(self._current):
            raise CustodyMismatch(
                "custody was moved to another provider; set SHOMEI_CUSTODY to the one that "
                "shomei custody move named"
            )
        return self._current

    def find(self, code: KeyCustody) -> Provider | None:
        """Return the provider with this code; None if it is not configured."""
        found = self._known.get(code) or self._elsewhere(code)
        if found is not None:
            self._known[code] = found
        return found

    def get(self, code: KeyCustody) -> Provider:
        """Return the provider with this code; raise CustodyMismatch if it is not configured."""
        found = self.find(code)
        if found is None:
            raise CustodyMismatch(
                "a move between providers is not finished: the old key is not destroyed; configure the "
                "provider it lies with as well, and start again"
            )
        return found


def code_of(provider: Provider) -> KeyCustody:
    """Return the code that receipts carry for a provider."""
    return provider.describe().key_custody
