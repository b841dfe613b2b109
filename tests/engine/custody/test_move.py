"""Custody handed from one provider to another: no leaf changes, and every crash rolls forward. T-15."""

import os
import signal
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, CustodyMismatch, address
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.providers.protocol import Description, KeyCustody, Provider
from shomei_service.engine.errors import CustodyUnavailable
from shomei_service.engine.failpoints import CUSTODY_POINTS
from tests.engine.custody.home import INSTALLATION, Attacker, Home, leaves, punctures
from tests.engine.custody.postgres import Server

ROWS = range(256, 330)
COMMITTED = {"e3.after", "p.readback", "e4.before", "e4.after", "e5.after"}
SEED = b"\x05" * 32


class Token(LocalFile):
    """Another kind of provider, by its code; what it does with keys is the same."""

    def describe(self) -> Description:
        return Description(KeyCustody.HSM_PKCS11, is_development=False)


class Places:
    """A custody store on either database, and two providers."""

    def __init__(self, home: Home, url: str) -> None:
        self.home, self.url = home, url
        self.token_dir = home.directory / "token"
        self.token_dir.mkdir(mode=0o700, parents=True)

    def create(self) -> Custody:
        files = LocalFile.initialise(self.home.keys_dir)
        custody = Custody.create(self.url, files, installation_id=INSTALLATION, now=1)
        custody.lease_tenant()
        custody.lease_rows(1)
        custody.seeds.keep(SEED, beside=0)
        return custody

    def open(self, code: KeyCustody, *, both: bool = True) -> Custody:
        files, token = LocalFile(self.home.keys_dir), Token(self.token_dir)
        at_token = code is KeyCustody.HSM_PKCS11
        other: Provider = files if at_token else token

        def elsewhere(asked: KeyCustody) -> Provider | None:
            return other if both and asked is other.describe().key_custody else None

        return Custody.open(
            self.url,
            token if at_token else files,
            installation_id=INSTALLATION,
            now=50,
            elsewhere=elsewhere,
        )

    def keys(self) -> tuple[int, int]:
        return len(list(self.home.keys_dir.iterdir())), len(list(self.token_dir.iterdir()))


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    home = Home(tmp_path / "home")
    if request.param == "sqlite":
        return Places(home, home.url)
    running: Server = request.getfixturevalue("cluster")
    return Places(home, running.database(f"move_{tmp_path.name[-24:]}".replace("-", "_").lower()))


def test_a_move_changes_who_holds_the_key_and_nothing_else(places: Places) -> None:
    custody = places.create()
    custody.puncture(punctures([300]), now=2)
    before = leaves(custody, ROWS)
    moved = custody.move(Token(places.token_dir), now=5)
    assert (moved.epoch_before, moved.epoch_after, moved.key_custody) == (1, 2, KeyCustody.DEV_LOCAL_FILE)
    assert custody.provider.describe().key_custody is KeyCustody.HSM_PKCS11
    assert leaves(custody, ROWS) == before
    assert custody.seeds.seeds() == [SEED]
    assert places.keys() == (0, 2)  # the epoch key, and the one that wraps the signer's seed
    after = custody.puncture(punctures([301]), now=6)
    assert (after.key_custody, after.epoch_after) == (KeyCustody.HSM_PKCS11, 3)
    (rotated,) = custody.rotations_after(0)
    assert (rotated.old_custody, rotated.new_custody) == (KeyCustody.DEV_LOCAL_FILE, KeyCustody.HSM_PKCS11)
    with pytest.raises(CustodyMismatch, match="nothing was moved"):
        custody.move(Token(places.token_dir), now=7)
    custody.close()
    with pytest.raises(CustodyMismatch, match="SHOMEI_CUSTODY"):
        places.open(KeyCustody.DEV_LOCAL_FILE)
    opened = places.open(KeyCustody.HSM_PKCS11, both=False)
    assert leaves(opened, ROWS) == {**before, 301: None}
    opened.move(LocalFile(places.home.keys_dir), now=8)
    assert places.keys() == (2, 0)
    assert leaves(opened, ROWS) == {**before, 301: None}
    opened.close()


def _die(places: Places, point: str) -> None:
    try:
        custody = places.open(KeyCustody.DEV_LOCAL_FILE)
        failpoints.arm(f"{point}:kill")
        custody.move(Token(places.token_dir), now=4)
    finally:
        os._exit(1)


@pytest.mark.parametrize("point", sorted(CUSTODY_POINTS))
def test_a_death_at_each_step_rolls_forward(places: Places, point: str) -> None:
    custody = places.create()
    custody.puncture(punctures([300]), now=2)
    before = leaves(custody, ROWS)
    custody.close()
    child = os.fork()
    if child == 0:
        _die(places, point)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    here, there = KeyCustody.DEV_LOCAL_FILE, KeyCustody.HSM_PKCS11
    if point not in COMMITTED:
        here, there = there, here
    with pytest.raises(CustodyMismatch, match="SHOMEI_CUSTODY"):
        places.open(here)
    opened = places.open(there)
    assert leaves(opened, ROWS) == before
    assert opened.seeds.seeds() == [SEED]
    assert places.keys() == ((0, 2) if point in COMMITTED else (2, 0))
    if point not in COMMITTED:
        opened.move(Token(places.token_dir), now=6)
        assert places.keys() == (0, 2)
    assert opened.puncture(punctures([301]), now=7).key_custody is KeyCustody.HSM_PKCS11
    assert opened.status().keys_to_destroy == 0
    opened.close()


def test_nothing_is_erased_while_the_old_key_can_not_be_reached(tmp_path: Path) -> None:
    """The old provider's key still opens an old copy of the store: until it is gone, no erasure is true."""
    places = Places(Home(tmp_path / "home"), f"sqlite:///{tmp_path / 'home' / 'custody' / 'custody.db'}")
    custody = places.create()
    before = leaves(custody, ROWS)
    old = places.home.copy(tmp_path / "old")
    failpoints.arm("e4.before:raise")
    with pytest.raises(RuntimeError):
        custody.move(Token(places.token_dir), now=4)
    failpoints.disarm()
    custody.close()
    with pytest.raises(CustodyMismatch, match="not finished"):
        places.open(KeyCustody.HSM_PKCS11, both=False)
    opened = places.open(KeyCustody.HSM_PKCS11)
    opened.puncture(punctures([301]), now=7)
    wanted = [address(1, row) for row in (300, 301)]
    assert len(Attacker([old], [old.keys_dir]).leaves(wanted)) == 2  # the control: with the key of then
    assert Attacker([old], [places.home.keys_dir, places.token_dir]).leaves(wanted) == {}
    assert leaves(opened, ROWS) == {**before, 301: None}
    opened.close()


def test_a_process_left_behind_by_a_move_stops(tmp_path: Path) -> None:
    """It would make the next key with the old provider, and so move custody back."""
    places = Places(Home(tmp_path / "home"), f"sqlite:///{tmp_path / 'home' / 'custody' / 'custody.db'}")
    custody = places.create()
    beside = places.open(KeyCustody.DEV_LOCAL_FILE)
    custody.move(Token(places.token_dir), now=4)
    with pytest.raises(CustodyUnavailable):
        beside.puncture(punctures([301]), now=5)
    with pytest.raises(CustodyMismatch, match="SHOMEI_CUSTODY"):
        beside.refresh()
    assert leaves(custody, [301])[301] is not None
    assert custody.epoch == 1
    for opened in (custody, beside):
        opened.close()
