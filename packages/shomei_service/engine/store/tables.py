"""The tables, as they stand after the newest migration. Nothing in clear here is content.

In clear: opaque ids, leaf addresses, state, times in whole seconds, keyed hashes. Sealed: text, user_id,
semantic type, metadata, vectors and term counts. The tenant is part of every primary key.
"""

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
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


def _tenant_key(*columns: str) -> PrimaryKeyConstraint:
    return PrimaryKeyConstraint("tenant_id", *columns)


def _of_tenant() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"])


installation = Table(
    "installation",
    metadata,
    Column("installation_id", String(64), primary_key=True),
    Column("custody_epoch", BigInteger, nullable=False),  # never ahead of what custody has done
    Column("created_at", BigInteger, nullable=False),
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
    _tenant_key("key_id"),
    _of_tenant(),
)

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
    _tenant_key("memory_id"),
    _of_tenant(),
    Index(None, "tenant_id", "subject"),
    Index(None, "tenant_id", "revision"),
    Index(None, "tenant_id", "intent_id"),
)

intents = Table(
    "intents",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("intent_id", String(40), nullable=False),
    Column("cause", String(40), nullable=False),
    Column("basis", String(40), nullable=False),
    Column("actor", String(24), nullable=False),
    Column("subject", String(80)),  # set for a forget: its completion owes a closure
    Column("matched_count", Integer, nullable=False),
    Column("erased_count", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    _tenant_key("intent_id"),
    _of_tenant(),
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
    _tenant_key("tombstone_id"),
    _of_tenant(),
    Index(None, "tenant_id", "memory_id", unique=True),
    Index(None, "tenant_id", "subject"),
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
    _tenant_key("origin", "seq"),
    _of_tenant(),
    Index(None, "tenant_id", "memory_id"),
)
