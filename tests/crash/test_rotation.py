"""Keys that follow one another, with a death at every step. RELIABILITY T-15, DEV-38."""

import json
import os
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from shomei_memory_verify import verify_signed_receipt
from shomei_service.engine import rotation, upkeep
from shomei_service.engine.errors import CustodyUnavailable, ErasurePending, StartRefused, Unsupported
from shomei_service.engine.model import Caller, NewMemory
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.signer import show
from tests import oracle
from tests.crash.runs import KILLED, Server, Stored, copied, lapse
from tests.crash.test_restore import back_up, put_back
from tests.crash.writers import writing
from tests.fakes import Home, House, new_home

STEPS = {
    "signer": [["add", "a lamp", "carol"], ["rotate_signer"], ["add", "a stick", "carol"]],
    "custody": [["add", "a lamp", "carol"], ["rotate_custody"], ["add", "a stick", "carol"]],
}


@pytest.fixture
def home(folder: Path) -> Home:
    """Two tenants whose logs have begun, and a third whose log has not."""
    home = new_home(folder)
    with home.opened() as house:
        house.remember("a kettle", "alice")
        add(house.engine, house.stranger(), NewMemory("a foreign kettle", "alice"))
        house.stranger("newcomer")
    return home


def rotations(home: Home, role: str) -> dict[str, list[oracle.Row]]:
    """Return each tenant's statements that keys of a role followed one another."""
    found: dict[str, list[oracle.Row]] = {tenant: [] for tenant in oracle.read(home.settings).tenants}
    for row in oracle.read(home.settings).receipts:
        if row["schema"] == "shomei.key_rotation.v1" and row["statement"]["key_role"] == role:
            found[row["tenant_id"]].append(row["statement"])
    return found


def settled(house: House, home: Home) -> None:
    """Assert that no rotation is half done: one seed, every log at it, every part of a log accounted for."""
    oracle.settled(house, home.settings)
    keys = sorted(path.name for path in home.settings.keys.iterdir() if path.is_file())
    assert keys == ["signer.key"]
    signer = house.engine.signer
    assert signer is not None
    records = oracle.read(home.settings)
    for tenant in records.tenants:
        caller = Caller(tenant, "system", house.admin.scopes)  # type: ignore[arg-type]
        rows = [row for row in records.receipts if row["tenant_id"] == tenant]
        by_key = {(row["origin"], row["seq"]): row["public_key_hex"] for row in rows}
        for part in show(house.engine, caller).retired:
            for seq in range(part.first_seq, part.last_seq + 1):
                assert by_key.pop((part.origin, seq)) == part.public_key_hex
        assert set(by_key.values()) <= {signer.public_key_hex}


@pytest.mark.parametrize("role", sorted(STEPS))
def test_a_death_at_each_step(server: Server, home: Home, folder: Path, role: str) -> None:
    """Whatever was begun is there at the next opening, once, whether that one dies as well or not."""
    for nth in count(1):
        place = folder / f"death_{nth}"
        place.mkdir()
        dead = copied(home, place)
        run = server.run(dead, STEPS[role], f"rot.mid:kill:{nth}")
        if run.code == 0:
            break
        assert run.code == KILLED, run.errors
        for second in count(1):
            again = copied(dead, _made(place / f"second_{second}"))
            ended = server.run(again, [], f"rot.mid:kill:{second}").code
            _is_done(again, role)
            if ended == 0:
                break
    assert nth > 3
    _is_done(dead, role)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _is_done(home: Home, role: str) -> None:
    with home.opened() as house:
        settled(house, home)
        assert {hit.memory.content.text for hit in search(house.engine, house.data, "kettle").results} == {
            "a kettle"
        }
    stated = rotations(home, role)
    begun = {row["tenant_id"] for row in oracle.read(home.settings).receipts}
    assert all(len(stated[tenant]) == 1 for tenant in begun)


@pytest.mark.parametrize("point", ["e2.created", "e3.before_fsync", "e3.after", "e4.before", "e4.after"])
def test_a_death_inside_custody(server: Server, home: Home, point: str) -> None:
    """Before the commit nothing was rotated, nothing is said; after it, it is done and said to everyone."""
    assert server.run(home, STEPS["custody"], f"{point}:kill").code == KILLED
    with home.opened() as house:
        settled(house, home)
    is_done = point not in {"e2.created", "e3.before_fsync"}
    assert {len(stated) for stated in rotations(home, "custody").values()} == {int(is_done)}


def test_old_receipts_keep_their_old_pin(home: Home) -> None:
    """DEV-38: the old pin still authenticates, the new one names the mismatch, and every key is listed."""
    pins: list[str] = []
    for number in range(3):
        for _ in range(2):  # a restart keeps key and signer
            with home.opened() as house:
                house.remember(f"a lamp, number {number}")
                assert house.engine.signer is not None
                pins.append(house.engine.signer.public_key_hex)
        assert pins[-2] == pins[-1]
        with home.opened() as house:
            rotated = rotation.rotate_signer(house.engine)
            assert rotated.new_public_key_hex not in pins
            settled(house, home)
    with home.opened() as house:
        retired = show(house.engine, house.data).retired
    assert [one.public_key_hex for one in retired] == list(dict.fromkeys(pins))
    for row in oracle.read(home.settings).receipts:
        envelope = {name: row[name] for name in ("schema", "receipt_hash", "signer_id", "public_key_hex")}
        whole = envelope | {"signature_hex": row["signature_hex"], "body": json.loads(row["body"])}
        own = verify_signed_receipt(whole, expected_public_key_hex=row["public_key_hex"])
        assert (own.authenticated, own.reason) == (True, "ok")
        for pin in {*pins, rotated.new_public_key_hex} - {row["public_key_hex"]}:
            other = verify_signed_receipt(whole, expected_public_key_hex=pin)
            assert (other.authenticated, other.reason) == (False, "public_key_mismatch")


def test_a_running_process_takes_up_a_rotation_from_outside(home: Home) -> None:
    """Under load: whoever writes next signs with the new key, and no receipt of the old one comes after."""
    with home.opened() as house:
        with home.opened() as beside:
            rotated = rotation.rotate_signer(beside.engine)
        house.remember("a stick")
        erase(house.engine, house.admin, house.remember("a stone"))
        assert house.engine.signer is not None
        assert house.engine.signer.signer_id == rotated.new_id
        settled(house, home)


def test_rotations_under_load(home: Home) -> None:
    """Four write and erase while keys follow one another, from this process and from one beside it."""

    def write(house: House, number: int) -> None:
        made = house.remember(f"a lamp of writer {number}", f"writer {number}")
        erase(house.engine, house.admin, made)

    with home.opened() as house, home.opened() as beside:
        with writing(house, 4, write):
            for turn in (house, beside, house):
                rotation.rotate_signer(turn.engine)
                rotation.rotate_custody(turn.engine)
        upkeep.tend(house.engine)
        settled(house, home)
    stated = rotations(home, "signer")[home.tenant]
    assert len(stated) == 3
    assert len(rotations(home, "custody")[home.tenant]) == 3


def test_an_old_key_that_is_out_for_a_while(home: Home) -> None:
    """It cannot sign its last statement: nothing is lost, and the rotation goes on when it is back."""
    with home.opened() as house:
        before = oracle.read(home.settings).receipts
        used, aside = home.settings.keys / "signer.key", home.settings.home / "aside"
        used.rename(aside)
        with pytest.raises(StartRefused):
            rotation.rotate_signer(house.engine)
        assert oracle.read(home.settings).receipts == before
        aside.rename(used)
        rotation.rotate_signer(house.engine)
        settled(house, home)


def test_an_old_key_that_is_out_in_mid_rotation(server: Server, home: Home) -> None:
    assert server.run(home, STEPS["signer"], "rot.mid:kill:1").code == KILLED
    used, aside = home.settings.keys / "signer.key", home.settings.home / "aside"
    used.rename(aside)
    with pytest.raises(StartRefused, match=r"signer\.next"), home.opened():
        pass
    aside.rename(used)
    _is_done(home, "signer")


def test_an_old_key_that_is_lost_for_good(home: Home) -> None:
    """As docs/restore.md says: another seed in its place. Logs end, new ones say so, and erasing goes on."""
    used = home.settings.keys / "signer.key"
    used.unlink()
    with pytest.raises(StartRefused, match="restore it"), home.opened():
        pass
    used.write_bytes(os.urandom(32))
    used.chmod(0o600)
    with home.opened() as house:
        erase(house.engine, house.admin, house.remember("a stone"))
        assert [one.public_key_hex for one in show(house.engine, house.data).retired] == [home.pin]
    ours = [row for row in oracle.read(home.settings).receipts if row["tenant_id"] == home.tenant]
    schemas = [row["schema"].split(".")[1] for row in ours]
    assert schemas == ["memory_add", "log_restart", "key_rotation", "memory_add", "vector_delete"]


def test_nobody_signs_where_there_is_no_signer(folder: Path) -> None:
    """DEV-38: without a signer the signed fields are absent, never null, and no key is invented."""
    home = new_home(folder, signer="none")
    with home.opened() as house:
        made = add(house.engine, house.data, NewMemory("a kettle"))
        assert made.receipt.envelope is None
        with pytest.raises(Unsupported):
            rotation.rotate_signer(house.engine)
        rotation.rotate_custody(house.engine)
    assert [path.name for path in home.settings.keys.iterdir()] == ["custody"]
    (row, *more) = oracle.read(home.settings).receipts
    assert {one["signature_hex"] for one in (row, *more)} == {None}
    assert [one["statement"]["new_key_id"] for one in more] == ["dev_local_file:1"]


# A database put back from before a rotation: the old seed is gone.


def test_a_backup_from_before_two_rotations(home: Home, folder: Path) -> None:
    """The restored log is ended, the new one says which key follows, and every key that signed is listed."""
    backup = back_up(home, folder / "backup.db")
    pins = [home.pin]
    with home.opened() as house:
        for number in range(2):
            house.remember(f"a lamp, number {number}")
            pins.append(rotation.rotate_signer(house.engine).new_public_key_hex)
        rotation.rotate_custody(house.engine)
    issued = oracle.read(home.settings)
    put_back(home, backup)
    with home.opened() as house:
        assert house.engine.signer is not None
        assert house.engine.signer.public_key_hex == pins[-1]
        retired = show(house.engine, house.data).retired
        assert [one.public_key_hex for one in retired] == pins[:-1]
        house.remember("a stick")
    records = oracle.read(home.settings)
    ours = [row for row in records.receipts if row["tenant_id"] == home.tenant]
    restarted = next(number for number, row in enumerate(ours) if "log_restart" in row["schema"])
    schemas = [row["schema"].split(".")[1] for row in ours[restarted:]]
    assert schemas == ["log_restart", "key_rotation", "key_rotation", "memory_add"]
    follows = ours[restarted + 1]["statement"]
    assert follows["new_public_key_hex"] == pins[-1]
    places = {(row["origin"], row["seq"]): row["receipt_hash"] for row in issued.receipts}
    for row in records.receipts:
        assert places.get((row["origin"], row["seq"]), row["receipt_hash"]) == row["receipt_hash"]
    with home.opened() as house:
        again = oracle.read(home.settings).receipts
        assert again == records.receipts


def test_a_backup_from_before_a_rotation_whose_log_was_not_marked(home: Home, folder: Path) -> None:
    """Nothing but the missing seed tells that the database is older: that is enough to end its log."""
    backup = back_up(home, folder / "backup.db")
    with home.opened() as house:
        rotation.rotate_signer(house.engine)
    put_back(home, backup)
    with closing(sqlite3.connect(home.settings.data / "shomei.db")) as raw:
        origins = dict(raw.execute("SELECT tenant_id, log_origin FROM tenants"))
    with home.opened() as house:
        house.remember("a stick")
    now = {tenant: row["log_origin"] for tenant, row in oracle.read(home.settings).tenants.items()}
    begun = {row["tenant_id"] for row in oracle.read(home.settings).receipts}
    assert all(now[tenant] != origins[tenant] for tenant in begun)


# The signer in custody


def test_a_signer_in_custody_and_the_way_there(home: Home) -> None:
    """Until it is rotated into custody the file signs; then the file is gone, and nothing else changed."""
    inside = Home(
        home.settings.model_copy(update={"signer": "custody"}),
        home.pin,
        home.admin_token,
        home.data_token,
        home.tenant,
    )
    with inside.opened() as house:
        house.remember("a lamp")
        assert house.engine.signer is not None
        assert house.engine.signer.public_key_hex == home.pin
        rotated = rotation.rotate_signer(house.engine)
        house.remember("a stick")
        oracle.settled(house, home.settings)
    assert [path.name for path in home.settings.keys.iterdir()] == ["custody"]
    with inside.opened() as house:
        assert house.engine.signer is not None
        assert house.engine.signer.signer_id == rotated.new_id
        again = rotation.rotate_signer(house.engine)
        house.remember("a stone")
    assert len({path.stem for path in (home.settings.keys / "custody").glob("signer-*.key")}) == 1
    assert again.old_id == rotated.new_id
    with pytest.raises(StartRefused, match="SHOMEI_SIGNER=custody"), home.opened():
        pass


def test_custody_signs_from_the_first_receipt(folder: Path) -> None:
    home = new_home(folder, signer="custody")
    with home.opened() as house:
        house.remember("a kettle")
        oracle.settled(house, home.settings)
    assert not (home.settings.keys / "signer.key").exists()


def test_the_old_epoch_key_is_gone_after_a_rotation(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    before = {path.stem for path in (home.settings.keys / "custody").glob("*.key")}
    with home.opened() as house:
        rotation.rotate_custody(house.engine)
        texts = oracle.settled(house, home.settings)
    after = {path.stem for path in (home.settings.keys / "custody").glob("*.key")}
    assert len(after) == 1
    assert after.isdisjoint(before)
    assert texts == {one: text for one, (text, _) in small.rows.items()}


@pytest.mark.parametrize("role", sorted(STEPS))
@pytest.mark.parametrize("nth", [1, 2])
def test_a_death_on_either_database(
    server: Server, either_small: Stored, folder: Path, role: str, nth: int
) -> None:
    home = either_small.copied(folder)
    assert server.run(home, STEPS[role], f"rot.mid:kill:{nth}").code == KILLED
    lapse(home)
    with home.opened() as house:
        texts = oracle.settled(house, home.settings)
        assert house.engine.signer is not None
        pin = house.engine.signer.public_key_hex
    assert set(texts.values()) == {*(text for text, _ in either_small.rows.values()), "a lamp"}
    assert (pin == home.pin) == (role == "custody")
    assert [len(stated) for stated in rotations(home, role).values()] == [1]


def test_an_erasure_whose_mirror_fails_is_finished_when_it_is_back(folder: Path) -> None:
    """503, nothing destroyed, and upkeep rolls it forward by itself."""
    mirror = folder / "mirror"
    mirror.mkdir(mode=0o700)
    home = new_home(folder, custody_mirrors=str(mirror))
    with home.opened() as house:
        kept, gone = house.remember("a kettle"), house.remember("a stone")
        house.engine.mark_moved_logs(at_once=True)
        keys = oracle.read(home.settings).key_names
        mirror.rename(folder / "away")
        with pytest.raises((CustodyUnavailable, ErasurePending)):
            erase(house.engine, house.admin, gone)
        assert keys <= oracle.read(home.settings).key_names
        (folder / "away").rename(mirror)
        upkeep.tend(house.engine)
        assert oracle.settled(house, home.settings) == {kept: "a kettle"}
        assert keys.isdisjoint(oracle.read(home.settings).key_names)
