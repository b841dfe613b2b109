"""Several server processes on one database: leases, and on PostgreSQL a wall between tenants."""

import sqlalchemy as sa
from alembic import op

from shomei_service.engine.store import walls

revision = "0004"
down_revision = "0003"

_WALLED = (
    *("tenants", "api_keys", "memories", "memory_subjects", "memory_purposes", "intents", "tombstones"),
    *("receipts", "grounds", "holds", "consents", "edges", "artifacts", "requests", "request_artifacts"),
    *("deferrals", "obligations", "replays", "replay_memories", "audit", "events"),
)


def upgrade() -> None:
    """Make the table of leases and put up the walls."""
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("holder", sa.String(length=40), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    walls.build(op.get_bind(), _WALLED)
