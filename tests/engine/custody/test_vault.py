"""What the engine is promised: leases, repeats, the log of epochs, the journal, and a provider that fails."""

import resource
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update

from shomei_service.engine import failpoints
from shomei_service.engine.custody import (
    Custody,
    CustodyMismatch,
    Destruction,
    EpochEntry,
    JournalEntry,
    KeyGone,
    LogMark,
    Puncture,
    Punctured,
    PuncturedAt,
    Seen,
    address,
)
from shomei_service.engine.custody.faults import BlobMissing, Exhausted
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.custody.providers.protocol import (
    Destroyed,
    DestroyMethod,
    Finality,
    Handle,
    KeyCustody,
)
from shomei_service.engine.custody.tables import blobs, head, tenants
from shomei_service.engine.errors import CustodyUnavailable, IntegrityFault
from shomei_service.engine.reserve import RESERVE_BYTES, Reserve
from tests.engine.custody.home import CAUSE, INSTALLATION, Home, Meddling, leaves, punctures


def test_a_new_custody_is_at_epoch_nought(custody: Custody) -> None:
    assert (custody.epoch, custody.installation_id) == (0, INSTALLATION)
    assert custody.epochs_after(-1) == []
    status = custody.status()
    assert (status.blobs, status.keys_to_destroy, status.is_development) == (1, 0, True)
    assert status.key_custody is KeyCustody.DEV_LOCAL_FILE


def test_an_erase_destroys_one_leaf_and_no_other(home: Home, custody: Custody) -> None:
    before = leaves(custody, range(256, 1280))
    assert len(set(before.values())) == 1024
    done = custody.puncture(punctures([300]), now=1_000)
    assert done == Destruction(
        epoch_before=0,
        epoch_after=1,
        at=1_000,
        destroy_method=DestroyMethod.FILE_OVERWRITE_UNLINK,
        finality=Finality.UNASSURED,
        key_final_at=None,
        destroyed_at=1_000,
        key_custody=KeyCustody.DEV_LOCAL_FILE,
    )
    assert leaves(custody, range(256, 1280)) == {**before, 300: None}
    custody.close()
    reopened = home.open()
    assert reopened.epoch == 1
    assert leaves(reopened, range(256, 1280)) == {**before, 300: None}
    reopened.close()


def test_a_repeat_answers_as_the_first_time(custody: Custody) -> None:
    first = custody.puncture(punctures([300, 301]), now=10)
    custody.puncture(punctures([302]), now=20)
    assert custody.puncture(punctures([301, 300]), now=30) == first
    assert custody.puncture([Puncture(address(1, 300), "another_cause")], now=40) == first
    assert custody.punctured_at(address(1, 300)) == PuncturedAt(1, 10, CAUSE)
    assert custody.epoch == 2


def test_a_request_across_epochs_is_finished_by_the_newest(custody: Custody) -> None:
    custody.puncture(punctures([300]), now=10)
    second = custody.puncture(punctures([300, 301]), now=20)
    assert (second.epoch_after, second.at) == (2, 20)
    assert custody.puncture(punctures([300, 301]), now=30) == second
    assert custody.punctured_at(address(1, 300)) == PuncturedAt(1, 10, CAUSE)
    assert custody.punctured_at(address(1, 302)) is None


def test_the_epoch_log_tells_cause_time_and_addresses_in_order(home: Home, custody: Custody) -> None:
    mixed = [
        Puncture(address(1, 301), "retention_expired"),
        Puncture(address(1, 300), "delete_request"),
        Puncture(address(1, 299), "retention_expired"),
    ]
    custody.puncture(mixed, now=10)
    custody.puncture(punctures([302]), now=20)
    log = [
        EpochEntry(1, 10, "delete_request", (address(1, 300),)),
        EpochEntry(1, 10, "retention_expired", (address(1, 299), address(1, 301))),
        EpochEntry(2, 20, "delete_request", (address(1, 302),)),
    ]
    assert custody.epochs_after(0) == log
    assert custody.epochs_after(1) == log[2:]
    assert custody.epochs_after(2) == []
    custody.close()
    reopened = home.open()
    assert reopened.epochs_after(0) == log
    reopened.close()


def test_the_same_leaf_twice_in_one_call_is_one(custody: Custody) -> None:
    custody.puncture(punctures([300, 300]), now=10)
    assert custody.epochs_after(0) == [EpochEntry(1, 10, CAUSE, (address(1, 300),))]


def test_nothing_to_puncture_is_a_mistake(custody: Custody) -> None:
    with pytest.raises(ValueError, match="nothing"):
        custody.puncture([], now=1)


def test_a_whole_tenant_goes_and_the_others_stay(home: Home, custody: Custody) -> None:
    assert custody.lease_tenant() == 2
    custody.puncture(punctures([300]), now=5)
    others = leaves(custody, range(256, 300), tenant=2)
    done = custody.puncture_tenant(1, "tenant_offboarding", now=10)
    assert custody.puncture_tenant(1, "tenant_offboarding", now=20) == done
    assert set(leaves(custody, [0, 256, 299, 300, 1 << 39]).values()) == {None}
    assert leaves(custody, range(256, 300), tenant=2) == others
    assert custody.punctured_at(address(1, 999)) == PuncturedAt(2, 10, "tenant_offboarding")
    assert custody.punctured_at(address(1, 300)) == PuncturedAt(1, 5, CAUSE)
    assert custody.epochs_after(1) == [EpochEntry(2, 10, "tenant_offboarding", (), (1,))]
    # Nothing of it is left: the root, and the one blob below it that leads to the other tenants.
    assert custody.status().blobs == 2
    custody.close()
    reopened = home.open()
    assert leaves(reopened, range(256, 300), tenant=2) == others
    reopened.close()


def test_a_rotation_moves_the_key_and_nothing_else(home: Home, custody: Custody) -> None:
    before, key = leaves(custody, range(256, 300)), home.key_names()
    done = custody.rotate(now=10)
    assert (done.epoch_before, done.epoch_after, done.destroyed_at) == (0, 1, 10)
    assert len(home.key_names()) == 1
    assert home.key_names().isdisjoint(key)
    assert leaves(custody, range(256, 300)) == before
    assert custody.epochs_after(0) == []


def test_ten_thousand_rows_are_one_epoch(custody: Custody) -> None:
    custody.lease_rows(1, 20_000)
    before = leaves(custody, range(257, 400, 2))
    done = custody.puncture(punctures(range(256, 20_256, 2)), now=10)
    assert done.epoch_after == 1
    assert leaves(custody, range(257, 400, 2)) == before
    assert set(leaves(custody, range(256, 20_256, 500)).values()) == {None}
    assert len(custody.epochs_after(0)[0].addresses) == 10_000
    assert custody.puncture(punctures(range(256, 20_256, 2)), now=20) == done


# Leases


def test_no_row_is_leased_twice_across_reopening(home: Home, custody: Custody) -> None:
    assert custody.high_water(1) == 1280
    assert custody.lease_rows(1) == range(1280, 2304)
    custody.close()
    reopened = home.open(seen=Seen(rows={1: 2303}))
    assert reopened.lease_rows(1, 10) == range(2304, 2314)
    assert reopened.lease_tenant() == 2
    assert reopened.high_water(2) == 256
    reopened.close()


def test_two_openings_of_one_store_lease_apart(home: Home, custody: Custody) -> None:
    other = home.open()
    rows = [row for turn in range(10) for row in (custody, other)[turn % 2].lease_rows(1, 7)]
    assert rows == list(range(1280, 1350))
    assert [custody.lease_tenant(), other.lease_tenant(), custody.lease_tenant()] == [2, 3, 4]
    other.close()


@pytest.mark.parametrize("count", [0, -1])
def test_a_lease_never_goes_back(custody: Custody, count: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        custody.lease_rows(1, count)


def test_a_tenant_custody_does_not_know_is_a_mismatch(custody: Custody) -> None:
    with pytest.raises(CustodyMismatch):
        custody.lease_rows(2)
    with pytest.raises(CustodyMismatch):
        custody.high_water(2)


def test_the_last_row_is_the_last(custody: Custody) -> None:
    rest = (1 << 40) - custody.high_water(1)
    custody.lease_rows(1, rest)
    with pytest.raises(Exhausted):
        custody.lease_rows(1, 1)


def test_the_last_tenant_is_the_last(custody: Custody) -> None:
    with custody._heads.writing() as book:
        book.add(tenants, [{"tenant": 65534, "next_row": 256}])
    assert custody.lease_tenant() == 65535
    custody.puncture_tenant(65535, "tenant_offboarding", now=1)
    with pytest.raises(Exhausted):
        custody.lease_tenant()


# The journal and the log marks


def test_the_journal_keeps_order_and_has_no_gap(home: Home, custody: Custody) -> None:
    codes = {"basis": "art18_1_a", "level": 2}
    assert (
        custody.journal_append(tenant="t_1", kind="restricted", ids=["lm_1", "lm_2"], codes=codes, at=5) == 1
    )
    assert custody.journal_append(tenant="t_1", kind="hold_placed", pseudonym="ab12", at=6) == 2
    custody.close()
    reopened = home.open(seen=Seen(journal_seq=2))
    assert reopened.journal_append(tenant="t_2", kind="lifted", ids=["lm_1"], at=7) == 3
    assert reopened.journal_after(0) == [
        JournalEntry(1, "t_1", "restricted", ("lm_1", "lm_2"), None, codes, 5),
        JournalEntry(2, "t_1", "hold_placed", (), "ab12", {}, 6),
        JournalEntry(3, "t_2", "lifted", ("lm_1",), None, {}, 7),
    ]
    assert [entry.seq for entry in reopened.journal_after(2)] == [3]
    reopened.close()


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "two words"},
        {"ids": ["lm_1", "a memory's text"]},
        {"pseudonym": "Jürgen"},
        {"pseudonym": ""},
        {"codes": {"reason": "because she asked"}},
        {"codes": {"a key": 1}},
        {"tenant": "x" * 129},
    ],
)
def test_the_journal_takes_no_text(custody: Custody, line: dict[str, object]) -> None:
    whole: dict[str, object] = {"tenant": "t_1", "kind": "restricted", "at": 1} | line
    with pytest.raises(ValueError, match="ids and codes only"):
        custody.journal_append(**whole)  # type: ignore[arg-type]
    assert custody.journal_after(0) == []


def test_a_log_mark_only_goes_forward_within_its_origin(custody: Custody) -> None:
    assert custody.log_marks().get("t_1") is None
    custody.set_log_mark("t_1", "origin-a", 5)
    custody.set_log_mark("t_1", "origin-a", 4)
    assert custody.log_marks().get("t_1") == LogMark("origin-a", 5)
    custody.set_log_mark("t_1", "origin-a", 6)
    custody.set_log_mark("t_2", "origin-z", 1)
    custody.set_log_mark("t_1", "origin-b", 0)
    assert custody.log_marks() == {"t_1": LogMark("origin-b", 0), "t_2": LogMark("origin-z", 1)}


# A provider or a disk that fails


class Scheduled(LocalFile):
    """A key store that ends keys at a later date, and one that is final at once."""

    ended = Destroyed(DestroyMethod.KMS_SCHEDULE_DELETION, Finality.SCHEDULED, 900)

    def destroy(self, handle: Handle) -> Destroyed:
        super().destroy(handle)
        return self.ended


class Final(Scheduled):
    ended = Destroyed(DestroyMethod.PKCS11_DESTROY_OBJECT, Finality.FINAL)


class Stubborn(LocalFile):
    """A key store that says yes and keeps the key."""

    def destroy(self, handle: Handle) -> Destroyed:
        return Destroyed(DestroyMethod.FILE_OVERWRITE_UNLINK, Finality.UNASSURED)


@pytest.mark.parametrize(("kind", "final_at"), [(Scheduled, 900), (Final, 10)])
def test_the_providers_own_finality_is_reported(
    home: Home, custody: Custody, kind: type[Scheduled], final_at: int
) -> None:
    custody.close()
    opened = home.open(kind(home.keys_dir))
    done = opened.puncture(punctures([300]), now=10)
    assert (done.destroy_method, done.finality) == (kind.ended.method, kind.ended.finality)
    assert (done.key_final_at, done.destroyed_at) == (final_at, 10)
    opened.close()
    reopened = home.open(kind(home.keys_dir))
    assert reopened.puncture(punctures([300]), now=99) == done
    reopened.close()


def test_a_key_that_does_not_end_is_no_erasure(home: Home, custody: Custody) -> None:
    custody.close()
    opened = home.open(Stubborn(home.keys_dir))
    for _ in range(2):
        with pytest.raises(CustodyUnavailable):
            opened.puncture(punctures([300]), now=10)
    opened.close()
    honest = home.open()
    assert honest.puncture(punctures([300]), now=20).epoch_after == 1
    assert len(home.key_names()) == 1
    honest.close()


@pytest.mark.parametrize("call", ["create", "wrap", "unwrap", "destroy", "state"])
def test_a_provider_that_goes_away_at_any_call_loses_nothing(home: Home, custody: Custody, call: str) -> None:
    before = leaves(custody, range(256, 310))
    custody.close()

    def away() -> None:
        if down:
            raise CustodyUnavailable("the provider does not answer")

    down = False
    opened = home.open(Meddling(LocalFile(home.keys_dir), **{call: away}))
    down = True
    for _ in range(3):
        with pytest.raises(CustodyUnavailable):
            opened.puncture(punctures([300]), now=10)
    assert {row: leaf for row, leaf in leaves(opened, before).items() if leaf} | {300: before[300]} == before
    down = False
    opened.puncture(punctures([300]), now=20)
    assert leaves(opened, before) == {**before, 300: None}
    assert len(home.key_names()) == 1
    opened.close()


def test_nothing_is_destroyed_when_the_new_head_does_not_open(home: Home, custody: Custody) -> None:
    """Step P: without it, a store that lies about what it wrote would cost the whole domain."""
    key = home.key_names()
    custody.close()

    def lies() -> None:
        if armed:
            raise IntegrityFault("sealed bytes do not open here")

    armed = False
    opened = home.open(Meddling(LocalFile(home.keys_dir), unwrap=lies))
    armed = True
    with pytest.raises(IntegrityFault):
        opened.puncture(punctures([300]), now=10)
    assert key < home.key_names()
    armed = False
    opened.puncture(punctures([300]), now=10)
    assert len(home.key_names()) == 1
    opened.close()


def test_a_failed_sync_ends_writing_until_a_restart_and_not_reading(home: Home, custody: Custody) -> None:
    before = leaves(custody, range(256, 310))
    failpoints.arm("e3.before_fsync:eio")
    for _ in range(2):
        with pytest.raises(CustodyUnavailable):
            custody.puncture(punctures([300]), now=10)
    with pytest.raises(CustodyUnavailable):
        custody.lease_rows(1)
    assert leaves(custody, range(256, 310)) == before
    custody.close()
    reopened = home.open()
    reopened.puncture(punctures([300]), now=20)
    assert leaves(reopened, range(256, 310)) == {**before, 300: None}
    reopened.close()


def test_a_full_disk_costs_the_reserve_and_not_the_erase(home: Home, custody: Custody) -> None:
    reserve = home.custody_dir / "reserve"
    assert reserve.stat().st_size == RESERVE_BYTES
    failpoints.arm("e3.before_fsync:enospc,e5.after:enospc:1")
    with pytest.raises(CustodyUnavailable):  # it fails again when the reserve is gone
        custody.puncture(punctures([300]), now=10)
    assert not reserve.exists()
    failpoints.arm("e3.before_fsync:enospc")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([301]), now=20)
    failpoints.disarm()
    assert custody.puncture(punctures([300]), now=30).at == 10
    assert reserve.stat().st_size == RESERVE_BYTES
    failpoints.arm("e3.before_fsync:enospc")
    assert custody.puncture(punctures([302]), now=40).at == 40
    assert reserve.exists()  # there was room after all


def test_a_reserve_there_is_no_room_for_is_done_without(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    reserve = Reserve(tmp_path / "reserve")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        reserve.hold()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
    assert not reserve.release()
    reserve.hold()
    assert reserve.release()
    elsewhere = Reserve(None)
    elsewhere.hold()
    assert not elsewhere.release()


def test_an_unreadable_blob_is_a_fault_of_its_rows_alone(home: Home, custody: Custody) -> None:
    custody.lease_tenant()
    custody.puncture([*punctures([300]), *punctures([300], tenant=2)], now=5)
    custody.close()
    opened = home.open()
    with opened._store.writing() as connection:
        connection.execute(update(blobs).where(blobs.c.prefix == b"\x00\x01").values(sealed=b"\x00" * 200))
    with pytest.raises(IntegrityFault):
        opened.derive(address(1, 301))
    with opened._store.writing() as connection:
        connection.execute(delete(blobs).where(blobs.c.prefix == b"\x00\x01"))
    with pytest.raises(BlobMissing):
        opened.derive(address(1, 301))
    with pytest.raises(IntegrityFault):
        opened.puncture(punctures([301]), now=10)
    assert opened.puncture(punctures([301], tenant=2), now=11).at == 11
    with pytest.raises(Punctured):
        opened.derive(address(2, 301))
    opened.close()


def test_a_store_that_goes_back_under_a_running_process_is_noticed(home: Home, custody: Custody) -> None:
    with custody._store.reading() as connection:
        (old,) = connection.execute(select(head)).mappings()
    failpoints.arm("e4.before:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([300]), now=5)
    failpoints.disarm()
    live = home.key_names()
    with custody._store.writing() as connection:
        connection.execute(update(head).values(dict(old)))  # whole, readable, and one epoch old
    with pytest.raises(CustodyMismatch):
        custody.refresh()
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([301]), now=6)
    assert live == home.key_names()
    assert leaves(custody, [300]) == {300: None}


def test_a_head_that_is_not_the_one_written_is_no_head(home: Home, custody: Custody) -> None:
    other = custody._heads.plant(b"\x01" * 32).tree
    assert other.epoch == custody.epoch
    with pytest.raises(IntegrityFault):
        custody._heads.confirm(other)


def test_a_key_that_vanishes_under_a_running_process_is_named(home: Home, custody: Custody) -> None:
    other = home.open()
    other.rotate(now=5)
    (name,) = home.key_names()
    (home.keys_dir / name).rename(home.directory / "aside")
    with pytest.raises(KeyGone):
        custody.refresh()
    (home.directory / "aside").rename(home.keys_dir / name)
    assert custody.refresh()
    other.close()


def test_a_busy_store_is_unavailable_and_keeps_every_key(
    home: Home, custody: Custody, monkeypatch: pytest.MonkeyPatch
) -> None:
    custody.puncture(punctures([300]), now=5)
    custody.close()
    monkeypatch.setattr("shomei_service.engine.custody.files._BUSY_TIMEOUT_S", 0.05)
    keys = home.key_names()
    reader = sqlite3.connect(home.custody_dir / "custody.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM custody_head").fetchall()
    writer = sqlite3.connect(home.custody_dir / "custody.db", isolation_level=None)
    writer.execute("UPDATE custody_head SET created_at = created_at + 1")
    with pytest.raises(CustodyUnavailable):
        home.open()  # the log can not be brought in while an older state is being read
    reader.close()
    writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("UPDATE custody_head SET created_at = created_at + 1")
    with pytest.raises(CustodyUnavailable):
        home.open()
    writer.close()
    assert home.key_names() == keys
    home.open().close()
