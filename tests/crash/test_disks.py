"""Disks that fail, fill up, or may not be written: a refusal, nothing by halves, and erasing goes on.

RELIABILITY T-05, T-06, T-07, T-08.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from shomei_service import bootstrap
from shomei_service import home as home_module
from shomei_service.engine.errors import (
    CustodyUnavailable,
    EngineError,
    ErasurePending,
    StartRefused,
    StorageUnavailable,
)
from shomei_service.engine.store import server as server_module
from shomei_service.engine.store.unit import Store
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.search import search
from tests import oracle
from tests.crash.deep import is_deep, keep
from tests.crash.runs import Server, Stored, after, snapshot
from tests.crash.strace import counted, failing, logging, needs_strace, spread
from tests.crash.test_syscalls import steps
from tests.engine.custody.postgres import Server as PostgreSQL
from tests.fakes import Home, House, new_home
from tests.laws.clients import AtWork
from tests.laws.workers import holds_what_was_told, wait_until, working

MIB = 1 << 20


# T-05: a sync that fails is the end.


@needs_strace
@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_a_failed_sync_is_never_taken_for_a_good_one(
    server: Server, small: Stored, folder: Path, call: str, request: pytest.FixtureRequest
) -> None:
    """It fails once and would succeed the next time: whoever tries again may be lied to."""
    (folder / "whole").mkdir()
    run = server.run(small.copied(folder / "whole"), steps(small), trace=logging(folder / "log", call))
    calls = counted(folder / "log")[call]
    points = spread(calls, None if is_deep(request) else 8)
    ended = 0
    for nth in points:
        (folder / str(nth)).mkdir()
        home = small.copied(folder / str(nth))
        run = server.run(home, steps(small), trace=failing(call, "EIO", str(nth)))
        ended += run.code != 0
        with home.opened() as house:
            after(house, home, small, run, carried_out=None)
    keep(request, f"failed {call}", {"calls": calls, "failures": len(list(points)), "ended": ended})
    assert ended >= len(list(points)) // 2, "most of them are met in the middle of a verb, which says so"


@needs_strace
def test_a_service_whose_disk_fails_ends(folder: Path) -> None:
    home = new_home(folder)
    with working(home, folder, 1) as service:
        port = int(service.url.rpartition(":")[2])
        with AtWork(service.url, home.admin_token, clients=2, seed=7) as told:
            arguments = failing("fdatasync", "EIO", "9")
            watched = subprocess.Popen(
                ["strace", "-f", "-p", str(service.process.pid), *arguments], stderr=subprocess.DEVNULL
            )
            assert service.process.wait(120) == 1, "not 0: whoever supervises it has to know"
            watched.wait(120)
            with working(home, folder, 1, port=port):
                told.end()
    assert {status for _, status in told.statuses} <= {0, 200, 409, 503}
    holds_what_was_told(home, told)


def test_after_a_failed_sync_nothing_more_is_written(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    with home.opened() as house:
        house.engine.store.is_fatal = True
        with pytest.raises(StorageUnavailable):
            house.remember("a kettle")
        with pytest.raises(StorageUnavailable):
            house.engine.store.truncate_log()
        assert search(house.engine, house.data, "stone", limit=1).results
        house.engine.store.is_fatal = False  # else closing could not write its marks


# T-06: settings that durability stands on.


@pytest.mark.parametrize("setting", ["fsync=off", "full_page_writes=off", "synchronous_commit=off"])
def test_a_server_that_may_forget_refuses(postgres: PostgreSQL, folder: Path, setting: str) -> None:
    url = postgres.database(setting.partition("=")[0])
    Store.create(url).close()
    postgres.stop()
    postgres.start(setting)
    try:
        with pytest.raises(StartRefused):
            Store.existing(url).is_walled()
    finally:
        postgres.stop()
        postgres.start()
    store = Store.existing(url)
    assert store.is_walled()
    store.close()


def test_waits_for_a_server_are_bounded(postgres: PostgreSQL) -> None:
    store = Store.create(postgres.database("bounded"))
    with store.snapshot() as connection:
        for name, seconds in server_module.WAITS.items():
            assert connection.exec_driver_sql(f"SHOW {name}").scalar_one() in {f"{seconds}s", "1min"}
    store.close()


# T-07: a full disk.


@dataclass(frozen=True, slots=True)
class Volumes:
    """An installation with each of its three places on a small disk of its own."""

    home: Home
    disks: dict[str, Path]

    def fill(self, name: str) -> Path:
        """Use up all room of one disk; return the file that does."""
        filler = self.disks[name] / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (MIB, 4096, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue
        return filler


@contextmanager
def volumes(folder: Path) -> Iterator[Volumes]:
    """Mount three disks; skip where that is not allowed."""
    with ExitStack() as mounted:
        disks: dict[str, Path] = {}
        for name in ("data", "custody", "keys"):
            disks[name] = folder / name
            disks[name].mkdir()
            made = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disks[name])], capture_output=True
            )
            if made.returncode:
                pytest.skip("must: disks can not be mounted here")
            mounted.callback(subprocess.run, ["umount", "-l", str(disks[name])], check=True)
        places = {f"{kind}_dir": disks[name] / "in" for kind, name in DIRECTORIES.items()}
        yield Volumes(new_home(folder, **places), disks)


DIRECTORIES = {"data": "data", "custody": "custody", "key": "keys"}


@pytest.fixture
def small_disks(folder: Path) -> Iterator[Volumes]:
    with volumes(folder) as made:
        yield made


def remembered(house: House) -> list[str]:
    return [house.remember(f"a kettle {number}", "alice") for number in range(6)]


def found(house: House) -> set[str]:
    return {one.memory.memory_id for one in search(house.engine, house.data, "kettle", limit=100).results}


@pytest.mark.parametrize("disk", ["data", "custody", "keys"])
def test_a_full_disk_refuses_what_grows_and_still_erases(small_disks: Volumes, disk: str) -> None:
    home = small_disks.home
    with home.opened() as house:
        ids = remembered(house)
        upkeep(house.engine)  # takes the room that is kept for this day
        filler = small_disks.fill(disk)
        if disk == "data":
            fill_the_log(house)
        assert found(house) == set(ids) | found(house), "what is there is read as before"
        if disk != "keys":
            erase(house.engine, house.admin, ids[0])
            assert forget(house.engine, house.admin, "alice").matched_count >= 5
            assert not found(house) & set(ids)
        else:
            with pytest.raises((CustodyUnavailable, ErasurePending)):  # a development key is a file there
                erase(house.engine, house.admin, ids[0])
        filler.unlink()
        upkeep(house.engine)
        assert house.remember("a kettle at last") in found(house)
        oracle.settled(house, home.settings)
    with home.opened() as house:
        oracle.settled(house, home.settings)


def fill_the_log(house: House) -> None:
    """Add until the disk refuses: what room there was in files is used up too."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            house.remember("a kettle " + "x" * 60_000)
        except StorageUnavailable:
            return
    raise AssertionError("the disk never filled")


@needs_strace
def test_full_at_the_nth_write_and_ever_after(
    server: Server, small: Stored, folder: Path, request: pytest.FixtureRequest
) -> None:
    """In the middle of whatever verb: refused, nothing by halves, and well again when there is room."""
    (folder / "whole").mkdir()
    log = folder / "log"
    run = server.run(small.copied(folder / "whole"), steps(small), trace=logging(log, "pwrite64"))
    assert run.code == 0, run.errors
    calls = counted(log)["pwrite64"]
    points = list(spread(calls, None if is_deep(request) else 6))
    for nth in points:
        (folder / str(nth)).mkdir()
        home = small.copied(folder / str(nth))
        run = server.run(home, steps(small), trace=failing("pwrite64", "ENOSPC", f"{nth}+"))
        assert run.code in {0, 1}, (nth, run.errors)
        with home.opened() as house:
            after(house, home, small, run, carried_out=None)
    keep(request, "full at pwrite64", {"calls": calls, "failures": len(points)})


def test_a_full_mirror_stops_what_it_has_to_hear_of_and_no_more(small_disks: Volumes, folder: Path) -> None:
    """No erasure is answered that a mirror has not heard of; it goes on once there is room."""
    mirror = small_disks.disks["keys"] / "mirror"
    mirror.mkdir(mode=0o700)
    home = new_home(folder / "other", custody_mirrors=str(mirror))
    with home.opened() as house:
        ids = remembered(house)
        filler = small_disks.fill("keys")
        with pytest.raises((CustodyUnavailable, ErasurePending)):
            erase(house.engine, house.admin, ids[0])
        assert set(ids[1:]) <= found(house)
        house.remember("a kettle all the same")
        filler.unlink()
        upkeep(house.engine)
        assert forget(house.engine, house.admin, "alice").closure is not None
        assert set(oracle.settled(house, home.settings).values()) == {"a kettle all the same"}


def test_full_while_it_serves(small_disks: Volumes) -> None:
    """Over HTTP: 503 with Retry-After, and it passes without a restart."""
    home, folder = small_disks.home, small_disks.disks["data"].parent
    places = {kind.upper(): small_disks.disks[name] / "in" for kind, name in DIRECTORIES.items()}
    names = {f"SHOMEI_{kind}_DIR": str(place) for kind, place in places.items()}
    with (
        working(home, folder, 1, **names) as service,
        AtWork(service.url, home.admin_token, clients=4, seed=8) as told,
    ):
        wait_until(lambda: told.statuses["memories", 200] > 30)
        filler = small_disks.fill("data")
        wait_until(lambda: told.statuses["memories", 503] > 3)
        filler.unlink()
        done = told.statuses["memories", 200]
        wait_until(lambda: told.statuses["memories", 200] > done + 20)
    assert {status for _, status in told.statuses} <= {200, 503}
    holds_what_was_told(home, told)


# T-08: what may not be written, or is not there.


def test_a_disk_that_may_only_be_read(small_disks: Volumes) -> None:
    """Refused at the start where the start has to write, else where an erase has to."""
    home = small_disks.home
    with home.opened() as house:
        ids = remembered(house)
    for disk in small_disks.disks.values():
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(EngineError), home.opened() as house:
            erase(house.engine, house.admin, ids[0])
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    with home.opened() as house:
        oracle.settled(house, home.settings)
        assert set(ids[1:]) <= found(house)


def test_a_disk_that_becomes_one_that_may_only_be_read(small_disks: Volumes) -> None:
    home = small_disks.home
    with home.opened() as house:
        ids = remembered(house)
        for name, disk in small_disks.disks.items():
            made = subprocess.run(["mount", "-o", "remount,ro", str(disk)], capture_output=True)
            if made.returncode:
                continue  # a file on it is open for writing: the kernel does not allow it
            with pytest.raises(EngineError):
                erase(house.engine, house.admin, ids[0])
            assert found(house) >= set(ids[1:]), name
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        upkeep(house.engine)
        oracle.settled(house, home.settings)


def test_a_second_server_on_one_home_is_refused(
    small: Stored, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = small.copied(folder)
    monkeypatch.setattr(home_module, "_WAIT_S", 0.2)  # for a predecessor that is on its way out
    second = bootstrap.opened(home.settings, alone=True)
    with home.opened(), pytest.raises(StartRefused) as refusal, second:
        pass
    assert "already runs" in refusal.value.message


@pytest.mark.skipif(os.geteuid() != 0, reason="must: only root can become somebody else")
def test_a_home_of_somebody_else(small: Stored, folder: Path) -> None:
    """Permission that was lost is one clear refusal, and leaves every byte."""
    home = small.copied(folder)
    folder.chmod(0o755)
    before = snapshot(home)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            with home.opened():
                pass
        except StartRefused:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert snapshot(home) == before


def test_a_lock_file_that_a_dead_server_left_is_no_lock(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    (home.settings.data / "serve.lock").write_text("4711\n")
    os.chmod(home.settings.data / "serve.lock", 0o600)
    with home.opened() as house:
        assert oracle.settled(house, home.settings).keys() == small.rows.keys()
