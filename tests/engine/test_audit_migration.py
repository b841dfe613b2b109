"""Events of before are chained anew in the documented form, and what is migrated is what is made new."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from shomei_service.engine.model import TenantId
from shomei_service.engine.store import audit, schema
from shomei_service.engine.store.unit import Store
from tests.fakes import House

_VERSIONS = Path(schema.__file__).with_name("migrations")


def at_revision(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(_VERSIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


@contextmanager
def old_database(folder: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{folder / 'old.db'}")
    try:
        with store.transaction() as connection:
            at_revision(connection, "0004")
        yield store
    finally:
        store.close()


def test_the_chain_of_before_is_made_anew(tmp_path: Path) -> None:
    tenants = ["a" * 32, "b" * 32]
    with old_database(tmp_path) as store:
        with store.transaction() as connection:
            for number, tenant in enumerate(tenants):
                connection.execute(
                    text(
                        "INSERT INTO tenants (tenant_id, number, label, commit_key_id, log_origin, next_seq, "
                        "revision, last_applied_at, created_at) "
                        "VALUES (:tenant, :number, 'x', 'ck', 'o', 0, 0, 0, 0)"
                    ),
                    {"tenant": tenant, "number": number},
                )
                for seq in range(3):
                    connection.execute(
                        text(
                            "INSERT INTO audit (tenant_id, seq, prev_hash, at, actor, is_admin, verb, "
                            "outcome, memory_ids, count) "
                            "VALUES (:tenant, :seq, 'old', 5, :actor, :admin, 'get', 'ok', :ids, 1)"
                        ),
                        {
                            "tenant": tenant,
                            "seq": seq,
                            "actor": "system" if seq == 2 else "key_" + 16 * "0",
                            "admin": seq > 0,
                            "ids": json.dumps(["lm_" + 32 * str(seq)]),
                        },
                    )
        store.migrate()
        for tenant in tenants:
            with store.reading(TenantId(tenant)) as unit:
                events = audit.page(unit, -1, 10)
            assert audit.is_chained(events)
            assert events[0].prev_hash == "sha256:" + 64 * "0"
            assert [one.told()["actor_kind"] for one in events] == ["data", "admin", "system"]
            assert (
                events[2].prev_hash
                == "sha256:"
                + hashlib.sha256(
                    json.dumps(
                        events[1].told(), sort_keys=True, separators=(",", ":"), ensure_ascii=False
                    ).encode()
                ).hexdigest()
            )


def test_the_migrations_make_what_the_tables_say(house: House) -> None:
    with house.engine.store.transaction() as connection:
        assert schema.drift(connection) == []
