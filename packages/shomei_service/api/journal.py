"""What the service logs: fixed fields, nothing a caller wrote. SEMANTICS.md §1, §14."""

import logging
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

REQUEST_ID: Final = "shomei.request_id"

Exception_ = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_ACCESS: Final = logging.getLogger("shomei.access")
_FAULT: Final = logging.getLogger("shomei.fault")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE: Final = "-"
_FRAMES: Final = 12


class Line(logging.Formatter):
    """One line for a record of ours, without what an exception says: it may quote content."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatException(self, ei: Exception_) -> str:  # noqa: N802  # logging's own name
        """Name the exception and the places in the code it came through."""
        return _told(ei[1]) if ei[1] else ""


class Stranger(Line):
    """One line for a record of somebody else's code: where it was written, never what it says."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """Leave the message out: a driver's may hold a statement, its parameters, a path or a URL.

        Only what uvicorn says of its coming and going is kept; its warnings quote requests and crashes.
        """
        if not (record.name.startswith("uvicorn") and record.levelno < logging.WARNING):
            record.message = f"at={Path(record.pathname).stem}.{record.funcName}:{record.lineno}"
        return super().formatMessage(record)


def contain_crashes() -> None:
    """Have what no code catches, in any thread, told like every other fault: by its name and place."""

    def of_thread(crash: threading.ExceptHookArgs) -> None:
        log_fault(crash.exc_value or RuntimeError(), "thread")

    def of_nobody(crash: "sys.UnraisableHookArgs") -> None:
        log_fault(crash.exc_value or RuntimeError(), "unraisable")

    threading.excepthook = of_thread
    sys.unraisablehook = of_nobody
    sys.excepthook = lambda _kind, fault, _trace: log_fault(fault, "main")
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a record that cannot be written is dropped, not printed whole


def named_method(method: str) -> str:
    """Return the method, or OTHER for one a caller made up."""
    return method if method in _METHODS else "OTHER"


def named_route(template: str | None) -> str:
    """Return the route's template, or a dash for a path that is none of ours."""
    return template or _NO_ROUTE


def log_access(method: str, template: str | None, *, status: int, milliseconds: int, request_id: str) -> None:
    """Write one line for a request: the route's template, never its path or query."""
    _ACCESS.info(
        "method=%s route=%s status=%d ms=%d request_id=%s",
        named_method(method),
        named_route(template),
        status,
        milliseconds,
        request_id,
    )


def log_fault(error: BaseException, request_id: str) -> None:
    """Write what failed and where in the code, without the exception's own text: it may quote content."""
    _FAULT.error("%s request_id=%s", _told(error), request_id)


def _told(error: BaseException) -> str:
    kinds: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(kinds) < _FRAMES:
        kinds.append(type(seen).__name__)
        seen = seen.__cause__ or seen.__context__
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = " ".join(f"{Path(frame.filename).stem}.{frame.name}:{frame.lineno}" for frame in frames)
    return f"fault={'<'.join(kinds)} at={where}"
