"""Recall: which model made the vectors, what still lacks one, and which tombstone a receipt belongs to."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add what recall asks for often."""
    with op.batch_alter_table("installation", schema=None) as batch_op:
        batch_op.add_column(sa.Column("embedder_id", sa.String(length=255), nullable=True))
    with op.batch_alter_table("memories", schema=None) as batch_op:
        batch_op.create_index(
            "ix_memories_not_embedded",
            ["address"],
            unique=False,
            sqlite_where=sa.text("NOT embedded"),
            postgresql_where=sa.text("NOT embedded"),
        )
    with op.batch_alter_table("tombstones", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_tombstones_tenant_id_receipt_hash"), ["tenant_id", "receipt_hash"], unique=False
        )
