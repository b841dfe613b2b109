"""A tenant's commitment key is followed by another: deaths, load, restores, outages, walls. RELIABILITY T-15.

`oracle.settled` recomputes every closure under the key it names, every tombstone's id under the first key,
and holds each receipt's `commit_key_id` against the ranges at rest; so each test ends in it.
"""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from shomei_service.engine import failpoints, rotation
from shomei_service.engine.custody.vault import RESERVED_ROWS
from shomei_service.engine.errors import CustodyUnavailable, Invalid, NotFound, StartRefused, Unsupported
from shomei_service.engine.failpoints import InjectedError
from shomei_service.engine.model import NewMemory
from shomei_service.engine.store import commitments, tenants
from shomei_service.engine.store.commitments import KeyRange
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.export import Form, Wanted, export
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.recompute import recompute
from shomei_service.engine.verbs.search import search
from tests import oracle
from tests.crash.runs import KILLED, Server, Stored, lapse
from tests.crash.scenario import Step
from tests.crash.strace import WRITING, counted, killing, logging, needs_strace, spread
from tests.crash.test_restore import back_up, put_back
from tests.crash.writers import writing
from tests.fakes import FixedClock, Home, House, new_home
from tests.recompute_export import disagreements

STEPS: list[Step] = [
    ["forget", "alice"],
    ["rotate_commitment_key"],
    ["add", "a new kettle of alice", "alice"],
    ["forget", "alice"],
]


def rotate(house: House, *, after: str | None = None) -> rotation.CommitmentRotation:
    return rotation.rotate_commitment_key(house.engine, house.admin.tenant, after=after)


def key_of(house: House, key_id: str | None = None) -> bytes:
    return access.commitment_key(house.engine, house.admin.tenant, key_id)[1]


def closures(home: Home) -> list[oracle.Row]:
    """Return what the first tenant's closures say, in order."""
    rows = [row for row in oracle.read(home.settings).receipts if row["tenant_id"] == home.tenant]
    return [row["statement"] for row in rows if row["schema"] == "shomei.subject_closure.v1"]


def stated(home: Home) -> list[oracle.Row]:
    """Return what was said of commitment keys that follow one another."""
    bodies = [row["statement"] for row in oracle.read(home.settings).receipts]
    return [body for body in bodies if body.get("key_role") == "commit"]


def agrees(house: House, home: Home) -> None:
    """Assert every invariant, and that the operator's own command finds nothing."""
    oracle.settled(house, home.settings)
    found = recompute(house.engine, house.admin)
    assert (found.disagreeing, found.gaps) == ([], [])


# What a rotation changes, and what it must not.


def test_new_closures_name_the_new_key_and_old_ones_stay(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    with home.opened() as house:
        forget(house.engine, house.admin, "alice")
        first = rotate(house)
        assert key_of(house) == key_of(house, first.new_id) != key_of(house, first.old_id)
        forget(house.engine, house.admin, "alice")
        second = rotate(house)
        forget(house.engine, house.admin, "bob")
        agrees(house, home)
        keys = access.commitment_keys(house.engine, home.tenant)
    ids = [first.old_id, first.new_id, second.new_id]
    assert (keys.current, keys.every) == (second.new_id, ids)
    said = closures(home)
    assert [body["commit_key_id"] for body in said] == ids
    # The same set of the same subject: named alike, committed to under another key.
    for name in ("subject_pseudonym", "tenant_id_hash", "closed_set_size"):
        assert said[0][name] == said[1][name]
    assert said[0]["closed_set_commitment"] != said[1]["closed_set_commitment"]
    assert [(body["old_key_id"], body["new_key_id"]) for body in stated(home)] == [
        (first.old_id, first.new_id),
        (second.old_id, second.new_id),
    ]
    assert {body["actor_ref"] for body in stated(home)} == {"system"}  # the operator's, as any rotation
    places = {(one.commit_key_id, one.first_seq, one.last_seq) for one in keys.named}
    named = {key_id: sorted(each) for key_id, each in _seqs(home).items()}
    assert places == {(key_id, each[0], each[-1]) for key_id, each in named.items()}


def _seqs(home: Home) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for row in oracle.read(home.settings).receipts:
        found.setdefault(row["statement"]["commit_key_id"], set()).add(row["seq"])
    return found


def test_a_later_key_opens_no_name(small: Stored, folder: Path) -> None:
    """An auditor of the time after a rotation recomputes closures, and can not confirm a guessed user_id."""
    home = small.copied(folder)
    with home.opened() as house:
        rotated = rotate(house)
        forget(house.engine, house.admin, "alice")
        (body,) = closures(home)
        guesses = {
            key_id: "hmac-sha256:" + oracle.mac(key_of(house, key_id), "subject-v1", b"alice")
            for key_id in (rotated.old_id, rotated.new_id)
        }
        assert guesses[rotated.old_id] == body["subject_pseudonym"] != guesses[rotated.new_id]
        agrees(house, home)


def test_a_closure_under_another_key_than_it_names_is_found(small: Stored, folder: Path) -> None:
    """The control: recomputing decides by the key, for a known one and for one that was never there."""
    home = small.copied(folder)
    with home.opened() as house:
        forget(house.engine, house.admin, "alice")
        rotated = rotate(house)
        with house.engine.unit(home.tenant) as unit:
            tenant = tenants.get(unit)
            (log, *_) = [one.origin for one in commitments.of_logs(unit)]
            commitments.begin(unit.connection, unit.tenant, KeyRange(log, 0, rotated.old_id, 7))
        assert len(recompute(house.engine, house.admin).disagreeing) == 1
        with house.engine.unit(home.tenant) as unit:
            commitments.begin(unit.connection, unit.tenant, KeyRange(log, 0, "ck_" + 32 * "0", 0))
        assert len(recompute(house.engine, house.admin).disagreeing) == 1
        with house.engine.unit(home.tenant) as unit:
            commitments.begin(unit.connection, unit.tenant, KeyRange(log, 0, rotated.old_id, 0))
        assert tenant.commit_key_id == rotated.new_id
        agrees(house, home)


def test_a_rotation_asked_for_again_is_one(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    with home.opened() as house:
        first_id = access.commitment_keys(house.engine, home.tenant).current
        done = rotate(house, after=first_id)
        assert done.is_new
        again = rotate(house, after=first_id)
        assert again == replace(done, is_new=False)
        rotate(house, after=done.new_id)
        for stale in (first_id, "ck_" + 32 * "0"):
            with pytest.raises(Invalid):
                rotate(house, after=stale)
        agrees(house, home)
    assert len(stated(home)) == 2


def test_there_is_a_last_leaf(small: Stored, folder: Path) -> None:
    """After 255 rotations it is refused in words: a leaf is never used twice, and none is a row's."""
    home = small.copied(folder)
    with home.opened() as house:
        with house.engine.unit(home.tenant) as unit:
            late = KeyRange("shomei/" + 32 * "0", 5, "ck_" + 32 * "0", RESERVED_ROWS - 2)
            commitments.begin(unit.connection, unit.tenant, late)
        rotate(house)
        before = oracle.read(home.settings).receipts
        with pytest.raises(Unsupported):
            rotate(house)
        assert oracle.read(home.settings).receipts == before


def test_an_unknown_key_is_not_shown(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    with home.opened() as house, pytest.raises(NotFound):
        key_of(house, "ck_" + 32 * "0")


def test_tenants_are_walled(either_small: Stored, folder: Path) -> None:
    """One tenant's rotation is nobody else's: keys, receipts, closures; and its keys are of no use there."""
    home = either_small.copied(folder)
    with home.opened() as house:
        stranger = house.stranger()
        add(house.engine, stranger, NewMemory("a foreign kettle", "alice"))
        theirs = access.commitment_keys(house.engine, stranger.tenant)
        rotated = rotate(house)
        rotate(house)
        forget(house.engine, stranger, "alice")
        assert access.commitment_keys(house.engine, stranger.tenant).every == theirs.every
        with pytest.raises(NotFound):
            access.commitment_key(house.engine, stranger.tenant, rotated.new_id)
        with pytest.raises(Invalid):
            rotation.rotate_commitment_key(house.engine, stranger.tenant, after=rotated.new_id)
        own = rotation.rotate_commitment_key(house.engine, stranger.tenant)
        leaves = {
            access.commitment_key(house.engine, tenant, key_id)[1]
            for tenant, key_id in ((stranger.tenant, own.new_id), (home.tenant, rotated.new_id))
        }
        assert len(leaves) == 2
        found = recompute(house.engine, stranger)
        assert (found.closures, found.disagreeing) == (1, [])
        agrees(house, home)


# Deaths.


def _is_done(home: Home, *, rotated: bool | None) -> bool:
    lapse(home)
    with home.opened() as house:
        agrees(house, home)
        done = len(stated(home))
        assert done <= 1
        assert rotated is None or done == rotated
        found = search(house.engine, house.data, "lamp", user_id="bob").results
        assert {hit.memory.content.text for hit in found} == {"a lamp of bob"}
        forget(house.engine, house.admin, "alice")
        current = access.commitment_keys(house.engine, home.tenant).current
        assert closures(home)[-1]["commit_key_id"] == current
        assert (current in {body["new_key_id"] for body in stated(home)}) == bool(done)
    return bool(done)


def test_a_death_at_each_step(server: Server, either_small: Stored, folder: Path) -> None:
    """Once the line is durable it is done at the next opening, once, whether that one dies as well or not."""
    deaths = 0
    for nth in count(1):
        place = folder / f"death_{nth}"
        place.mkdir()
        dead = either_small.copied(place)
        run = server.run(dead, STEPS, f"rot.mid:kill:{nth}")
        if run.code == 0:
            _is_done(dead, rotated=True)
            break
        assert run.code == KILLED, run.errors
        lapse(dead)
        for point in ("rot.mid", "boot.journal", "boot.reerase"):
            again = either_small.again(dead, _made(place / point))
            ended = server.run(again, [], f"{point}:kill")
            deaths += ended.code == KILLED
            _is_done(again, rotated=True)
        _is_done(dead, rotated=True)
    assert nth == 3  # between the line and the commit, and after it
    assert deaths >= 4


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@needs_strace
@pytest.mark.parametrize("call", WRITING)
def test_die_at_the_nth_call(server: Server, small: Stored, folder: Path, call: str) -> None:
    """Done or not begun, at writes, syncs, cuts, renames and unlinks spread over the whole of it."""
    steps = [["rotate_commitment_key"]]
    whole = small.copied(_made(folder / "whole"))
    run = server.run(whole, steps, trace=logging(folder / "log", call))
    assert run.code == 0, run.errors
    outcomes: set[bool] = set()
    for nth in spread(counted(folder / "log")[call], 6):
        home = small.copied(_made(folder / str(nth)))
        assert server.run(home, steps, trace=killing(call, nth)).code == KILLED
        outcomes.add(_is_done(home, rotated=None))
    assert outcomes <= {True, False}
    _is_done(whole, rotated=True)


def test_what_fails_between_line_and_commit_was_not_done(either_small: Stored, folder: Path) -> None:
    """It is answered that nothing was done: the line is taken back, and no later opening may do it."""
    home = either_small.copied(folder)
    with home.opened() as house:
        before = access.commitment_keys(house.engine, home.tenant)
        failpoints.arm("rot.mid:raise")
        with pytest.raises(InjectedError):
            rotate(house)
        failpoints.disarm()
        assert access.commitment_keys(house.engine, home.tenant) == before
    _is_done(home, rotated=False)
    with home.opened() as house:
        done = rotate(house, after=before.current)
        assert rotate(house, after=before.current) == replace(done, is_new=False)
        with house.engine.reading(home.tenant) as unit:
            leaves = commitments.leaves(unit)
        assert leaves == {done.old_id: 0, done.new_id: 2}, "what was given up is not taken again"
    with home.opened() as house:
        agrees(house, home)
    assert len(stated(home)) == 1


# Under load.


def test_rotations_under_load(either_small: Stored, folder: Path) -> None:
    """Three add and forget while keys follow one another, from this process and from one beside it."""
    home = either_small.copied(folder)

    def write(house: House, number: int) -> None:
        house.remember(f"a lamp of writer {number}", f"writer {number}")
        forget(house.engine, house.admin, f"writer {number}")

    with home.opened() as house, home.opened() as beside:
        rotated: list[str] = []
        with writing(house, 3, write) as failures:
            for turn in (house, beside, house, beside):
                said = len(closures(home))
                rotated.append(rotate(turn).new_id)
                while len(closures(home)) < said + 3 and not failures:
                    time.sleep(0.01)
        agrees(house, home)
        agrees(beside, home)
    assert len(stated(home)) == 4
    assert {*rotated} <= {body["commit_key_id"] for body in closures(home)}


def test_all_who_rotate_at_once_are_done_one_after_the_other(either_small: Stored, folder: Path) -> None:
    """With the key that is to be followed named, one of them does it and the rest are told so."""
    home = either_small.copied(folder)
    with home.opened() as house, home.opened() as beside:
        first_id = access.commitment_keys(house.engine, home.tenant).current
        done: list[rotation.CommitmentRotation] = []
        turns = [
            threading.Thread(target=lambda turn=turn: done.append(rotate(turn, after=first_id)))
            for turn in (house, beside, house, beside)
        ]
        for turn in turns:
            turn.start()
        for turn in turns:
            turn.join()
        assert sorted(one.is_new for one in done) == [False, False, False, True]
        assert len({one.new_id for one in done}) == 1
        agrees(house, home)


@dataclass(slots=True)
class RotatingClock(FixedClock):
    """A clock that does something the first time it is asked."""

    act: Callable[[], object] | None = None

    def now(self) -> int:
        """Return the time it was set to."""
        act, self.act = self.act, None
        if act is not None:
            act()
        return self.at


def test_a_rotation_in_the_middle_of_an_export(either_small: Stored, folder: Path) -> None:
    """The snapshot was read before it, the witness is stated after it, and commits under the key it names."""
    home = either_small.copied(folder)
    with home.opened() as house, home.opened() as beside:
        erase(house.engine, house.admin, house.remember("a broken lamp of bob", "bob"))
        first_id = access.commitment_keys(house.engine, home.tenant).current
        house.engine.clock = RotatingClock(house.engine.clock.now(), act=lambda: rotate(beside))
        with closing(export(house.engine, house.admin, Wanted("bob"), form=Form.ZIP)) as package:
            path = folder / "bob.zip"
            path.write_bytes(b"".join(package.as_zip()))
        assert len(stated(home)) == 1
        assert package.receipt.body["commit_key_id"] == stated(home)[0]["new_key_id"]
        named, first = key_of(house), key_of(house, first_id)
        assert list(disagreements(path, named, first=first)) == []
        wrong = set(disagreements(path, first, first=first))
        assert wrong == {f"{name}_set_commitment" for name in ("record", "artifact", "disclosure", "closed")}
        agrees(house, home)


# A database from before a rotation, with the custody of after it.


def _from_before(stored: Stored, home: Home, folder: Path) -> Callable[[], Home]:
    """Back the database up; return what puts it back, under the custody of that time."""
    if stored.server is None:
        backup = back_up(home, folder / "backup.db")

        def put() -> Home:
            put_back(home, backup)
            return home

        return put
    server, url = stored.server, str(home.settings.database_url)
    name = url.partition("?")[0].rpartition("/")[2] + "_old"
    backup_url = server.copied(url, name)
    old = replace(home, settings=home.settings.model_copy(update={"database_url": backup_url}))
    return lambda: old


def test_a_backup_from_before_two_rotations(either_small: Stored, folder: Path) -> None:
    """It comes up at the newest key; old closures recompute, tombstones get the ids they had."""
    home = either_small.copied(folder)
    with home.opened() as house:
        forget(house.engine, house.admin, "alice")
    put = _from_before(either_small, home, folder)
    with home.opened() as house:
        erase(house.engine, house.admin, _lamp(house))
        rotations = [rotate(house), rotate(house)]
        forget(house.engine, house.admin, "bob")
        agrees(house, home)
    before = oracle.read(home.settings)
    restored = put()
    with restored.opened() as house:
        agrees(house, restored)
        keys = access.commitment_keys(house.engine, home.tenant)
        assert keys.current == rotations[-1].new_id
        assert keys.every == [rotations[0].old_id, *(one.new_id for one in rotations)]
        again = forget(house.engine, house.admin, "bob").closure
        assert again is not None
        agrees(house, restored)
    now = oracle.read(restored.settings)
    ids = {stone["memory_id"]: stone["tombstone_id"] for stone in before.tombstones}
    assert {stone["memory_id"]: stone["tombstone_id"] for stone in now.tombstones} == ids
    last = [row["statement"] for row in before.receipts if row["schema"] == "shomei.subject_closure.v1"][-1]
    for name in ("subject_pseudonym", "closed_set_size", "closed_set_commitment", "commit_key_id"):
        assert again.body[name] == last[name], name
    with restored.opened() as house:
        assert oracle.read(restored.settings).receipts == now.receipts, "once is enough"
        rotate(house)
        agrees(house, restored)


def _lamp(house: House) -> str:
    found = search(house.engine, house.data, "lamp", user_id="bob").results
    return found[0].memory.memory_id


def test_what_a_restore_states_names_the_newest_key(either_governed: Stored, folder: Path) -> None:
    """Closures that are owed after a restore come after the keys that follow: none names a retired one."""
    home = either_governed.copied(folder)
    put = _from_before(either_governed, home, folder)
    with home.opened() as house:
        rotated = rotate(house)
        forget(house.engine, house.admin, "alice")
        was = closures(home)[-1]
    restored = put()
    with restored.opened() as house:
        agrees(house, restored)
    rows = [row["statement"] for row in oracle.read(restored.settings).receipts]
    new = [row for row in rows if row["log"]["origin"] != was["log"]["origin"]]
    schemas = [row["schema"].split(".")[1] for row in new[:3]]
    assert schemas == ["log_restart", "key_rotation", "reerase"]
    assert {row["commit_key_id"] for row in new[2:]} == {rotated.new_id}


def test_a_restore_that_dies_on_the_way(server: Server, either_small: Stored, folder: Path) -> None:
    home = either_small.copied(folder)
    put = _from_before(either_small, home, folder)
    with home.opened() as house:
        rotate(house)
        newest = rotate(house).new_id
        forget(house.engine, house.admin, "alice")
    restored = put()
    for point in ("rot.mid:kill:1", "rot.mid:kill:2", "boot.reerase:kill:1", "boot.journal:kill:2"):
        assert server.run(restored, [], point).code == KILLED, point
        lapse(restored)
    with restored.opened() as house:
        agrees(house, restored)
        assert access.commitment_keys(house.engine, home.tenant).current == newest
    assert len(stated(restored)) == 2


# Custody is away.


def test_custody_that_can_not_keep_the_line(folder: Path) -> None:
    """A mirror is away: refused in one line, nothing half done; when it is back the next one is done."""
    mirror = folder / "mirror"
    mirror.mkdir(mode=0o700)
    home = new_home(folder, custody_mirrors=str(mirror))
    with home.opened() as house:
        house.remember("a kettle", "alice")
        forget(house.engine, house.admin, "alice")
        before, keys = oracle.read(home.settings), access.commitment_keys(house.engine, home.tenant)
        mirror.rename(folder / "away")
        with pytest.raises(CustodyUnavailable):
            rotate(house)
        assert oracle.read(home.settings).receipts == before.receipts
        assert access.commitment_keys(house.engine, home.tenant) == keys
        (folder / "away").rename(mirror)
        rotated = rotate(house)
        forget(house.engine, house.admin, "alice")
        agrees(house, home)
    with home.opened() as house:
        agrees(house, home)
        assert access.commitment_keys(house.engine, home.tenant).every == [keys.current, rotated.new_id]


def test_a_provider_that_is_away(small: Stored, folder: Path) -> None:
    """No opening without it, and so no command; who is open already needs it for no rotation."""
    home = small.copied(folder)
    epoch_keys, aside = home.settings.keys / "custody", home.settings.home / "aside"
    with home.opened() as house:
        epoch_keys.rename(aside)
        with pytest.raises(StartRefused), home.opened():
            pass
        rotated = rotate(house)
        assert recompute(house.engine, house.admin).disagreeing == []
        aside.rename(epoch_keys)
        forget(house.engine, house.admin, "alice")
    with home.opened() as house:
        agrees(house, home)
    assert closures(home)[-1]["commit_key_id"] == rotated.new_id
