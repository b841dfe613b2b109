"""Signing seeds in custody: durable, apart from the tree, and never two where one was asked for."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from shomei_service.engine.custody import Custody
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.errors import CustodyUnavailable, IntegrityFault
from shomei_service.engine.receipts.signer import SeedFiles, SeedPlace
from tests.engine.custody.home import Home, Meddling, punctures
from tests.engine.custody.test_together import at_once

ONE, OTHER = b"\x01" * 32, b"\x02" * 32


@pytest.fixture(params=["file", "custody"])
def place(request: pytest.FixtureRequest, custody: Custody, tmp_path: Path) -> SeedPlace:
    return custody.seeds if request.param == "custody" else SeedFiles(tmp_path / "signer.key")


def test_seeds_are_kept_oldest_first_and_dropped(place: SeedPlace) -> None:
    states = [place.state()]
    assert place.seeds() == []
    place.keep(ONE, beside=0)
    states.append(place.state())
    place.keep(OTHER, beside=1)
    states.append(place.state())
    assert place.seeds() == [ONE, OTHER]
    place.drop(ONE)
    states.append(place.state())
    assert place.seeds() == [OTHER]
    place.drop(ONE)
    place.drop(OTHER)
    assert place.seeds() == []
    assert all(one != other for one, other in pairwise(states))


def test_two_who_keep_at_one_moment_keep_one_seed(place: SeedPlace) -> None:
    """Whoever came second finds it there, and signs with it: no key is made that another one replaces."""
    place.keep(ONE, beside=0)
    acts: list[Callable[[], object]] = [
        lambda seed=seed: place.keep(bytes([seed]) * 32, beside=1) for seed in range(10, 16)
    ]
    results = at_once(acts)
    failed = [result for result in results if isinstance(result, Exception)]
    assert all(isinstance(one, CustodyUnavailable) for one in failed)  # it was told to try again
    first, coming = place.seeds()
    assert (first, coming[0] in range(10, 16)) == (ONE, True)


def test_two_who_drop_at_one_moment_lose_nothing_else(place: SeedPlace) -> None:
    place.keep(ONE, beside=0)
    place.keep(OTHER, beside=1)
    results = at_once([lambda: place.drop(ONE)] * 6)
    assert [result for result in results if isinstance(result, Exception)] == []
    assert place.seeds() == [OTHER]


def test_who_reads_while_another_drops_reads_what_is_left(home: Home, custody: Custody) -> None:
    custody.seeds.keep(ONE, beside=0)
    custody.seeds.keep(OTHER, beside=1)

    def drops() -> None:
        if armed and armed.pop():
            custody.seeds.drop(ONE)

    armed: list[bool] = []
    opened = home.open(Meddling(LocalFile(home.keys_dir), unwrap=drops))
    armed.append(True)
    assert opened.seeds.seeds() == [OTHER]
    assert opened.seeds.seeds() == [OTHER]
    opened.close()
    custody.close()


def test_no_epoch_ends_a_seed(home: Home, custody: Custody) -> None:
    custody.seeds.keep(ONE, beside=0)
    for row in range(300, 303):
        custody.puncture(punctures([row]), now=row)
    custody.close()
    opened = home.open()
    assert opened.seeds.seeds() == [ONE]
    assert len(home.key_names()) == 2  # the epoch key, and the one that wraps the seed
    opened.close()


@pytest.mark.parametrize("call", ["create", "wrap"])
def test_a_key_that_wraps_nothing_is_destroyed(home: Home, custody: Custody, call: str) -> None:
    """Dying between naming and writing down leaves no key behind and no seed half kept."""
    custody.close()

    def dies() -> None:
        if armed:
            raise CustodyUnavailable("the provider went away")

    armed = False
    opened = home.open(Meddling(LocalFile(home.keys_dir), **{call: dies}))
    armed = True
    with pytest.raises(CustodyUnavailable):
        opened.seeds.keep(ONE, beside=0)
    armed = False
    opened.close()
    opened = home.open()
    assert opened.seeds.seeds() == []
    assert len(home.key_names()) == 1
    opened.close()


def test_recovery_elsewhere_between_naming_and_keeping(home: Home, custody: Custody) -> None:
    """It destroys the key that wraps nothing yet; the seed is not written down under a key that is gone."""
    custody.close()

    def recovers() -> None:
        if armed and armed.pop():
            home.open().close()

    armed: list[bool] = []
    opened = home.open(Meddling(LocalFile(home.keys_dir), wrap=recovers))
    armed.append(True)
    with pytest.raises(Exception) as failure:
        opened.seeds.keep(ONE, beside=0)
    assert type(failure.value).__name__ in {"CustodyUnavailable", "KeyGone"}
    opened.seeds.keep(OTHER, beside=0)
    assert opened.seeds.seeds() == [OTHER]
    opened.close()


def test_a_seed_moved_to_another_key_does_not_open(custody: Custody) -> None:
    custody.seeds.keep(ONE, beside=0)
    custody.seeds.keep(OTHER, beside=1)
    with custody._store.writing() as connection:
        connection.exec_driver_sql(
            "UPDATE custody_signer SET wrapped_seed ="
            " (SELECT wrapped_seed FROM custody_signer WHERE number = 1)"
        )
    with pytest.raises(IntegrityFault):
        custody.seeds.seeds()
