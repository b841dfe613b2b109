"""Which form of an answer a client asks for: RFC 9110 §12.5.1, as far as our few forms need it."""

from collections.abc import Collection
from typing import Final

from starlette.types import Scope as Request

from .bodies import header

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
ZIP: Final = "application/zip"
_RANGES: Final = 16  # more than that are not read


def chosen(request: Request, offered: Collection[str]) -> str | None:
    """Return the offered form that the client prefers to JSON; None for JSON, whatever else it asked for."""
    best, quality = None, 0.0
    for part in header(request, b"accept").decode("latin-1").lower().split(",")[:_RANGES]:
        name, *parameters = (piece.strip() for piece in part.split(";"))
        wanted = _quality(parameters)
        if wanted > quality and (name in offered or name in {JSON, "application/*", "*/*"}):
            best, quality = name, wanted
    return best if best in offered else None


def _quality(parameters: list[str]) -> float:
    given = next((one.removeprefix("q=") for one in parameters if one.startswith("q=")), "1")
    try:
        return float(given)
    except ValueError:
        return 0.0
