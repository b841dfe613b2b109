"""The tables, as they stand after the newest migration. Nothing in clear here is content.

In clear: opaque ids, leaf addresses, state, times in whole seconds, keyed hashes. Sealed: text, user_id,
semantic type, metadata, vectors and term counts. The tenant is part of every primary key.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
    true,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


def tenant_key(*columns: str) -> PrimaryKeyConstraint:
    """Return the primary key of a table whose rows each belong to one tenant."""
    return PrimaryKeyConstraint("tenant_id", *columns)


def where(condition: str) -> dict[str, Any]:
    """Return what makes an index partial, on both databases."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


def of_tenant() -> ForeignKeyConstraint:
    """Return what ties a row to its tenant."""
    return ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"])


installation = Table(
    "installation",
    metadata,
    Column("installation_id", String(64), primary_key=True),
    Column("custody_epoch", BigInteger, nullable=False),  # never ahead of what custody has done
    Column(
        "journal_seq", BigInteger, nullable=False, server_default="0"
    ),  # the newest journal line that is true here
    Column("created_at", BigInteger, nullable=False),
    Column("embedder_id", String(255)),  # whose vectors the rows hold; none until the first is made
)

leases = Table(  # who does what among several processes, until when
    "leases",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("holder", String(40), nullable=False),
    Column("until", BigInteger, nullable=False),
)

tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", String(32), primary_key=True),
    Column("number", Integer, nullable=False, unique=True),  # the 16-bit prefix in the key tree
    Column("label", String(64), nullable=False),  # a registered code, never a person's name
    Column("commit_key_id", String(64), nullable=False),
    Column("log_origin", String(64), nullable=False),
    Column("next_seq", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),  # counts changes to rows; indexes follow it
    Column("last_applied_at", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("policies", Text, nullable=False, server_default="{}"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("key_id", String(16), nullable=False, unique=True),
    Column("secret_sha256", LargeBinary(32), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    tenant_key("key_id"),
    of_tenant(),
)

# Word for word the condition of an index below: a database uses it for nothing else.
NOT_EMBEDDED = text("NOT embedded")

memories = Table(
    "memories",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("address", BigInteger, nullable=False, unique=True),  # the leaf of the key tree
    Column("version", Integer, nullable=False),
    Column("life", String(16), nullable=False),
    Column("subject", String(80)),  # keyed hash of user_id
    Column("semantic_ref", String(80), nullable=False),  # keyed hash of the semantic type
    Column("created_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("sealed_dek", LargeBinary, nullable=False),
    Column("sealed_content", LargeBinary, nullable=False),
    Column("sealed_recall", LargeBinary, nullable=False),
    Column("embedded", Boolean, nullable=False),
    Column("intent_id", String(40)),
    Column("lawful_basis", String(32), nullable=False, server_default="not_recorded"),
    Column("source_kind", String(16), nullable=False, server_default="provided"),
    Column("expires_at", BigInteger),
    Column("grounds", Integer, nullable=False, server_default="0"),  # open restriction grounds
    Column("consented", Boolean, nullable=False, server_default=true()),  # false: its consent is missing
    tenant_key("memory_id"),
    of_tenant(),
    Index(None, "tenant_id", "subject"),
    Index(None, "tenant_id", "revision"),
    # What an erasure takes out chunk by chunk is found in order.
    Index("ix_memories_intended", "tenant_id", "intent_id", "address", **where("intent_id IS NOT NULL")),
    # What recall passes over is found without reading what it does not.
    Index("ix_memories_restricted", "tenant_id", **where("grounds > 0")),
    Index("ix_memories_without_consent", "tenant_id", **where("NOT consented")),
    Index("ix_memories_expiring", "tenant_id", "expires_at", **where("expires_at IS NOT NULL")),
    Index("ix_memories_leaving", "tenant_id", **where("life <> 'live'")),
    Index("ix_memories_not_embedded", "address", **where("NOT embedded")),
)

memory_subjects = (
    Table(  # every subject a memory is about: its own and those of its sources; outlives the row
        "memory_subjects",
        metadata,
        Column("tenant_id", String(32), nullable=False),
        Column("memory_id", String(40), nullable=False),
        Column("subject", String(80), nullable=False),
        tenant_key("memory_id", "subject"),
        of_tenant(),
        Index(None, "tenant_id", "subject"),
    )
)

memory_purposes = Table(
    "memory_purposes",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("purpose", String(64), nullable=False),
    tenant_key("memory_id", "purpose"),
    of_tenant(),
)

intents = Table(
    "intents",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("intent_id", String(40), nullable=False),
    Column("cause", String(40), nullable=False),
    Column("basis", String(40), nullable=False),
    Column("actor", String(24), nullable=False),
    Column("successor_id", String(40)),  # set for an update: its completion makes the successor live
    Column("created_at", BigInteger, nullable=False),
    tenant_key("intent_id"),
    of_tenant(),
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("tombstone_id", String(40), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("subject", String(80)),
    Column("erased_at", BigInteger, nullable=False),
    Column("cause", String(40), nullable=False),
    Column("receipt_hash", String(80), nullable=False),
    Column("physically_purged", Boolean, nullable=False),
    tenant_key("tombstone_id"),
    of_tenant(),
    Index(None, "tenant_id", "memory_id", unique=True),
    Index(None, "tenant_id", "subject"),
    Index(None, "tenant_id", "receipt_hash"),  # indexes follow the log to what was erased
)

receipts = Table(
    "receipts",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("origin", String(64), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("schema", String(64), nullable=False),
    Column("memory_id", String(40)),
    Column("receipt_hash", String(80), nullable=False),
    Column("body", Text, nullable=False),  # the RFC 8785 text that was signed
    Column("signer_id", String(40)),
    Column("public_key_hex", String(64)),
    Column("signature_hex", String(128)),
    tenant_key("origin", "seq"),
    of_tenant(),
    Index(None, "tenant_id", "memory_id"),
    Index(None, "tenant_id", "receipt_hash"),
)
