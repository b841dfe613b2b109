"""A whole home as a release left it, opened by what is here now: all that was there is there. T-16.

`homes/` has one for each release: database, custody store and development keys. `UPDATE_SNAPSHOTS=1` makes
the one of this version anew, which may happen until it is released and never after.
"""

import json
import os
import tarfile
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from shomei_memory_verify import verify_signed_receipt
from shomei_service.engine.errors import Held, NotFound
from shomei_service.engine.model import (
    Authority,
    ConsentAction,
    LawfulBasis,
    NewMemory,
    Policies,
    Release,
)
from shomei_service.engine.store.unit import Store
from shomei_service.engine.verbs import access, consent, hold
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from shomei_service.settings import Settings
from tests import oracle
from tests.crash.runs import ROOT
from tests.fakes import Home, House, new_home

HOMES = Path(__file__).with_name("homes")
LEFT = {"a newer kettle", "a held lamp", "a restricted stone", "a letter that was agreed to"}


def lived_in(folder: Path) -> Home:
    """Make a home in which every kind of thing has happened."""
    home = new_home(folder)
    with home.opened() as house:
        engine, admin = house.engine, house.admin
        access.set_policies(engine, home.tenant, Policies(purposes=frozenset({"support"})))
        update(engine, admin, house.remember("a kettle", "alice"), "a newer kettle")
        held, _ = house.remember("a held lamp", "bob"), house.remember("a chair", "bob")
        hold.place(engine, admin, hold.NewHold(Authority.LITIGATION, memory_id=held, matter_ref="a matter"))
        forget(engine, admin, "bob")
        restrict(engine, admin, house.remember("a restricted stone", "carol"))
        erase(engine, admin, house.remember("a stick"))
        consent.record(engine, admin, consent.NewConsent("dora", "support", ConsentAction.GRANTED))
        facts = {"lawful_basis": LawfulBasis.CONSENT, "purposes": ("support",)}
        add(engine, house.data, NewMemory("a letter that was agreed to", "dora", **facts))
    return home


def packed(home: Home, path: Path) -> None:
    """Keep a home and what it takes to enter it."""
    entry = {"pin": home.pin, "admin": home.admin_token, "data": home.data_token, "tenant": home.tenant}
    (home.settings.home / "entry.json").write_text(json.dumps(entry))
    with tarfile.open(path, "w:gz") as archive:
        archive.add(home.settings.home, "home")


def unpacked(path: Path, folder: Path) -> Home:
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="fully_trusted")
    for place in (folder / "home").rglob("*"):
        place.chmod(0o700 if place.is_dir() else 0o600)
        os.chown(place, os.geteuid(), os.getegid())
    entry = json.loads((folder / "home" / "entry.json").read_text())
    settings = Settings(home=folder / "home", embedder="none")
    return Home(settings, entry["pin"], entry["admin"], entry["data"], entry["tenant"])


def migrated(home: Home) -> Home:
    with closing(Store.existing(home.settings.database)) as store:
        store.migrate()
    return home


def test_every_release_left_one(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    here = HOMES / f"{project['version']}.tar.gz"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        HOMES.mkdir(exist_ok=True)
        packed(lived_in(tmp_path), here)
    assert here in set(HOMES.iterdir())


@pytest.mark.parametrize("path", sorted(HOMES.glob("*.tar.gz")), ids=lambda path: path.name)
def test_a_home_of_a_release_opens_and_goes_on(path: Path, tmp_path: Path) -> None:
    home = migrated(unpacked(path, tmp_path))
    with home.opened() as house:
        texts = {text: one for one, text in oracle.settled(house, home.settings).items()}
        assert texts.keys() == LEFT
        assert found(house) == {"a newer kettle", "a letter that was agreed to"}
        for row in oracle.read(home.settings).receipts:
            names = ("schema", "receipt_hash", "signer_id", "public_key_hex", "signature_hex")
            whole = {name: row[name] for name in names} | {"body": row["statement"]}
            assert verify_signed_receipt(whole, expected_public_key_hex=home.pin).authenticated
        with pytest.raises(Held):
            erase(house.engine, house.admin, texts["a held lamp"])
        (held,) = hold.page(house.engine, house.admin).holds
        hold.release(house.engine, house.admin, held.hold_id, Release.MATTER_CLOSED, confirm=True)
        lift(house.engine, house.admin, texts["a restricted stone"])
        erase(house.engine, house.admin, texts["a newer kettle"])
        with pytest.raises(NotFound):
            erase(house.engine, house.admin, texts["a newer kettle"])
    with home.opened() as house:
        left = set(oracle.settled(house, home.settings).values())
        assert left == found(house) == {"a restricted stone", "a letter that was agreed to"}


def found(house: House) -> set[str]:
    results = search(house.engine, house.data, "a kettle lamp stone letter", limit=100).results
    return {one.memory.content.text for one in results}
