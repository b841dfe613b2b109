"""What every run of the tests owes: no skip goes unseen, and in CI none goes unexplained."""

import os
from collections.abc import Iterator

import pytest

from tests.providers import custodian, machines

__all__ = ["custodian", "machines"]  # fixtures for every test below

pytest.register_assert_rewrite("tests.oracle", "tests.crash.runs")

_MUST = "must: "  # a skip that says why it has to be


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the laws that can go on for long do so; their last result is kept beside them."""
    parser.addoption("--deep", action="store_true", help="go ten times as far (tests/laws)")


def pytest_configure(config: pytest.Config) -> None:
    """Count skips for the whole run."""
    config.stash[_SKIPPED] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look at every receipt once all the others have issued theirs."""
    items.sort(key=lambda item: item.path.name == "test_every_receipt.py")


_SKIPPED = pytest.StashKey[list[tuple[str, str]]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note every skip and its reason; under CI=true an unexplained one is a failure."""
    report = yield
    if report.skipped:
        reason = str(report.longrepr[-1]).removeprefix("Skipped: ")
        item.config.stash[_SKIPPED].append((item.nodeid, reason))
        if os.environ.get("CI") == "true" and not reason.startswith(_MUST):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI without saying why it must be: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say aloud how much was skipped."""
    skipped = config.stash[_SKIPPED]
    terminalreporter.write_line(f"skips: {len(skipped)}")
    for nodeid, reason in skipped:
        terminalreporter.write_line(f"  {nodeid}: {reason}")
