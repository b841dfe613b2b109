"""The application on a socket, with no log but ours. RELIABILITY.md §6."""

from typing import Final

import uvicorn
from starlette.types import ASGIApp

from .connection import Connection
from .journal import Line, Stranger

_KEEP_ALIVE_SECONDS: Final = 75  # longer than clients keep idle connections, so that they close first
_GRACE_SECONDS: Final = 10


def configuration(app: ASGIApp, *, host: str, port: int, log_level: str = "info") -> uvicorn.Config:
    """Return how to serve the application, without uvicorn's access log: it would hold paths and queries."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=_logging(log_level.upper()),
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


def _logging(level: str) -> dict[str, object]:
    """Return plain lines on stderr: of ours in full, of anybody else's code only that and where."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": Line}, "stranger": {"()": Stranger}},
        "handlers": {
            "ours": {"class": "logging.StreamHandler", "formatter": "line"},
            "others": {"class": "logging.StreamHandler", "formatter": "stranger"},
        },
        "loggers": {"shomei": {"handlers": ["ours"], "level": level, "propagate": False}},
        "root": {"handlers": ["others"], "level": level},
    }
