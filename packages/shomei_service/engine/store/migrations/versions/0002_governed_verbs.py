"""Governed verbs: restriction, holds, consent, lineage, obligations, requests, retries, events."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add what the governed verbs keep."""
    op.create_table(
        "artifacts",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("artifact_id", sa.String(length=48), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("location_code", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("erasure_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_artifacts_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "artifact_id"),
    )
    op.create_table(
        "consents",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.String(length=80), nullable=False),
        sa.Column("purpose", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("evidence_ref_hmac", sa.String(length=80), nullable=True),
        sa.Column("policy_version", sa.String(length=64), nullable=True),
        sa.Column("channel_code", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_consents_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "number"),
    )
    with op.batch_alter_table("consents", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_consents_tenant_id_subject_purpose_number"),
            ["tenant_id", "subject", "purpose", "number"],
            unique=False,
        )

    op.create_table(
        "deferrals",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("request_id", sa.String(length=40), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=False),
        sa.Column("is_derived", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_deferrals_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "request_id", "memory_id"),
    )
    with op.batch_alter_table("deferrals", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_deferrals_tenant_id_memory_id"), ["tenant_id", "memory_id"], unique=False
        )

    op.create_table(
        "edges",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("derived_id", sa.String(length=48), nullable=False),
        sa.Column("source_id", sa.String(length=48), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_edges_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "kind", "derived_id", "source_id"),
    )
    with op.batch_alter_table("edges", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_edges_tenant_id_derived_id"), ["tenant_id", "derived_id"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_edges_tenant_id_source_id"), ["tenant_id", "source_id"], unique=False
        )

    op.create_table(
        "audit",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("prev_hash", sa.String(length=80), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=24), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("verb", sa.String(length=40), nullable=False),
        sa.Column("outcome", sa.String(length=40), nullable=False),
        sa.Column("memory_ids", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_audit_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "seq"),
    )
    op.create_table(
        "events",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("ids", sa.Text(), nullable=False),
        sa.Column("pseudonym", sa.String(length=80), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_events_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "number"),
    )
    op.create_table(
        "grounds",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_grounds_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "code"),
    )
    op.create_table(
        "holds",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("hold_id", sa.String(length=40), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=True),
        sa.Column("subject", sa.String(length=80), nullable=True),
        sa.Column("authority_code", sa.String(length=64), nullable=False),
        sa.Column("matter_ref_hmac", sa.String(length=80), nullable=True),
        sa.Column("matter_address", sa.BigInteger(), nullable=True),
        sa.Column("sealed_matter_dek", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_matter", sa.LargeBinary(), nullable=True),
        sa.Column("placed_by", sa.String(length=24), nullable=False),
        sa.Column("placed_at", sa.BigInteger(), nullable=False),
        sa.Column("review_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("released_by", sa.String(length=24), nullable=True),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.Column("release_code", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_holds_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "hold_id"),
    )
    with op.batch_alter_table("holds", schema=None) as batch_op:
        batch_op.create_index(
            "ix_holds_open_memory",
            ["tenant_id", "memory_id"],
            unique=False,
            sqlite_where=sa.text("released_at IS NULL"),
            postgresql_where=sa.text("released_at IS NULL"),
        )
        batch_op.create_index(
            "ix_holds_open_subject",
            ["tenant_id", "subject"],
            unique=False,
            sqlite_where=sa.text("released_at IS NULL"),
            postgresql_where=sa.text("released_at IS NULL"),
        )

    op.create_table(
        "memory_purposes",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=False),
        sa.Column("purpose", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_memory_purposes_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "purpose"),
    )
    op.create_table(
        "memory_subjects",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=80), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_memory_subjects_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "subject"),
    )
    with op.batch_alter_table("memory_subjects", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_memory_subjects_tenant_id_subject"), ["tenant_id", "subject"], unique=False
        )

    op.create_table(
        "obligations",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("obligation_id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=True),
        sa.Column("subject", sa.String(length=80), nullable=True),
        sa.Column("purpose", sa.String(length=64), nullable=True),
        sa.Column("artifact_id", sa.String(length=48), nullable=True),
        sa.Column("cause", sa.String(length=40), nullable=True),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_obligations_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "obligation_id"),
    )
    with op.batch_alter_table("obligations", schema=None) as batch_op:
        batch_op.create_index(
            "ix_obligations_due",
            ["due_at"],
            unique=False,
            sqlite_where=sa.text("state = 'open'"),
            postgresql_where=sa.text("state = 'open'"),
        )
        batch_op.create_index(
            "uq_obligations_open",
            ["tenant_id", "kind", "memory_id"],
            unique=True,
            sqlite_where=sa.text("state = 'open'"),
            postgresql_where=sa.text("state = 'open'"),
        )

    op.create_table(
        "replay_memories",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=False),
        sa.Column("actor", sa.String(length=24), nullable=False),
        sa.Column("route", sa.String(length=80), nullable=False),
        sa.Column("key_hmac", sa.String(length=80), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_replay_memories_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "actor", "route", "key_hmac"),
    )
    op.create_table(
        "replays",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("actor", sa.String(length=24), nullable=False),
        sa.Column("route", sa.String(length=80), nullable=False),
        sa.Column("key_hmac", sa.String(length=80), nullable=False),
        sa.Column("fingerprint", sa.String(length=80), nullable=True),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_replays_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "actor", "route", "key_hmac"),
    )
    with op.batch_alter_table("replays", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_replays_created_at"), ["created_at"], unique=False)

    op.create_table(
        "request_artifacts",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("request_id", sa.String(length=40), nullable=False),
        sa.Column("artifact_id", sa.String(length=48), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_request_artifacts_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "request_id", "artifact_id"),
    )
    op.create_table(
        "requests",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("request_id", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=80), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("matched_count", sa.Integer(), nullable=False),
        sa.Column("erased_count", sa.Integer(), nullable=False),
        sa.Column("derived_matched_count", sa.Integer(), nullable=False),
        sa.Column("derived_erased_count", sa.Integer(), nullable=False),
        sa.Column("closure_hash", sa.String(length=80), nullable=True),
        sa.Column("owed_by", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_requests_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "request_id"),
    )
    with op.batch_alter_table("requests", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_requests_tenant_id_owed_by"), ["tenant_id", "owed_by"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_requests_tenant_id_subject"), ["tenant_id", "subject"], unique=False
        )

    with op.batch_alter_table("installation", schema=None) as batch_op:
        batch_op.add_column(sa.Column("journal_seq", sa.BigInteger(), server_default="0", nullable=False))

    op.execute(
        "INSERT INTO memory_subjects (tenant_id, memory_id, subject) "
        "SELECT tenant_id, memory_id, subject FROM memories WHERE subject IS NOT NULL "
        "UNION SELECT tenant_id, memory_id, subject FROM tombstones WHERE subject IS NOT NULL"
    )
    # A forget that was not finished goes on as a request of its own.
    op.execute(
        "INSERT INTO requests (tenant_id, request_id, subject, requested_at, matched_count, erased_count, "
        "derived_matched_count, derived_erased_count, owed_by) "
        "SELECT tenant_id, intent_id, subject, created_at, matched_count, erased_count, 0, 0, intent_id "
        "FROM intents WHERE subject IS NOT NULL"
    )

    with op.batch_alter_table("intents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("successor_id", sa.String(length=40), nullable=True))
        batch_op.drop_column("erased_count")
        batch_op.drop_column("matched_count")
        batch_op.drop_column("subject")

    with op.batch_alter_table("memories", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("lawful_basis", sa.String(length=32), server_default="not_recorded", nullable=False)
        )
        batch_op.add_column(
            sa.Column("source_kind", sa.String(length=16), server_default="provided", nullable=False)
        )
        batch_op.add_column(sa.Column("expires_at", sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column("grounds", sa.Integer(), server_default="0", nullable=False))
        batch_op.add_column(sa.Column("consented", sa.Boolean(), server_default=sa.true(), nullable=False))
        batch_op.create_index(
            "ix_memories_expiring",
            ["tenant_id", "expires_at"],
            unique=False,
            sqlite_where=sa.text("expires_at IS NOT NULL"),
            postgresql_where=sa.text("expires_at IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_memories_leaving",
            ["tenant_id"],
            unique=False,
            sqlite_where=sa.text("life <> 'live'"),
            postgresql_where=sa.text("life <> 'live'"),
        )
        batch_op.create_index(
            "ix_memories_restricted",
            ["tenant_id"],
            unique=False,
            sqlite_where=sa.text("grounds > 0"),
            postgresql_where=sa.text("grounds > 0"),
        )
        batch_op.create_index(
            "ix_memories_without_consent",
            ["tenant_id"],
            unique=False,
            sqlite_where=sa.text("NOT consented"),
            postgresql_where=sa.text("NOT consented"),
        )

    with op.batch_alter_table("receipts", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_receipts_tenant_id_receipt_hash"), ["tenant_id", "receipt_hash"], unique=False
        )

    with op.batch_alter_table("tenants", schema=None) as batch_op:
        batch_op.add_column(sa.Column("policies", sa.Text(), server_default="{}", nullable=False))
