"""Several processes on one PostgreSQL database: leases, walls, pools, and the parent of them all.

RELIABILITY T-20, T-32; DEV-36; docs/distributed-sql.md.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import psycopg
import pytest

from shomei_service.api.upkeep import EVERY_SECONDS
from shomei_service.engine import failpoints
from shomei_service.engine.errors import IdempotencyInFlight, NotFound, Unauthenticated
from shomei_service.engine.failpoints import InjectedError
from shomei_service.engine.model import (
    Authority,
    ConsentAction,
    LawfulBasis,
    NewMemory,
    Policies,
    Release,
    Retry,
    Scope,
)
from shomei_service.engine.prepared import Prepared
from shomei_service.engine.store import leases, tables
from shomei_service.engine.upkeep import upkeep
from shomei_service.engine.verbs import access, consent, hold
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.restrict import lift, restrict
from shomei_service.engine.verbs.search import search
from shomei_service.engine.verbs.update import update
from tests import oracle
from tests.crash.runs import ROOT, Stored, lapse
from tests.engine.custody.postgres import Server as PostgreSQL
from tests.fakes import Home, House, new_home
from tests.laws.workers import children, is_ready, kill, on_server, quiet, wait_until, working
from tests.service import environment

_DATABASES = iter(range(1_000_000))


@pytest.fixture
def home(postgres: PostgreSQL, folder: Path) -> Home:
    """An installation of its own on the server."""
    return on_server(folder, postgres, f"workers_{next(_DATABASES)}")


@pytest.fixture
def two(home: Home) -> Iterator[tuple[House, House]]:
    """The same installation, open twice."""
    with home.opened() as one, home.opened() as other:
        yield one, other


def found(house: House, query: str = "kettle") -> set[str]:
    return {one.memory.memory_id for one in search(house.engine, house.data, query, limit=100).results}


# What one process is told is so in all of them.


def test_what_one_worker_is_told_is_so_in_the_other_at_once(two: tuple[House, House]) -> None:
    one, other = two
    ids = [one.remember(f"a kettle {number}", "alice") for number in range(4)]
    assert found(other) == set(ids)
    restrict(one.engine, one.admin, ids[0])
    assert found(other) == set(ids[1:])
    erase(one.engine, one.admin, ids[1])
    assert found(other) == set(ids[2:])
    lift(other.engine, other.admin, ids[0])
    assert found(one) == {ids[0], *ids[2:]}
    forget(other.engine, other.admin, "alice")
    assert found(one) == found(other) == set()


def test_a_withdrawn_consent_and_a_revoked_key_count_in_the_other_worker_at_once(
    two: tuple[House, House],
) -> None:
    one, other = two
    access.set_policies(one.engine, one.admin.tenant, Policies(purposes=frozenset({"support"})))
    consent.record(one.engine, one.admin, consent.NewConsent("alice", "support", ConsentAction.GRANTED))
    facts = {"lawful_basis": LawfulBasis.CONSENT, "purposes": ("support",)}
    memory_id = add(one.engine, one.data, NewMemory("a kettle", "alice", **facts)).memory_id
    assert found(other) == {memory_id}
    consent.record(one.engine, one.admin, consent.NewConsent("alice", "support", ConsentAction.WITHDRAWN))
    assert found(other) == set()
    key = access.create_key(one.engine, one.admin.tenant, Scope.DATA)
    assert access.authenticate(other.engine, key.token).tenant == one.admin.tenant
    access.revoke_key(one.engine, one.admin.tenant, key.key_id)
    with pytest.raises(Unauthenticated):
        access.authenticate(other.engine, key.token)


# Whose an erasure is.


def test_an_erasure_is_left_to_whoever_has_it_until_its_lease_is_over(
    two: tuple[House, House], home: Home
) -> None:
    one, other = two
    memory_id = one.remember("a kettle", "alice")
    failpoints.arm("e1.after:raise")
    with pytest.raises(InjectedError):
        erase(one.engine, one.admin, memory_id)
    failpoints.disarm()
    upkeep(other.engine)
    assert [one["intent_id"] for one in oracle.read(home.settings).intents], "it is not the other's yet"
    lapse(home)
    upkeep(other.engine)
    assert oracle.settled(other, home.settings) == {}
    with pytest.raises(NotFound):
        erase(one.engine, one.admin, memory_id)


def test_whoever_asks_for_what_another_worker_has_begun_waits_for_it(two: tuple[House, House]) -> None:
    one, other = two
    memory_id = one.remember("a kettle", "alice")
    failpoints.arm("e1.after:delay,e6.before:delay")
    outcome: list[object] = []
    beginning = threading.Thread(target=lambda: outcome.append(erase(one.engine, one.admin, memory_id)))
    beginning.start()
    wait_until(lambda: failpoints.hits().get("e1.after", 0) > 0)
    with pytest.raises(NotFound):
        erase(other.engine, other.admin, memory_id)
    beginning.join()
    assert len(outcome) == 1


def test_a_lease_is_one_holders_and_ends_by_itself(home: Home) -> None:
    with home.opened() as house, house.engine.store.transaction() as connection:
        assert leases.take(connection, "sweeping", "one", now=0)
        assert leases.take(connection, "sweeping", "one", now=0), "whoever has it renews it"
        assert not leases.take(connection, "sweeping", "two", now=10**10), "the server's clock decides"
        assert "sweeping" in leases.of_others(connection, "two", now=0)
        for until in (0, 10**10):  # over, or from before the clock went back
            connection.exec_driver_sql(f"UPDATE leases SET until = {until} WHERE name = 'sweeping'")
            assert "sweeping" not in leases.of_others(connection, "two", now=0)
            assert leases.take(connection, "sweeping", "two", now=0)
            assert leases.take(connection, "sweeping", "two", now=0)


def test_another_takes_over_in_time() -> None:
    """RELIABILITY T-20: within 15 s of a death its lease is over, and the next round of upkeep has come."""
    assert leases.LEASE_S + EVERY_SECONDS < 15


def test_leases_that_nobody_ended_are_swept_away(home: Home) -> None:
    with home.opened() as house:
        with house.engine.store.transaction() as connection:
            assert leases.take(connection, "sweeping", "one", now=0)
            leases.drop_old(connection, now=0)
            assert "sweeping" in leases.of_others(connection, "two", now=0)
            connection.exec_driver_sql("UPDATE leases SET until = 0 WHERE name = 'sweeping'")
        house.engine.swept_at = 0
        upkeep(house.engine)
        with house.engine.store.snapshot() as connection:
            left = connection.exec_driver_sql("SELECT name FROM leases").scalars().all()
    assert "sweeping" not in left


def test_one_process_may_speak_to_a_server_and_then_to_a_file(
    home: Home, small: Stored, folder: Path
) -> None:
    """A statement's words are kept, and no other database's."""
    (folder / "file").mkdir()
    into = Prepared.into(tables.leases)
    for made in (home, small.copied(folder / "file")):
        with made.opened() as house, house.engine.store.transaction() as connection:
            into.add(connection, [("speaking", "one", 1)])
            into.add(connection, [("listening", "one", 1)])


# The wall between tenants.


def plain(home: Home, tenant: str | None = None) -> psycopg.Connection:
    """Connect as the service does, with no query of ours in between."""
    connection = psycopg.connect(str(home.settings.database_url).replace("+psycopg", ""), autocommit=True)
    if tenant is not None:
        connection.execute("SELECT set_config('shomei.tenant', %s, false)", [tenant])
    return connection


def test_a_query_that_forgets_its_tenant_sees_no_other(home: Home) -> None:
    """T-32: the filter in the query is taken away; what is left is the wall."""
    with home.opened() as house:
        house.remember("a kettle", "alice")
        stranger = house.stranger()
        add(house.engine, stranger, NewMemory("a lamp", "bob"))
    tenants = {house.admin.tenant, stranger.tenant}
    everything = "SELECT DISTINCT tenant_id FROM memories"
    with plain(home) as nobody:
        assert nobody.execute(everything).fetchall() == []
    for tenant in tenants:
        with plain(home, tenant) as connection:
            assert connection.execute(everything).fetchall() == [(tenant,)]
            other = (tenants - {tenant}).pop()
            assert connection.execute("DELETE FROM memories WHERE tenant_id = %s", [other]).rowcount == 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("UPDATE api_keys SET tenant_id = %s", [other])
    with plain(home, "*") as everyone:
        assert {row[0] for row in everyone.execute(everything)} == tenants


def test_the_service_enters_by_its_own_door(two: tuple[House, House]) -> None:
    """Every unit sees one tenant, whatever its queries say; what belongs to nobody sees everyone."""
    one, _ = two
    one.remember("a kettle", "alice")
    stranger = one.stranger()
    add(one.engine, stranger, NewMemory("a lamp", "bob"))
    everything = "SELECT DISTINCT tenant_id FROM memories"
    for tenant in (one.admin.tenant, stranger.tenant):
        with one.engine.reading(tenant) as reading:
            assert reading.connection.exec_driver_sql(everything).scalars().all() == [tenant]
        with one.engine.unit(tenant) as unit:
            assert unit.connection.exec_driver_sql(everything).scalars().all() == [tenant]
    with one.engine.store.snapshot() as connection:
        assert len(connection.exec_driver_sql(everything).scalars().all()) == 2


def test_every_table_of_tenants_has_the_wall(home: Home) -> None:
    """A migration that makes such a table must put it up: store.walls.build."""
    walled = (
        "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AND EXISTS "
        "(SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'one_tenant') "
        "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relkind = 'r' AND a.attname = 'tenant_id' AND c.relnamespace = 'public'::regnamespace"
    )
    with plain(home) as connection:
        found = dict(connection.execute(walled).fetchall())
    assert len(found) > 20
    assert [table for table, stands in found.items() if not stands] == []


def test_nothing_stands_on_what_distributed_engines_lack() -> None:
    """No advisory locks, no LISTEN: see docs/distributed-sql.md."""
    lacking = re.compile(r"advisory|\bLISTEN\b|\bNOTIFY\b|add_notify|\bUNLISTEN\b")
    code = (path for path in (ROOT / "packages" / "shomei_service").rglob("*.py"))
    said = {
        path.name: lines
        for path in code
        if (lines := [one for one in path.read_text().splitlines() if lacking.search(one)])
    }
    assert said.keys() <= {"leases.py"}, "which says that there are none"


# Connections are few.


def test_no_verb_needs_a_second_connection_while_it_has_one(postgres: PostgreSQL, folder: Path) -> None:
    """Else a full pool would be one whose holders wait for each other."""
    urls = {"database_url": postgres.database("lonely"), "custody_url": postgres.database("lonely_custody")}
    home = new_home(folder, database_pool=1, audit="strict", **urls)
    with home.opened() as house:
        engine, admin = house.engine, house.admin
        ids = [house.remember(f"a kettle {number}", "alice") for number in range(4)]
        placed = hold.place(engine, admin, hold.NewHold(Authority.LITIGATION, memory_id=ids[0]))
        restrict(engine, admin, ids[1])
        newer = update(engine, admin, ids[2], "a newer kettle").memory_id
        assert found(house) == {ids[0], newer, ids[3]}
        erase(engine, admin, ids[3])
        forget(engine, admin, "alice")
        hold.release(engine, admin, placed.hold.hold_id, Release.MATTER_CLOSED, confirm=True)
        upkeep(engine)
    with home.opened() as house:
        assert oracle.settled(house, home.settings) == {}


CALLERS = 60
CALLS = [
    ("/v1/memories", {"messages": "a kettle", "user_id": "alice"}),
    ("/v1/search", {"query": "kettle"}),
    ("/v1/forget", {"user_id": "bob"}),
]


def test_more_callers_than_connections_are_refused_and_it_passes(
    home: Home, folder: Path, postgres: PostgreSQL
) -> None:
    """DEV-36: nobody hangs on a database that is stuck; once it is not, calls pass without a restart."""
    with working(home, folder, 1, SHOMEI_DATABASE_POOL="2") as service:
        headers = {"authorization": f"Bearer {home.admin_token}"}

        def ask(number: int) -> httpx.Response:
            path, body = CALLS[number % len(CALLS)]
            url = service.url + path
            return httpx.post(url, json=body, headers=headers, trust_env=False, timeout=120)

        with plain(home) as stuck, stuck.transaction(), ThreadPoolExecutor(CALLERS) as pool:
            # One table, which all need: who waits for a second one may be in a deadlock with the service.
            stuck.execute("LOCK TABLE tenants IN ACCESS EXCLUSIVE MODE")
            answers = list(pool.map(ask, range(CALLERS)))
            wait_until(lambda: not is_ready(service))  # once a round of upkeep has failed too
        assert {answer.status_code for answer in answers} == {503}
        assert all(answer.headers["retry-after"].isdigit() for answer in answers)
        codes = {answer.json()["code"] for answer in answers}
        assert codes <= {"storage_unavailable", "rate_limited"}
        postgres.say("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'")
        wait_until(lambda: [ask(number).status_code for number in range(3)] == [200] * 3)
        wait_until(lambda: is_ready(service))
        quiet(home)


# The parent and its workers.


def test_the_parent_begins_and_ends_them(home: Home, folder: Path) -> None:
    with working(home, folder, 2) as service:
        first = children(service)
        kill(first[0])
        wait_until(lambda: len(children(service)) == 2 and first[0] not in children(service))
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(120) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in first)


def test_workers_do_not_outlive_their_parent(home: Home, folder: Path) -> None:
    with working(home, folder, 2) as service:
        alive = children(service)
        kill(service.process.pid)
        service.process.wait()
        wait_until(lambda: not any(is_running(pid) for pid in alive))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def serve(home: Home, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shomei_service.cli.main", "serve"]
    named = {**environment(home), **settings}
    if home.settings.database_url is not None:
        named |= {"SHOMEI_DATABASE_URL": home.settings.database_url}
    paths = os.environ.get("PYTHONPATH", "")
    named["PYTHONPATH"] = f"{ROOT / 'packages'}{os.pathsep}{paths}"
    return subprocess.run(command, env=named, capture_output=True, text=True, timeout=120)


def test_a_refusal_is_said_once(home: Home) -> None:
    """The database without its custody store: every worker would say the same."""
    refused = serve(home, SHOMEI_WORKERS="3", SHOMEI_PORT="0", SHOMEI_CUSTODY_DIR=str(home.settings.keys))
    assert refused.returncode == 1
    (line,) = [one for one in refused.stderr.splitlines() if "dev_local_file" not in one]
    assert line.startswith("shomei: the custody store is missing")


def test_sqlite_has_one_server(small: Stored, folder: Path) -> None:
    home = small.copied(folder)
    refused = serve(home, SHOMEI_WORKERS="2")
    assert (refused.returncode, "SQLite has one server process" in refused.stderr) == (1, True)


def test_a_repeat_finds_a_call_that_another_worker_is_at(two: tuple[House, House]) -> None:
    """T-17 across processes: the same key, while the first call is still being carried out."""
    one, other = two
    memory_id = one.remember("a kettle", "alice")
    retry = Retry("DELETE /v1/memories/{memory_id}", "a key", b"a body")
    failpoints.arm("e1.after:raise")
    with pytest.raises(InjectedError):
        erase(one.engine, replace(one.admin, retry=retry), memory_id)
    failpoints.disarm()
    with pytest.raises(IdempotencyInFlight):
        erase(other.engine, replace(other.admin, retry=retry), memory_id)
    proof = erase(one.engine, replace(one.admin, retry=retry), memory_id)
    assert erase(other.engine, replace(other.admin, retry=retry), memory_id) == proof
