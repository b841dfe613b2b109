"""Failpoints: inert unless armed, fired once at the nth passing, and known by name."""

import errno
import time

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.failpoints import CUSTODY_POINTS, POINTS, InjectedError, failpoint


def test_unarmed_nothing_happens_and_nothing_is_counted() -> None:
    failpoint("e2.pending")
    assert failpoints.hits() == {}


def test_the_nth_passing_fires_once() -> None:
    failpoints.arm("e2.pending:raise:2,e3.after:eio,e4.after:enospc,e5.after:delay")
    failpoint("e2.pending")
    with pytest.raises(InjectedError):
        failpoint("e2.pending")
    failpoint("e2.pending")
    with pytest.raises(OSError) as failure:
        failpoint("e3.after")
    assert failure.value.errno == errno.EIO
    with pytest.raises(OSError) as failure:
        failpoint("e4.after")
    assert failure.value.errno == errno.ENOSPC
    before = time.perf_counter()
    failpoint("e5.after")
    assert time.perf_counter() - before >= failpoints.DELAY_S / 2
    assert failpoints.hits() == {"e2.pending": 3, "e3.after": 1, "e4.after": 1, "e5.after": 1}
    failpoints.disarm()
    failpoint("e2.pending")
    assert failpoints.hits() == {}


@pytest.mark.parametrize(
    "spec", ["e9.nowhere:raise", "e2.pending:explode", "e2.pending", "e2.pending:raise:x"]
)
def test_an_unknown_word_is_refused(spec: str) -> None:
    with pytest.raises(ValueError):
        failpoints.arm(spec)


def test_custodys_points_are_among_all_points() -> None:
    assert CUSTODY_POINTS < POINTS
