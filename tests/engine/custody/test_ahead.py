"""The next epoch key, made before anybody waits for it. CUSTODY.md §4, E2."""

from collections.abc import Iterator

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.errors import CustodyUnavailable
from tests.engine.custody.home import Attacker, Home, Meddling, leaves, punctures

ROWS = range(256, 310)


@pytest.fixture
def meddling(home: Home, custody: Custody) -> Meddling:
    """The provider of an installation that was made before; it is not open."""
    custody.close()
    return Meddling(LocalFile(home.keys_dir))


@pytest.fixture
def opened(home: Home, meddling: Meddling) -> Iterator[Custody]:
    """Custody that has punctured before, so that the next key has a name."""
    reopened = home.open(meddling)
    reopened.puncture(punctures([256]), now=5)
    yield reopened
    reopened.close()


def test_the_key_made_ahead_is_the_one_used(home: Home, meddling: Meddling, opened: Custody) -> None:
    before, [old] = leaves(opened, ROWS), home.key_names()
    opened.prepare()
    opened.prepare()
    assert meddling.calls.count("create") == 2  # the first was made while somebody waited
    [ahead] = home.key_names() - {old}
    assert opened.puncture(punctures([300]), now=6).epoch_after == 2
    assert meddling.calls.count("create") == 2
    assert home.key_names() == {ahead}
    assert leaves(opened, ROWS) == {**before, 300: None}


def test_without_a_name_no_key_is_made(home: Home, meddling: Meddling) -> None:
    opened = home.open(meddling)
    opened.prepare()
    assert "create" not in meddling.calls
    opened.close()


def test_a_key_made_ahead_goes_when_custody_is_opened(home: Home, opened: Custody) -> None:
    before, [used] = leaves(opened, ROWS), home.key_names()
    opened.prepare()
    assert len(home.key_names()) == 2
    opened.close()
    again = home.open()
    assert home.key_names() == {used}
    assert again.status().keys_named == 0
    assert leaves(again, ROWS) == before
    again.close()


def test_a_key_that_anothers_recovery_destroyed_is_not_used(
    home: Home, meddling: Meddling, opened: Custody
) -> None:
    before = leaves(opened, ROWS)
    opened.prepare()
    home.open().close()
    assert len(home.key_names()) == 1
    assert opened.puncture(punctures([300]), now=6).epoch_after == 2
    assert meddling.calls.count("create") == 3
    assert len(home.key_names()) == 1
    assert leaves(opened, ROWS) == {**before, 300: None}


def test_a_key_destroyed_after_its_name_was_looked_for_is_not_used(
    home: Home, meddling: Meddling, opened: Custody
) -> None:
    before = leaves(opened, ROWS)
    opened.prepare()
    armed = [True]

    def recover_elsewhere(point: str) -> None:
        if point == "e2.created" and armed:
            armed.clear()
            home.open().close()

    failpoints.arm("", recover_elsewhere)
    assert opened.puncture(punctures([300]), now=7).epoch_after == 2
    assert meddling.calls.count("create") == 3
    assert len(home.key_names()) == 1
    assert leaves(opened, ROWS) == {**before, 300: None}


def test_a_key_that_can_not_be_made_ahead_is_made_when_it_is_needed(
    home: Home, meddling: Meddling, opened: Custody
) -> None:
    before = leaves(opened, ROWS)

    def refuse() -> None:
        raise CustodyUnavailable("no room")

    meddling.around["create"] = refuse
    opened.prepare()
    del meddling.around["create"]
    assert opened.puncture(punctures([300]), now=6).epoch_after == 2
    assert leaves(opened, ROWS) == {**before, 300: None}
    opened.close()
    home.open().close()
    assert len(home.key_names()) == 1  # the name of what the refusal left stood written down


def test_moving_custody_leaves_no_key_made_ahead(home: Home, opened: Custody) -> None:
    opened.prepare()
    opened.rotate(now=6)
    assert len(home.key_names()) == 1
    assert leaves(opened, [256]) == {256: None}


def test_whoever_copied_the_key_made_ahead_opens_nothing_erased_before(home: Home, opened: Custody) -> None:
    wanted = [one.address for one in punctures([300, 301])]
    opened.puncture(punctures([300]), now=6)
    opened.prepare()
    copied = home.copy(home.directory.with_name("copied"))
    opened.puncture(punctures([301]), now=7)
    found = Attacker([home, copied], [copied.keys_dir]).leaves(wanted)
    assert set(found) == {wanted[1]}  # erased after the copy: within the provider's own bound
