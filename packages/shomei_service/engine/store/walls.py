"""The second wall between tenants: PostgreSQL itself shows a transaction the rows of one tenant only.

The first wall is the tenant in every query. Where one is forgotten, this one finds no row. RELIABILITY T-32.
"""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, text

_SETTING: Final = "shomei.tenant"
_EVERYONE: Final = "*"  # what belongs to no tenant: upkeep, recovery, whose key this is
_ENTER: Final = text(f"SELECT set_config('{_SETTING}', :tenant, true)")
_MINE: Final = f"current_setting('{_SETTING}', true) IN (tenant_id, '{_EVERYONE}')"
_STATEMENTS: Final = (
    "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",  # for the table's owner too
    f"CREATE POLICY one_tenant ON {{table}} USING ({_MINE}) WITH CHECK ({_MINE})",
)


def build(connection: Connection, tables: Iterable[str]) -> None:
    """Put the wall around tables that have a tenant_id; a migration that makes such a table calls this."""
    if connection.dialect.name != "postgresql":
        return
    for table in tables:
        for statement in _STATEMENTS:
            connection.exec_driver_sql(statement.format(table=table))


def enter(connection: Connection, tenant: str | None) -> None:
    """Let the transaction see this tenant alone, or everyone's rows where no tenant is named."""
    if connection.dialect.name == "postgresql":
        connection.execute(_ENTER, {"tenant": tenant or _EVERYONE})


def holds(connection: Connection) -> bool:
    """Say whether the wall stands for this connection: superusers and BYPASSRLS roles walk through it."""
    if connection.dialect.name != "postgresql":
        return True
    privileged = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    return not connection.exec_driver_sql(privileged).scalar_one()
