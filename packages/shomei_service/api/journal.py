"""What the service logs: fixed fields, nothing a caller wrote. SEMANTICS.md §1, §14."""

import logging
import traceback
from pathlib import Path
from typing import Final

REQUEST_ID: Final = "shomei.request_id"

_ACCESS: Final = logging.getLogger("shomei.access")
_FAULT: Final = logging.getLogger("shomei.fault")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE: Final = "-"
_FRAMES: Final = 12


def log_access(method: str, template: str | None, *, status: int, milliseconds: int, request_id: str) -> None:
    """Write one line for a request: the route's template, never its path or query."""
    _ACCESS.info(
        "method=%s route=%s status=%d ms=%d request_id=%s",
        method if method in _METHODS else "OTHER",
        template or _NO_ROUTE,
        status,
        milliseconds,
        request_id,
    )


def log_fault(error: BaseException, request_id: str) -> None:
    """Write what failed and where in the code, without the exception's own text: it may quote content."""
    kinds: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(kinds) < _FRAMES:
        kinds.append(type(seen).__name__)
        seen = seen.__cause__ or seen.__context__
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = " ".join(f"{Path(frame.filename).stem}.{frame.name}:{frame.lineno}" for frame in frames)
    _FAULT.error("fault=%s at=%s request_id=%s", "<".join(kinds), where, request_id)
