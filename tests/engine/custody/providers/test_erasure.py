"""The promise end to end on every provider: add, back up, erase, restore, attack. CUSTODY.md §1, §6, §7.3."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from shomei_memory_verify import render, verify_signed_receipt
from shomei_service.engine.custody import Address
from shomei_service.engine.custody.providers.protocol import Provider
from shomei_service.engine.custody.sealing import Column, RowPlace, open_dek
from shomei_service.engine.errors import NotFound
from shomei_service.engine.model import Attested, Json
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.read import get
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.crash.attack import rows
from tests.crash.test_restore import back_up, put_back
from tests.engine.custody.home import Attacker
from tests.engine.custody.home import Home as Stores
from tests.fakes import Home, House, new_home
from tests.providers import Custodian

DAY = 86_400
RETENTION_DAYS = 30
WORDS = {
    "final": "Its key was destroyed.",
    "scheduled": "Its key is scheduled for destruction.",
    "unassured": "Its key was deleted; that no copy is left is not assured.",
}


@pytest.fixture
def home(custodian: Custodian, tmp_path: Path) -> Home:
    return new_home(tmp_path, **custodian.settings)


def opened(backup: Path, stores: Iterable[Stores], provider: Provider) -> dict[str, bytes]:
    """Return what a thief reads who has a database, custody stores, and may ask the provider."""
    (installation,) = rows(backup, "SELECT installation_id FROM installation")
    thief = Attacker(stores, providers=[provider], domain=installation[0])
    sealed = rows(backup, "SELECT * FROM memories")
    leaves = thief.leaves(Address(row["address"]) for row in sealed)
    found: dict[str, bytes] = {}
    for row in sealed:
        leaf = leaves.get(Address(row["address"]))
        if leaf is not None:
            place = RowPlace(installation[0], row["tenant_id"], row["memory_id"], row["version"])
            keys = open_dek(leaf, place, row["sealed_dek"])
            found[row["memory_id"]] = keys.open(Column.CONTENT, row["sealed_content"])
    return found


def store_of(home: Home, to: Path) -> Stores:
    """Copy the custody store as it is now."""
    shutil.copytree(home.settings.custody_store, to / "custody")
    return Stores(to)


def test_a_backup_and_all_that_custody_holds_now_open_what_lives_and_nothing_else(
    custodian: Custodian, home: Home, tmp_path: Path
) -> None:
    """Proof 3; the control has the custody store and the provider from before, and reads everything."""
    with home.opened() as house:
        gone, kept = house.remember("a kettle of alice", "alice"), house.remember("a lamp of bob", "bob")
        backup = back_up(home, tmp_path / "backup.db")
        before = store_of(home, tmp_path / "before")
        copied = custodian.snapshot(home.settings.home, tmp_path / "provider")
        later = house.remember("a ladder of bob", "bob")
        erase(house.engine, house.admin, gone)
    now = store_of(home, tmp_path / "now")
    provider = custodian.opened(home.settings.home)
    assert opened(backup, [before, now], provider).keys() == {kept}
    with custodian.restored(copied) as restored:
        assert opened(backup, [before], restored).keys() == {kept, gone}

    if custodian.finality == "scheduled":
        # The control made use of the open window. Until it is closed again nothing is taken for erased.
        for name in custodian.living(home.settings.home) - {_current(now)}:
            provider.destroy(name)  # type: ignore[arg-type]
    put_back(home, backup)
    with home.opened() as house:
        assert oracle.settled(house, home.settings).keys() == {kept}
        for lost in (gone, later):
            with pytest.raises(NotFound):
                get(house.engine, house.data, lost)
        assert custodian.living(home.settings.home) == {_current(store_of(home, tmp_path / "after"))}


def _current(store: Stores) -> str:
    ((_, name, _),) = Attacker([store]).wrapped
    return name


def test_receipts_say_what_the_provider_is_worth(custodian: Custodian, tmp_path: Path) -> None:
    home = new_home(tmp_path, **custodian.settings, snapshot_retention_days=RETENTION_DAYS)
    with home.opened() as house:
        added = house.engine.key_custody
        erased, replaced, _ = (house.remember(text, "alice") for text in ("a kettle", "a lamp", "a chair"))
        receipts = [
            erase(house.engine, house.admin, erased).receipt,
            update(house.engine, house.admin, replaced, "a brighter lamp").receipt,
            forget(house.engine, house.admin, "alice").erased[0].receipt,
        ]
        assert added == custodian.code
        for epoch, receipt in enumerate(receipts):
            _says(custodian, receipt, epoch)
            _is_certified(custodian, receipt, house)


def _says(custodian: Custodian, receipt: Attested, epoch: int) -> None:
    body = receipt.body
    assert body["key_custody"] == custodian.code
    assert body["erase_method"] == "pprf_puncture_v1"
    assert (body["epoch_before"], body["epoch_after"]) == (epoch, epoch + 1)
    assert body["destroy_method"] == custodian.destroy_method
    assert body["finality"] == custodian.finality
    final_at, bound_at = body["key_final_at"], body["resurrection_bound_at"]
    at = _whole(body["applied_at"])
    match custodian.finality:
        case "unassured":
            assert (final_at, bound_at) == (None, None), "nothing bounds a copy that nobody can rule out"
        case "final":
            assert at - 60 <= _whole(final_at) <= at
            assert _whole(bound_at) == _whole(final_at) + RETENTION_DAYS * DAY
        case _:
            assert at + 7 * DAY - 60 <= _whole(final_at) <= at + 7 * DAY + 1
            assert at + RETENTION_DAYS * DAY - 60 <= _whole(bound_at) <= at + RETENTION_DAYS * DAY


def _whole(value: Json) -> int:
    assert isinstance(value, int)
    return value


def _is_certified(custodian: Custodian, receipt: Attested, house: House) -> None:
    """The certificate is no stronger than the provider."""
    envelope = dict(receipt.envelope or {})
    assert verify_signed_receipt(envelope, expected_public_key_hex=house.pin)
    page = render(envelope, expected_public_key_hex=house.pin)
    said = [words for words in WORDS.values() if words in page]
    assert said == [WORDS[custodian.finality]]
    assert f"Key custody: `{custodian.code}`." in page


def test_a_restored_row_is_erased_again_under_the_same_words(
    custodian: Custodian, home: Home, tmp_path: Path
) -> None:
    """What the epoch ended is on record in custody, so that the second receipt repeats the first."""
    with home.opened() as house:
        gone = house.remember("a kettle of alice", "alice")
        backup = back_up(home, tmp_path / "backup.db")
        first = erase(house.engine, house.admin, gone).receipt.body
    put_back(home, backup)
    with home.opened() as house:
        oracle.settled(house, home.settings)
    again = [row for row in oracle.read(home.settings).receipts if "reerase" in row["schema"]]
    (statement,) = [row["statement"] for row in again]
    custody = ("key_custody", "destroy_method", "finality", "key_final_at", "epoch_before", "epoch_after")
    assert {name: statement[name] for name in custody} == {name: first[name] for name in custody}
    assert statement["original_epoch"] == first["epoch_after"]
