"""Messages no host should send, made from a seed: right words in wrong places."""

import random
from collections.abc import Iterator
from typing import Any

METHODS = [
    *("initialize", "ping", "tools/list", "tools/call", "server/discover", "resources/list", "prompts/get"),
    *("notifications/initialized", "notifications/cancelled", "notifications/progress", "logging/setLevel"),
    *("notifications/roots/list_changed", "subscriptions/listen", "completion/complete", "tasks/cancel"),
    *("sampling/createMessage", "elicitation/create", "x", ""),
]
WORDS = [
    *("name", "arguments", "params", "_meta", "requestId", "progressToken", "cursor", "protocolVersion"),
    *("capabilities", "clientInfo", "io.modelcontextprotocol/protocolVersion", "query", "receipt", "level"),
]
SCALARS = [None, True, False, 0, -1, 10**30, 1.5, 1e308, "", "a", "\ud800", "\u2028", "\x00", "2026-07-28"]


class Nonsense:
    """An endless supply of it; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def messages(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield so many messages."""
        for _ in range(count):
            message: dict[str, Any] = {"jsonrpc": self._pick(["2.0"] * 9 + ["1.0"])}
            for field, share, made in (
                ("id", 0.7, self._id),
                ("method", 0.95, lambda: self._pick(METHODS)),
                ("params", 0.8, self._value),
                ("result", 0.05, self._value),
                ("error", 0.05, self._value),
            ):
                if self._dice.random() < share:
                    message[field] = made()
            yield message

    def _id(self) -> Any:
        return self._pick([self._dice.randrange(1_000, 10**6), f"n{self._dice.random()}", self._value()])

    def _value(self, depth: int = 0) -> Any:
        kind = self._dice.randrange(4 if depth < 4 else 2)
        if kind < 2:
            return self._pick(SCALARS)
        parts = [self._value(depth + 1) for _ in range(self._dice.randrange(5))]
        return parts if kind == 2 else {self._pick(WORDS): part for part in parts}

    def _pick(self, choices: list[Any]) -> Any:
        return self._dice.choice(choices)
