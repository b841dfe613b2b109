"""Rows on their way out in the order of their leaves; rows that stay are no longer in that index."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_INTENDED = sa.text("intent_id IS NOT NULL")


def upgrade() -> None:
    """Exchange the index."""
    op.drop_index("ix_memories_tenant_id_intent_id", "memories")
    op.create_index(
        "ix_memories_intended",
        "memories",
        ["tenant_id", "intent_id", "address"],
        sqlite_where=_INTENDED,
        postgresql_where=_INTENDED,
    )
