"""The proofs of CUSTODY.md §7, end to end and on both databases, each with its control. 7 has its own file.

The same proofs on each provider: tests/engine/custody/providers, and `shomei prove-erasure` in
test_prove_erasure.py. Every crash point of custody itself: tests/engine/custody/test_crash.py.
"""

import json
import logging
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, CustodyMismatch, Punctured
from shomei_service.engine.custody.providers.local_file import LocalFile
from shomei_service.engine.errors import CustodyUnavailable, ErasurePending, Held, NotFound, Unauthenticated
from shomei_service.engine.failpoints import CUSTODY_POINTS
from shomei_service.engine.model import Authority, ConsentAction, LawfulBasis, NewMemory, Policies, Scope
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import access, consent, hold, obligation, restrict
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.read import get
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.status import status
from shomei_service.proof.ordinary import Ordinary
from shomei_service.proof.residue import scan
from shomei_service.proof.spellings import Needle
from tests.crash.places import quick_folder
from tests.engine.custody.postgres import Server, programs, running
from tests.fakes import FixedClock, House
from tests.proofs.stage import Stage, elsewhere, opened
from tests.residue.markers import ASKED, KIND, METADATA, SUBJECT, TEXT, WORDS


@pytest.fixture(scope="module")
def lonely() -> Iterator[Server]:
    """A server with nothing on it but what one test puts there: all of it is looked through."""
    with running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, folder: Path) -> Stage:
    """An installation, on files and on a server."""
    named = "lonely" if "canary" in request.node.name else "cluster"
    cluster = request.getfixturevalue(named) if request.param == "postgres" else None
    return Stage.set_up(folder, cluster)


def canaries() -> list[Needle]:
    return [Needle.word(number, word[:12]) for number, word in enumerate(WORDS)]


# 1. Canaries: nothing of a memory lies anywhere in clear, while it lives or after it. T-12.


def test_proof_1_no_canary_in_any_file_of_any_place(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    log = logging.FileHandler(tmp_path / "log")
    logger = logging.getLogger()
    logger.addHandler(log)
    logger.setLevel(logging.DEBUG)
    logging.getLogger("sqlalchemy").setLevel(logging.DEBUG)
    places = [stage.home.settings.home, tmp_path]
    if stage.cluster is not None:
        places.append(stage.cluster.directory)
    try:
        with stage.home.opened() as house:
            new = NewMemory(TEXT, SUBJECT, KIND, json.loads(METADATA))
            ids = [add(house.engine, house.data, new).memory_id for _ in range(2)]
            found = search(house.engine, house.data, ASKED, user_id=SUBJECT).results
            assert {one.memory.memory_id for one in found} == set(ids)
            looked_through(stage, places)
            erase(house.engine, house.admin, ids[0])
            forget(house.engine, house.admin, SUBJECT)
            looked_through(stage, places)
            upkeep(house.engine)
            looked_through(stage, places)
    finally:
        logger.removeHandler(log)
        log.close()
        logger.setLevel(logging.WARNING)
        logging.getLogger("sqlalchemy").setLevel(logging.NOTSET)
    # SQLite is given its statements past SQLAlchemy, which then logs that a transaction begins, and no more.
    logged = "INSERT INTO memories" if stage.cluster is not None else "BEGIN (implicit)"
    assert logged in (tmp_path / "log").read_text(), "whatever is logged was"
    looked_through(stage, places)
    # The control: one line of ours beside the others.
    (tmp_path / "log").write_text((tmp_path / "log").read_text() + TEXT)
    assert {one.file.name for one in scan(places, canaries()).seen} == {"log"}


def looked_through(stage: Stage, places: list[Path]) -> None:
    if stage.cluster is not None:
        stage.cluster.say("CHECKPOINT")
    done = scan(places, canaries())
    gone = [
        file for file in done.unread if file.exists()
    ]  # a server removes files while it is looked through
    assert (done.seen, gone) == ([], [])
    assert done.files > 5


def test_proof_1_the_control_falls_to_the_same_scan(lonely: Server) -> None:
    """A store that keeps text in a table and deletes it: heap and log have it still."""
    lonely.database("ordinary")
    lonely.say("CREATE TABLE memories (text text)", "ordinary")
    lonely.say(f"INSERT INTO memories VALUES ('{WORDS[0]}')", "ordinary")
    for statement in ("DELETE FROM memories", "VACUUM memories", "CHECKPOINT"):
        lonely.say(statement, "ordinary")
    seen = scan([lonely.directory / "data"], canaries()).seen
    assert {one.file.parent.name for one in seen} >= {"pg_wal"}


# 2 and 3. A restored backup and everything custody holds: what lives opens, what was erased does not.


@dataclass(frozen=True, slots=True)
class Story:
    """A backup, and what was done after it was taken."""

    backup: str
    kept: set[str]
    gone: set[str]
    later: str


def told(stage: Stage, ordinary: Ordinary) -> Story:
    with stage.home.opened() as house:
        erase(house.engine, house.admin, house.remember("an earlier one"))  # the tree is not untouched
        kept = {house.remember(f"a lamp {number}", "bob") for number in range(3)}
        gone = {house.remember(f"a kettle {number}", "alice") for number in range(3)}
        other = add(house.engine, house.stranger(), NewMemory("a foreign lamp")).memory_id
    ordinary.put(stage.home.settings.database, dict.fromkeys(gone, b"a kettle"))
    backup = stage.back_up()
    with stage.home.opened() as house:
        later = house.remember("a later lamp", "bob")
        erase(house.engine, house.admin, min(gone))
        forget(house.engine, house.admin, "alice")
        upkeep(house.engine)
    ordinary.erase(stage.home.settings.database)
    return Story(backup, {*kept, other}, gone, later)


def test_proof_2_the_baseline_attack_opens_the_common_design_and_not_ours(stage: Stage) -> None:
    ordinary = Ordinary()
    story = told(stage, ordinary)
    assert set(ordinary.opened(story.backup)) == story.gone, "the control falls"
    assert ordinary.opened(stage.home.settings.database) == {}, "though it deleted what it was told to"
    assert opened([stage.loot()], stage.keys(), stage.rows(story.backup)) == story.kept


def test_proof_3_of_a_restored_backup_exactly_what_was_erased_does_not_open(stage: Stage) -> None:
    story = told(stage, Ordinary())
    sealed = stage.rows(story.backup)
    assert {row.memory_id for row in sealed} == story.kept | story.gone, "the backup has all of them"
    assert opened([stage.loot()], stage.keys(), sealed) == story.kept
    assert opened([stage.loot()], stage.keys(), stage.rows()) == {*story.kept, story.later}
    stage.put_back(story.backup)
    with stage.home.opened() as house:
        is_as_after_the_restore(house, story)
    assert {row.memory_id for row in stage.rows()} == story.kept


def is_as_after_the_restore(house: House, story: Story) -> None:
    found = search(house.engine, house.data, "lamp kettle", limit=50).results
    mine = {one.memory.memory_id for one in found}
    assert mine < story.kept
    assert len(mine) == 3
    for memory_id in story.gone:
        assert status(house.engine, house.data, memory_id).failures == ("erased",)
        with pytest.raises(NotFound):
            get(house.engine, house.data, memory_id)
    assert status(house.engine, house.data, story.later).valid is None, "it is simply absent"


def test_proof_3_of_a_base_backup_too(cluster: Server, folder: Path, elsewhere_folder: Path) -> None:
    """The whole server's files, copied while it ran, on a server of their own."""
    binaries = programs()
    assert binaries is not None
    stage = Stage.set_up(folder, cluster)
    with stage.home.opened() as house:
        kept = {house.remember(f"a lamp {number}") for number in range(3)}
        gone = {house.remember(f"a kettle {number}", "alice") for number in range(3)}
        another = Server(binaries, elsewhere_folder)
        base_backup(cluster, another, binaries)
        later = house.remember("a later lamp")
        forget(house.engine, house.admin, "alice")
    another.start()
    try:
        name = stage.home.settings.database.partition("?")[0].rpartition("/")[2]
        restored = another.url(name)
        assert opened([stage.loot()], stage.keys(), stage.rows(restored)) == kept
        with elsewhere(stage.home, restored).opened() as house:
            is_as_after_the_restore(house, Story(restored, {*kept, "lm_"}, gone, later))
    finally:
        another.stop()


@pytest.fixture
def elsewhere_folder() -> Iterator[Path]:
    """A folder that another server may have for itself."""
    with quick_folder() as folder:
        yield folder


def base_backup(source: Server, to: Server, binaries: Path) -> None:
    command = [
        binaries / "pg_basebackup",
        "-h",
        source.directory,
        "-U",
        "shomei",
        "-X",
        "stream",
        "-c",
        "fast",
    ]
    subprocess.run([*command, "-D", to.directory / "data"], check=True, capture_output=True)
    shutil.chown(to.directory / "data", "postgres")
    for path in (to.directory / "data").rglob("*"):
        shutil.chown(path, "postgres")


# 4. Every custody store there ever was, the crash points included, without the keys of then.


def test_proof_4_no_copy_of_custody_at_any_crash_point_opens_what_was_erased(stage: Stage) -> None:
    loots, keys_then = [stage.loot()], stage.keys()
    with stage.home.opened() as house:
        kept = house.remember("a lamp")
        ids = [house.remember(f"a kettle {number}") for number in range(len(CUSTODY_POINTS))]
    backup = stage.back_up()
    loots.append(stage.loot())
    keys_then += stage.keys()
    for memory_id, point in zip(ids, sorted(CUSTODY_POINTS), strict=True):
        with stage.home.opened() as house:
            failpoints.arm(f"{point}:raise")
            with pytest.raises(ErasurePending):
                erase(house.engine, house.admin, memory_id)
            failpoints.disarm()
            loots.append(stage.loot())
            upkeep(house.engine)
            assert status(house.engine, house.data, memory_id).failures == ("erased",)
            loots.append(stage.loot())
    sealed = stage.rows(backup)
    assert opened(loots, stage.keys(), sealed) == {kept}
    assert opened(loots, keys_then, sealed) == {kept, *ids}, "the control: the keys of then open all of it"


# 5. What was left behind is stopped.


def test_proof_5_custody_rolled_back_fails_closed(stage: Stage) -> None:
    with stage.home.opened() as house:
        kept, gone = house.remember("a lamp"), house.remember("a kettle")
    copy = stage.copied_custody()
    with stage.home.opened() as house:
        erase(house.engine, house.admin, gone)
    newest, keys = stage.copied_custody(), stage.keys()
    stage.put_back_custody(copy)
    with pytest.raises(CustodyMismatch, match="put the newest"), stage.home.opened():
        pass
    assert stage.keys() == keys, "no key was destroyed"
    stage.put_back_custody(newest)
    with stage.home.opened() as house:
        assert get(house.engine, house.data, kept).content.text == "a lamp"


def test_proof_5_a_stale_writer_is_fenced_and_a_stale_reader_reads_again(stage: Stage) -> None:
    with stage.home.opened() as house:
        ids = [house.remember(f"a kettle {number}") for number in range(2)]
        leaf = {row.memory_id: row.address for row in stage.rows()}
        other = Custody.open(
            stage.home.settings.custody_database,
            LocalFile(stage.home.settings.keys / "custody"),
            installation_id=house.engine.custody.installation_id,
            now=house.engine.clock.now(),
        )
        try:
            assert other.epoch == house.engine.custody.epoch
            erase(house.engine, house.admin, ids[0])  # behind the other one's back
            assert other.derive(leaf[ids[0]]), "the control: it would go on giving out the key"  # type: ignore[arg-type]
            other.refresh()  # as every worker does each second, and before each erasure
            with pytest.raises(Punctured):
                other.derive(leaf[ids[0]])  # type: ignore[arg-type]
            before = house.engine.custody.epoch
            assert other.rotate(now=house.engine.clock.now()).epoch_after == before + 1
            # This engine writes now from behind; what the other did is not undone.
            erase(house.engine, house.admin, ids[1])
            assert house.engine.custody.epoch == before + 2
        finally:
            other.close()
    copy = stage.copied_custody()
    with stage.home.opened() as house:
        later = house.remember("a later kettle")
        erase(house.engine, house.admin, house.remember("another one"))
    with stage.home.opened() as house:
        house.engine.custody.close()  # so that the store can be exchanged underneath
        stage.put_back_custody(copy)
        with pytest.raises((CustodyUnavailable, CustodyMismatch, ErasurePending)):
            erase(house.engine, house.admin, later)


# 6. The bound that receipts state.


def test_proof_6_a_copy_of_the_key_from_before_does_bring_it_back(stage: Stage) -> None:
    """So receipts say how long such copies may live: never shorter than what was declared."""
    with stage.home.opened() as house:
        gone, kept = house.remember("a kettle"), house.remember("a lamp")
    backup, then, snapshot = stage.back_up(), stage.loot(), stage.keys()
    with stage.home.opened() as house:
        body = erase(house.engine, house.admin, gone).receipt.body
    assert opened([then, stage.loot()], stage.keys(), stage.rows(backup)) == {kept}
    assert opened([then], snapshot, stage.rows(backup)) == {kept, gone}
    assert (body["finality"], body["key_final_at"], body["resurrection_bound_at"]) == (
        "unassured",
        None,
        None,
    )


# 8. What governed before a restore governs after it, before the first answer.


def test_proof_8_everything_governs_again_before_the_first_answer(stage: Stage) -> None:
    with stage.home.opened() as house:
        engine, admin = house.engine, house.admin
        access.set_policies(engine, admin.tenant, Policies(purposes=frozenset({"support"})))
        held, going = house.remember("a held kettle", "alice"), house.remember("a kettle", "alice")
        restricted = house.remember("a restricted kettle", "bob")
        consent.record(engine, admin, consent.NewConsent("carol", "support", ConsentAction.GRANTED))
        agreed = NewMemory(
            "a kettle agreed to", "carol", lawful_basis=LawfulBasis.CONSENT, purposes=("support",)
        )
        withdrawn = add(engine, house.data, agreed).memory_id
        key = access.create_key(engine, admin.tenant, Scope.ADMIN)
    backup = stage.back_up()
    with stage.home.opened() as house:
        assert visible(house) == {held, going, restricted, withdrawn}, (
            "the control: then nothing governed them"
        )
        engine, admin = house.engine, house.admin
        hold.place(engine, admin, hold.NewHold(Authority.LITIGATION, memory_id=held))
        forget(engine, admin, "alice")
        restrict.restrict(engine, admin, restricted)
        consent.record(engine, admin, consent.NewConsent("carol", "support", ConsentAction.WITHDRAWN))
        access.revoke_key(engine, admin.tenant, key.key_id)
    stage.put_back(backup)
    with stage.home.opened() as house:
        assert visible(house) == set()
        with pytest.raises(Unauthenticated):
            access.authenticate(house.engine, key.token)
        with pytest.raises(Held):
            erase(house.engine, house.admin, held)
        for memory_id, why in ((restricted, ("restricted",)), (withdrawn, ("consent_invalid",))):
            assert status(house.engine, house.admin, memory_id).failures == why
        assert status(house.engine, house.admin, going).failures == ("erased",)
        owed = obligation.page(house.engine, house.admin).obligations
        assert held in {one.memory_id for one in owed}


def visible(house: House) -> set[str]:
    house.engine.clock = FixedClock(house.engine.clock.now())
    return {one.memory.memory_id for one in search(house.engine, house.data, "kettle", limit=50).results}
