"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "installation",
        sa.Column("installation_id", sa.String(length=64), nullable=False),
        sa.Column("custody_epoch", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("installation_id"),
    )
    op.create_table(
        "tenants",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(length=64), nullable=False),
        sa.Column("commit_key_id", sa.String(length=64), nullable=False),
        sa.Column("log_origin", sa.String(length=64), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("last_applied_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id"),
        sa.UniqueConstraint("number"),
    )
    op.create_table(
        "api_keys",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("secret_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_api_keys_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "key_id"),
        sa.UniqueConstraint("key_id"),
    )
    op.create_table(
        "intents",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("intent_id", sa.String(length=40), nullable=False),
        sa.Column("cause", sa.String(length=40), nullable=False),
        sa.Column("basis", sa.String(length=40), nullable=False),
        sa.Column("actor", sa.String(length=24), nullable=False),
        sa.Column("subject", sa.String(length=80), nullable=True),
        sa.Column("matched_count", sa.Integer(), nullable=False),
        sa.Column("erased_count", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_intents_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "intent_id"),
    )
    op.create_table(
        "memories",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=False),
        sa.Column("address", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("life", sa.String(length=16), nullable=False),
        sa.Column("subject", sa.String(length=80), nullable=True),
        sa.Column("semantic_ref", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("sealed_dek", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_content", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_recall", sa.LargeBinary(), nullable=False),
        sa.Column("embedded", sa.Boolean(), nullable=False),
        sa.Column("intent_id", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_memories_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id"),
        sa.UniqueConstraint("address"),
    )
    op.create_index(
        op.f("ix_memories_tenant_id_intent_id"), "memories", ["tenant_id", "intent_id"], unique=False
    )
    op.create_index(
        op.f("ix_memories_tenant_id_revision"), "memories", ["tenant_id", "revision"], unique=False
    )
    op.create_index(op.f("ix_memories_tenant_id_subject"), "memories", ["tenant_id", "subject"], unique=False)
    op.create_table(
        "receipts",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("origin", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("schema", sa.String(length=64), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=True),
        sa.Column("receipt_hash", sa.String(length=80), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("signer_id", sa.String(length=40), nullable=True),
        sa.Column("public_key_hex", sa.String(length=64), nullable=True),
        sa.Column("signature_hex", sa.String(length=128), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_receipts_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "origin", "seq"),
    )
    op.create_index(
        op.f("ix_receipts_tenant_id_memory_id"), "receipts", ["tenant_id", "memory_id"], unique=False
    )
    op.create_table(
        "tombstones",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("tombstone_id", sa.String(length=40), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=80), nullable=True),
        sa.Column("erased_at", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.String(length=40), nullable=False),
        sa.Column("receipt_hash", sa.String(length=80), nullable=False),
        sa.Column("physically_purged", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_tombstones_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "tombstone_id"),
    )
    op.create_index(
        op.f("ix_tombstones_tenant_id_memory_id"), "tombstones", ["tenant_id", "memory_id"], unique=True
    )
    op.create_index(
        op.f("ix_tombstones_tenant_id_subject"), "tombstones", ["tenant_id", "subject"], unique=False
    )
