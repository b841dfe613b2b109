"""Records of the custody store that were edited, dropped, added, swapped or put back. RELIABILITY T-27."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shomei_service.engine import failpoints
from shomei_service.engine.custody import Custody, CustodyMismatch, Seen
from shomei_service.engine.custody.faults import RecordAltered
from shomei_service.engine.custody.ledger import KEPT
from shomei_service.engine.custody.tables import signers
from shomei_service.engine.errors import CustodyUnavailable, IntegrityFault
from tests.engine.custody.home import Home, leaves, punctures

ROWS = range(256, 330)
Connection = sqlite3.Connection
Crashed = tuple[Home, dict[int, bytes | None]]


@pytest.fixture
def crashed(home: Home, custody: Custody) -> Crashed:
    """A store with at least two records of each kind, and a key that is still to be destroyed."""
    custody.lease_tenant()
    for row in (300, 301):
        custody.puncture(punctures([row]), now=row)
        custody.journal_append(tenant="t_1", kind="restricted", ids=[f"lm_{row}"], at=row)
        custody.set_log_mark(f"t_{row}", "origin-a", row)
    beside = home.open()
    beside.puncture(punctures([303]), now=4)  # and its next key is named already
    found = leaves(beside, ROWS)
    beside.close()
    failpoints.arm("e4.before:raise")
    with pytest.raises(CustodyUnavailable):
        custody.puncture(punctures([302]), now=3)
    failpoints.disarm()
    custody.close()
    return home, {**found, 302: None}


def whole(home: Home, before: dict[int, bytes | None], **changes: object) -> None:
    custody = home.open(**changes)
    assert leaves(custody, before) == before
    custody.close()


def written(home: Home, *statements: str) -> None:
    with closing(sqlite3.connect(home.custody_dir / "custody.db", isolation_level=None)) as raw:
        for statement in statements:
            raw.execute(statement)


def refused(home: Home) -> str:
    before = home.bytes()
    with pytest.raises(CustodyMismatch) as refusal:
        home.open()
    assert home.bytes() == before
    return refusal.value.message


def other(value: object) -> object:
    """Return another value of the same kind."""
    if value is None:
        return 1
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 0x80])
    return value + 1000 if isinstance(value, int) else f"{value}x"


def edits(raw: Connection, table: str) -> Iterator[str]:
    """Yield statements, each of which edits one value, drops a record, or adds one."""
    cursor = raw.execute(f"SELECT rowid, * FROM {table}")
    names = [column[0] for column in cursor.description][1:]
    for rowid, *values in cursor.fetchall():
        yield f"DELETE FROM {table} WHERE rowid = {rowid}"
        for name, value in zip(names, values, strict=True):
            yield f"UPDATE {table} SET {name} = {spelled(other(value))} WHERE rowid = {rowid}"
        added = [spelled(other(value) if i == 0 else value) for i, value in enumerate(values)]
        yield f"INSERT INTO {table} VALUES ({', '.join(added)})"


def spelled(value: object) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "NULL" if value is None else repr(value)


def test_no_record_can_be_edited_dropped_or_added(crashed: Crashed) -> None:
    home, before = crashed
    where = home.custody_dir / "custody.db"
    with closing(sqlite3.connect(where)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        tried = {table.name: list(edits(raw, table.name)) for table in KEPT if table is not signers}
    assert all(len(statements) > 2 for statements in tried.values())
    intact = where.read_bytes()
    for statement in (one for statements in tried.values() for one in statements):
        written(home, statement)
        assert refused(home), statement
        for path in home.custody_dir.glob("custody.db*"):
            path.unlink()
        where.write_bytes(intact)
        where.chmod(0o600)
    whole(home, before)


def test_lines_can_not_change_places(crashed: Crashed) -> None:
    home, _ = crashed
    written(
        home,
        "UPDATE custody_journal SET seq = -1 WHERE seq = 1",
        "UPDATE custody_journal SET seq = 1 WHERE seq = 2",
        "UPDATE custody_journal SET seq = 2 WHERE seq = -1",
    )
    assert "altered, removed or added" in refused(home)


def test_a_ledger_from_an_earlier_epoch_fits_no_later_head(crashed: Crashed, tmp_path: Path) -> None:
    """Whoever puts records back together with the sum that fitted them is noticed, whatever was forgotten."""
    home, _ = crashed
    earlier = home.copy(tmp_path / "earlier")
    custody = home.open()
    custody.journal_append(tenant="t_1", kind="hold_placed", ids=["lm_9"], at=9)
    custody.rotate(now=9)
    custody.close()
    written(
        home,
        f"ATTACH '{earlier.custody_dir / 'custody.db'}' AS then_",
        *(f"DELETE FROM {table.name}" for table in KEPT),
        *(f"INSERT INTO {table.name} SELECT * FROM then_.{table.name}" for table in KEPT),
        "UPDATE custody_head SET ledger = (SELECT ledger FROM then_.custody_head)",
    )
    assert "altered, removed or added" in refused(home)


def test_within_an_epoch_the_database_is_what_notices(home: Home, custody: Custody, tmp_path: Path) -> None:
    """The limit we print: a store put back to a moment of its present epoch is whole in itself."""
    custody.journal_append(tenant="t_1", kind="hold_placed", ids=["lm_1"], at=1)
    earlier = home.copy(tmp_path / "earlier")
    custody.journal_append(tenant="t_1", kind="hold_placed", ids=["lm_2"], at=2)
    custody.close()
    with pytest.raises(CustodyMismatch, match="older than the database"):
        earlier.open(seen=Seen(journal_seq=2))
    earlier.open().close()


def test_what_is_altered_under_a_running_process_stays_altered(home: Home, custody: Custody) -> None:
    """Later writes add to the sum; none of them makes a forged line true."""
    custody.journal_append(tenant="t_1", kind="hold_placed", ids=["lm_1"], at=1)
    written(home, "UPDATE custody_journal SET kind = 'hold_released'")
    custody.journal_append(tenant="t_1", kind="restricted", at=2)
    custody.puncture(punctures([300]), now=3)
    custody.close()
    assert "altered, removed or added" in refused(home)


def test_a_ledger_that_is_none_refuses(home: Home, custody: Custody) -> None:
    written(home, "UPDATE custody_head SET ledger = x'00'")
    with pytest.raises(RecordAltered):
        custody.lease_tenant()
    custody.close()
    assert "altered, removed or added" in refused(home)


def test_any_damage_to_the_file_is_refused_or_does_no_harm(crashed: Crashed, tmp_path: Path) -> None:
    """Bytes overwritten anywhere: a clear refusal, or one row's integrity error, or nothing lost."""
    home, before = crashed
    home.open().close()
    where = home.custody_dir / "custody.db"
    intact, places = where.read_bytes(), random.Random(4)
    outcomes: set[str] = set()
    for start in range(0, len(intact), 1024):
        at = start + places.randrange(1000)
        where.write_bytes(intact[:at] + places.randbytes(16) + intact[at + 16 :])
        outcomes.add(outcome(home, before))
        for log in home.custody_dir.glob("custody.db-*"):
            log.unlink()
    where.write_bytes(intact[: len(intact) // 2])
    assert outcome(home, before) == "refused"
    assert {"refused", "whole"} <= outcomes <= {"refused", "whole", "damaged"}


def outcome(home: Home, before: dict[int, bytes | None]) -> str:
    try:
        custody = home.open()
    except (CustodyMismatch, CustodyUnavailable):
        return "refused"
    try:
        assert leaves(custody, before) == before
    except IntegrityFault:
        return "damaged"
    finally:
        custody.close()
    return "whole"
