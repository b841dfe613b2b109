"""What a proof says, line by line, and whether all of it held."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ..engine.model import JsonObject

Say = Callable[[str], None]


@dataclass(slots=True)
class Told:
    """What was said, and whether every promise held."""

    say: Say
    lines: list[JsonObject] = field(default_factory=list[JsonObject])
    holds: bool = True

    def note(self, line: str) -> None:
        """Say what was done."""
        self.say(line)
        self.lines.append({"said": line})

    def expect(self, promise: str, *, holds: bool) -> None:
        """Say whether a promise held; one that did not decides the proof."""
        self.say(f"  {'ok    ' if holds else 'FAILED'}  {promise}")
        self.lines.append({"promise": promise, "holds": holds})
        self.holds = self.holds and holds

    def expect_opened(self, what: str, texts: Mapping[str, str], found: Mapping[str, bytes]) -> None:
        """Say of each row that it opened, as it should."""
        for one, text in texts.items():
            opened = text.encode() in found.get(one, b"")
            self.expect(f"{what:8}{one}  {'opened' if opened else 'DID NOT OPEN'}", holds=opened)

    def expect_shut(self, what: str, texts: Mapping[str, str], found: Mapping[str, bytes]) -> None:
        """Say of each row that it did not open, as it should not."""
        for one in texts:
            opened = one in found
            self.expect(f"{what:8}{one}  {'OPENED' if opened else 'did not open'}", holds=not opened)


def counted(texts: Mapping[str, str], found: Mapping[str, bytes]) -> int:
    """Return how many of the rows opened to what they hold."""
    return sum(text.encode() in found.get(one, b"") for one, text in texts.items())


def until(moment: object) -> str:
    """Return ` until ...` for an epoch second, nothing for what is none."""
    if not isinstance(moment, int):
        return ""
    return f" until {datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"
