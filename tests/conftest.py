"""What every run of the tests owes: no skip goes unseen, and in CI none goes unexplained."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from shomei_service.engine import failpoints
from tests.providers import custodian, machines
from tests.published import every_receipt_is_authentic_by_both_verifiers, published

# Fixtures for every test below.
__all__ = ["custodian", "every_receipt_is_authentic_by_both_verifiers", "machines", "published"]

pytest.register_assert_rewrite("tests.oracle", "tests.crash.runs")


@pytest.fixture(autouse=True)
def no_failpoint_outlives_its_test() -> Iterator[None]:
    """Leave none armed for whatever test comes next in this process."""
    yield
    failpoints.disarm()


_MUST = "must: "  # a skip that says why it has to be


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the laws that can go on for long do so; their last result is kept beside them."""
    parser.addoption("--deep", action="store_true", help="go ten times as far (tests/laws)")


def pytest_configure(config: pytest.Config) -> None:
    """Let every run try the same examples, however slow the machine; going deep tries others each time."""
    settings.register_profile(
        "house",
        deadline=None,
        derandomize=not config.getoption("--deep"),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("house")
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # as in the background of a shell: what runs inherits it
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[pytest.TestReport]:
    """Under CI=true an unexplained skip is a failure."""
    report = yield
    if (
        report.skipped
        and os.environ.get("CI") == "true"
        and not (reason := _reason(report)).startswith(_MUST)
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI without saying why it must be: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say aloud how much was skipped, and why."""
    skipped = terminalreporter.getreports("skipped")
    terminalreporter.write_line(f"skips: {len(skipped)}")
    for report in skipped:
        terminalreporter.write_line(f"  {report.nodeid}: {_reason(report)}")


def _reason(report: pytest.TestReport) -> str:
    return str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else "").removeprefix("Skipped: ")
