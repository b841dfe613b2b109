"""What the service logs: lines with fixed fields, and nothing that an exception or a driver says (DEV-32)."""

import logging
import logging.config
import subprocess
import sys
from typing import Any, cast

import pytest

from shomei_service.api.journal import Line, Stranger
from shomei_service.api.server import configuration

MARK = "ZQ7-2b9d"


def record_of(name: str, level: int, message: str, error: BaseException | None = None) -> logging.LogRecord:
    caught: Any = None
    if error is not None:
        try:
            raise error
        except BaseException:
            caught = sys.exc_info()
    return logging.LogRecord(name, level, "/srv/app/driver.py", 7, message, (MARK,), caught, "execute")


@pytest.mark.parametrize(
    "name", ["sqlalchemy.engine.Engine", "asyncio", "py.warnings", "root", "uvicornish.x"]
)
@pytest.mark.parametrize("level", [logging.DEBUG, logging.ERROR])
def test_of_others_only_the_place_is_written(name: str, level: int) -> None:
    written = Stranger().format(record_of(name, level, "SELECT %s", ValueError(MARK)))
    if name != "uvicornish.x":
        assert MARK not in written
    assert logging.getLevelName(level) in written
    assert "fault=ValueError at=test_logs.record_of:" in written


def test_uvicorn_may_say_that_it_comes_and_goes_and_nothing_about_requests() -> None:
    assert MARK in Stranger().format(record_of("uvicorn.error", logging.INFO, "Started on %s"))
    assert MARK not in Stranger().format(record_of("uvicorn.error", logging.WARNING, "Invalid request %s"))


def test_ours_are_written_without_what_an_exception_says() -> None:
    error = RuntimeError(MARK)
    error.__cause__ = KeyError(MARK)
    written = Line().format(
        record_of("shomei.fault", logging.ERROR, "fault", error).__class__(
            "shomei.fault", logging.ERROR, "p", 1, "status=%d", (500,), (RuntimeError, error, None)
        )
    )
    assert MARK not in written
    assert "status=500" in written
    assert "fault=RuntimeError<KeyError" in written


def test_the_server_is_configured_so_at_every_level() -> None:
    for level in ("debug", "info", "warning", "error"):
        config = cast(
            Any, configuration(cast(Any, None), host="127.0.0.1", port=0, log_level=level).log_config
        )
        assert config["root"] == {"handlers": ["others"], "level": level.upper()}
        assert config["formatters"]["stranger"] == {"()": Stranger}
        assert list(config["loggers"]) == ["shomei"]


CRASHES = """
import logging, sys, threading, warnings
from shomei_service.api.journal import contain_crashes
from shomei_service.api.server import configuration
import logging.config
contain_crashes()
logging.config.dictConfig(configuration(None, host="h", port=0, log_level="debug").log_config)
MARK = sys.argv[1]

class Dying:
    def __del__(self):
        raise ValueError(MARK)

def crash():
    raise ValueError(MARK)

thread = threading.Thread(target=crash, name=MARK)
thread.start()
thread.join()
del thread
Dying()
warnings.warn(MARK)
logging.getLogger("driver").warning("%d", MARK)  # a record that cannot be written
logging.getLogger("driver").debug("SELECT %s", MARK)
crash()
"""


def test_a_crash_anywhere_is_told_by_its_name() -> None:
    done = subprocess.run([sys.executable, "-c", CRASHES, MARK], capture_output=True, text=True)
    assert done.returncode == 1
    assert MARK not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for where in ("thread", "unraisable", "main"):
        assert any(
            "fault=ValueError at=" in line and line.endswith(f"request_id={where}")
            for line in done.stderr.splitlines()
        )
    assert "WARNING py.warnings at=" in done.stderr
    assert "DEBUG driver at=" in done.stderr
