"""The same promises with the custody store in a PostgreSQL database of its own. T-06, T-11."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, CustodyMismatch, LogMark, address
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.errors import CustodyUnavailable
from shomei_service.engine.failpoints import CUSTODY_POINTS
from tests.engine.custody.home import INSTALLATION, leaves, punctures
from tests.engine.custody.postgres import Server
from tests.engine.custody.test_together import at_once

_numbers = count(1)


@pytest.fixture
def url(cluster: Server) -> str:
    return cluster.database(f"custody_{next(_numbers)}")


@pytest.fixture
def provider(tmp_path: Path) -> LocalFile:
    return LocalFile.initialise(tmp_path / "keys")


@pytest.fixture
def custody(url: str, provider: LocalFile) -> Iterator[Custody]:
    opened = Custody.create(url, provider, installation_id=INSTALLATION, now=1)
    opened.lease_tenant()
    assert opened.lease_rows(1) == range(256, 1280)
    yield opened
    opened.close()


def reopened(url: str, provider: LocalFile, installation_id: str = INSTALLATION) -> Custody:
    return Custody.open(url, provider, installation_id=installation_id, now=50)


def test_every_step_can_fail_and_is_recovered(
    url: str, provider: LocalFile, custody: Custody, tmp_path: Path
) -> None:
    before = leaves(custody, range(256, 400))
    for row, point in enumerate(sorted(CUSTODY_POINTS), start=300):
        failpoints.arm(f"{point}:raise")
        with pytest.raises(CustodyUnavailable):
            custody.puncture(punctures([row]), now=row)
        failpoints.disarm()
        other = reopened(url, provider)
        done = other.puncture(punctures([row]), now=row)
        before[row] = None
        assert leaves(other, before) == before
        assert custody.puncture(punctures([row]), now=999) == done
        assert leaves(custody, before) == before
        other.close()
    custody.rotate(now=1)
    assert len(list((tmp_path / "keys").iterdir())) == 1


def test_two_openings_race_and_nothing_is_lost(url: str, provider: LocalFile, custody: Custody) -> None:
    before = leaves(custody, range(256, 400))
    other = reopened(url, provider)
    rows = range(300, 324)
    results = at_once(
        [
            lambda row=row, opened=opened: opened.puncture(punctures([row]), now=row)
            for row, opened in zip(rows, [custody, other] * 12, strict=True)
        ]
    )
    assert [result for result in results if isinstance(result, Exception)] == []
    leased = at_once([lambda opened=opened: opened.lease_rows(1, 10) for opened in [custody, other] * 4])
    assert len({row for block in leased if isinstance(block, range) for row in block}) == 80
    for opened in (custody, other):
        opened.refresh()
        assert leaves(opened, before) == {row: None if row in rows else leaf for row, leaf in before.items()}
    assert custody.status().keys_to_destroy == 0
    other.close()


def test_a_tenant_goes_as_a_whole_and_large_batches_go_at_once(custody: Custody) -> None:
    custody.lease_tenant()
    others = leaves(custody, range(256, 260), tenant=2)
    assert custody.puncture(punctures(range(256, 8256, 4)), now=2).epoch_after == 1
    custody.puncture_tenant(1, "tenant_offboarding", now=3)
    assert custody.status().blobs == 2
    assert leaves(custody, [256, 257]) == {256: None, 257: None}
    assert leaves(custody, range(256, 260), tenant=2) == others
    assert custody.epochs_after(1)[0].tenants == (1,)
    assert address(1, 8252) in custody.epochs_after(0)[0].addresses


def test_the_journal_and_the_marks_are_kept(url: str, provider: LocalFile, custody: Custody) -> None:
    numbers = at_once([lambda: custody.journal_append(tenant="t_1", kind="restricted", at=1)] * 8)
    assert sorted(map(str, numbers)) == list("12345678")
    custody.set_log_mark("t_1", "origin-a", 5)
    other = reopened(url, provider)
    assert len(other.journal_after(0)) == 8
    assert other.log_marks() == {"t_1": LogMark("origin-a", 5)}
    other.close()


def test_what_is_not_ours_refuses(cluster: Server, url: str, provider: LocalFile, custody: Custody) -> None:
    with pytest.raises(CustodyMismatch):
        reopened(url, provider, "cd" * 16)
    with pytest.raises(CustodyMismatch):
        reopened(cluster.database("empty"), provider)
    with pytest.raises(CustodyMismatch):
        Custody.create(url, provider, installation_id=INSTALLATION, now=1)
    with pytest.raises(CustodyUnavailable):
        reopened(cluster.url("no_such_database"), provider)
    custody.puncture(punctures([300]), now=2)


def test_a_server_that_may_forget_refuses(
    cluster: Server, url: str, provider: LocalFile, custody: Custody
) -> None:
    custody.close()
    cluster.stop()
    cluster.start("synchronous_commit=off")
    try:
        with pytest.raises(CustodyMismatch):
            reopened(url, provider)
    finally:
        cluster.stop()
        cluster.start()
    reopened(url, provider).close()


def test_a_server_that_dies_in_between_loses_nothing(
    cluster: Server, url: str, provider: LocalFile, custody: Custody
) -> None:
    before = leaves(custody, range(256, 310))
    cluster.stop()
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([300]), now=2)
    with pytest.raises(CustodyUnavailable):
        custody.refresh()
    assert leaves(custody, before) == before
    cluster.start()
    custody.puncture(punctures([300]), now=3)
    assert leaves(custody, before) == {**before, 300: None}
