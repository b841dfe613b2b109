"""Which key signs which part of a log, and how far rotations of custody have been stated."""

import sqlalchemy as sa
from alembic import op

from shomei_service.engine.store import walls

revision = "0006"
down_revision = "0005"

_FIRST = """
    INSERT INTO signing_ranges (tenant_id, origin, first_seq, signer_id, public_key_hex)
    SELECT tenant_id, origin, min(seq), signer_id, public_key_hex FROM receipts
    WHERE signer_id IS NOT NULL GROUP BY tenant_id, origin, signer_id, public_key_hex
"""


def upgrade() -> None:
    """Make the two tables; what is signed so far was signed by one key a log."""
    op.create_table(
        "signing_ranges",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("origin", sa.String(length=64), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("signer_id", sa.String(length=40), nullable=False),
        sa.Column("public_key_hex", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "origin", "first_seq"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name="fk_signing_ranges_tenant_id"),
    )
    op.create_table(
        "stated_rotations",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name="fk_stated_rotations_tenant_id"),
    )
    op.execute(_FIRST)
    walls.build(op.get_bind(), ("signing_ranges", "stated_rotations"))
