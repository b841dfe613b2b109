"""Which commitment key each part of a log names; so far each tenant has had one."""

import sqlalchemy as sa
from alembic import op

from shomei_service.engine.store import walls

revision = "0007"
down_revision = "0006"

_FIRST = """
    INSERT INTO commitment_ranges (tenant_id, origin, first_seq, commit_key_id, leaf)
    SELECT logs.tenant_id, logs.origin, 0, tenants.commit_key_id, 0
    FROM (SELECT tenant_id, origin FROM receipts UNION SELECT tenant_id, log_origin FROM tenants) AS logs
    JOIN tenants ON tenants.tenant_id = logs.tenant_id
"""


def upgrade() -> None:
    """Make the table; every log so far is at its tenant's first key."""
    op.create_table(
        "commitment_ranges",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("origin", sa.String(length=64), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("commit_key_id", sa.String(length=64), nullable=False),
        sa.Column("leaf", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "origin", "first_seq"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name="fk_commitment_ranges_tenant_id"),
    )
    op.execute(_FIRST)
    walls.build(op.get_bind(), ("commitment_ranges",))
