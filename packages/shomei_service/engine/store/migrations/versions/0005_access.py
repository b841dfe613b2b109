"""Access: what an audit event says more, whom it is about, and which lines were imported."""

import hashlib
import json

import sqlalchemy as sa
from alembic import op

from shomei_memory_verify.canonical import canonical_bytes
from shomei_service.engine.store import walls

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns and tables; events that are there are chained anew, in the form that is documented."""
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.add_column(sa.Column("http_status", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("purpose", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("latency_ms", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("request_id", sa.String(length=40), nullable=True))
        batch_op.add_column(sa.Column("receipt_hash", sa.String(length=80), nullable=True))
    op.create_table(
        "audit_subjects",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=80), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_audit_subjects_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "subject", "seq"),
    )
    with op.batch_alter_table("audit_subjects", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_audit_subjects_tenant_id_seq"), ["tenant_id", "seq"])
    op.create_table(
        "imports",
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("line_key", sa.String(length=80), nullable=False),
        sa.Column("memory_id", sa.String(length=40), nullable=False),
        sa.Column("has_id", sa.Boolean(), nullable=False),
        sa.Column("format", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_imports_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "line_key"),
    )
    with op.batch_alter_table("imports", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_imports_tenant_id_memory_id"), ["tenant_id", "memory_id"])
    walls.build(op.get_bind(), ("audit_subjects", "imports"))
    _chain_anew(op.get_bind())


def _chain_anew(connection: sa.Connection) -> None:
    every = sa.text(
        "SELECT tenant_id, seq, at, actor, is_admin, verb, outcome, memory_ids, count FROM audit "
        "ORDER BY tenant_id, seq"
    )
    rows = connection.execute(every).mappings().all()
    linked = sa.text("UPDATE audit SET prev_hash = :link WHERE tenant_id = :tenant AND seq = :seq")
    tenant, link = None, ""
    for row in rows:
        if row["tenant_id"] != tenant:
            tenant, link = row["tenant_id"], "sha256:" + "0" * 64
        connection.execute(linked, {"link": link, "tenant": tenant, "seq": row["seq"]})
        event: dict[str, object] = {
            "seq": row["seq"],
            "prev_hash": link,
            "at": row["at"],
            "actor_ref": row["actor"],
            "actor_kind": "system" if row["actor"] == "system" else "admin" if row["is_admin"] else "data",
            "verb": row["verb"],
            "outcome_code": row["outcome"],
            "http_status": None,
            "purpose_code": None,
            "memory_ids": json.loads(row["memory_ids"]),
            "subject_pseudonyms": [],
            "count": row["count"],
            "latency_ms": None,
            "request_id": None,
            "receipt_hash": None,
        }
        link = "sha256:" + hashlib.sha256(canonical_bytes(event)).hexdigest()
