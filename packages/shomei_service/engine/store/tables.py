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


def _tenant_key(*columns: str) -> PrimaryKeyConstraint:
    return PrimaryKeyConstraint("tenant_id", *columns)


def _where(condition: str) -> dict[str, Any]:
    """Return what makes an index partial, on both databases."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


def _of_tenant() -> ForeignKeyConstraint:
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
    Column("lawful_basis", String(32), nullable=False, server_default="not_recorded"),
    Column("source_kind", String(16), nullable=False, server_default="provided"),
    Column("expires_at", BigInteger),
    Column("grounds", Integer, nullable=False, server_default="0"),  # open restriction grounds
    Column("consented", Boolean, nullable=False, server_default=true()),  # false: its consent is missing
    _tenant_key("memory_id"),
    _of_tenant(),
    Index(None, "tenant_id", "subject"),
    Index(None, "tenant_id", "revision"),
    Index(None, "tenant_id", "intent_id"),
    # What recall passes over is found without reading what it does not.
    Index("ix_memories_restricted", "tenant_id", **_where("grounds > 0")),
    Index("ix_memories_without_consent", "tenant_id", **_where("NOT consented")),
    Index("ix_memories_expiring", "tenant_id", "expires_at", **_where("expires_at IS NOT NULL")),
    Index("ix_memories_leaving", "tenant_id", **_where("life <> 'live'")),
)

memory_subjects = (
    Table(  # every subject a memory is about: its own and those of its sources; outlives the row
        "memory_subjects",
        metadata,
        Column("tenant_id", String(32), nullable=False),
        Column("memory_id", String(40), nullable=False),
        Column("subject", String(80), nullable=False),
        _tenant_key("memory_id", "subject"),
        _of_tenant(),
        Index(None, "tenant_id", "subject"),
    )
)

memory_purposes = Table(
    "memory_purposes",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("purpose", String(64), nullable=False),
    _tenant_key("memory_id", "purpose"),
    _of_tenant(),
)

grounds = Table(  # open grounds of restriction; a lifted one is gone, its receipts stay
    "grounds",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("code", String(64), nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    _tenant_key("memory_id", "code"),
    _of_tenant(),
)

holds = Table(
    "holds",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("hold_id", String(40), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("memory_id", String(40)),
    Column("subject", String(80)),
    Column("authority_code", String(64), nullable=False),
    Column("matter_ref_hmac", String(80)),
    Column("matter_address", BigInteger),  # the leaf under which the matter reference is sealed
    Column("sealed_matter_dek", LargeBinary),
    Column("sealed_matter", LargeBinary),
    Column("placed_by", String(24), nullable=False),
    Column("placed_at", BigInteger, nullable=False),
    Column("review_at", BigInteger),
    Column("expires_at", BigInteger),
    Column("released_by", String(24)),
    Column("released_at", BigInteger),
    Column("release_code", String(64)),
    _tenant_key("hold_id"),
    _of_tenant(),
    Index("ix_holds_open_memory", "tenant_id", "memory_id", **_where("released_at IS NULL")),
    Index("ix_holds_open_subject", "tenant_id", "subject", **_where("released_at IS NULL")),
)

consents = Table(  # append-only; the newest record of a subject and purpose decides
    "consents",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("subject", String(80), nullable=False),
    Column("purpose", String(64), nullable=False),
    Column("action", String(16), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("evidence_ref_hmac", String(80)),
    Column("policy_version", String(64)),
    Column("channel_code", String(64)),
    _tenant_key("number"),
    _of_tenant(),
    Index(None, "tenant_id", "subject", "purpose", "number"),
)

edges = Table(
    "edges",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("derived_id", String(48), nullable=False),
    Column("source_id", String(48), nullable=False),
    _tenant_key("kind", "derived_id", "source_id"),
    _of_tenant(),
    Index(None, "tenant_id", "source_id"),
    Index(None, "tenant_id", "derived_id"),
)

artifacts = Table(  # what was made from memories and lies elsewhere
    "artifacts",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("artifact_id", String(48), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("location_code", String(64)),
    Column("created_at", BigInteger, nullable=False),
    Column("erasure_requested_at", BigInteger),
    Column("acknowledged_at", BigInteger),
    _tenant_key("artifact_id"),
    _of_tenant(),
)

requests = Table(  # forget requests: counts are cumulative until every deferred row is erased
    "requests",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("request_id", String(40), nullable=False),
    Column("subject", String(80), nullable=False),
    Column("requested_at", BigInteger, nullable=False),
    Column("matched_count", Integer, nullable=False),
    Column("erased_count", Integer, nullable=False),
    Column("derived_matched_count", Integer, nullable=False),
    Column("derived_erased_count", Integer, nullable=False),
    Column("closure_hash", String(80)),
    Column("owed_by", String(40)),  # the intent whose completion states the next closure
    _tenant_key("request_id"),
    _of_tenant(),
    Index(None, "tenant_id", "subject"),
    Index(None, "tenant_id", "owed_by"),
)

request_artifacts = Table(
    "request_artifacts",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("request_id", String(40), nullable=False),
    Column("artifact_id", String(48), nullable=False),
    _tenant_key("request_id", "artifact_id"),
    _of_tenant(),
)

deferrals = Table(  # which forget requests wait for which held memory
    "deferrals",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("request_id", String(40), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("is_derived", Boolean, nullable=False),
    _tenant_key("request_id", "memory_id"),
    _of_tenant(),
    Index(None, "tenant_id", "memory_id"),
)

obligations = Table(
    "obligations",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("obligation_id", String(40), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("state", String(16), nullable=False),
    Column("memory_id", String(40)),
    Column("subject", String(80)),
    Column("purpose", String(64)),
    Column("artifact_id", String(48)),
    Column("cause", String(40)),  # of the erasure that is owed
    Column("requested_at", BigInteger, nullable=False),
    Column("due_at", BigInteger),
    Column("ended_at", BigInteger),
    _tenant_key("obligation_id"),
    _of_tenant(),
    Index("uq_obligations_open", "tenant_id", "kind", "memory_id", unique=True, **_where("state = 'open'")),
    Index("ix_obligations_due", "due_at", **_where("state = 'open'")),
)

replays = Table(  # Idempotency-Key: keyed hashes and content-free results; no response text
    "replays",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("actor", String(24), nullable=False),
    Column("route", String(80), nullable=False),
    Column("key_hmac", String(80), nullable=False),
    Column("fingerprint", String(80)),  # of the body; nulled when what it describes is erased
    Column("result", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    _tenant_key("actor", "route", "key_hmac"),
    _of_tenant(),
    Index(None, "created_at"),
)

replay_memories = Table(
    "replay_memories",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("actor", String(24), nullable=False),
    Column("route", String(80), nullable=False),
    Column("key_hmac", String(80), nullable=False),
    _tenant_key("memory_id", "actor", "route", "key_hmac"),
    _of_tenant(),
)

audit = Table(  # who read or was refused what: ids, codes and counts, chained by hash
    "audit",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("prev_hash", String(80), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", String(24), nullable=False),
    Column("is_admin", Boolean, nullable=False),
    Column("verb", String(40), nullable=False),
    Column("outcome", String(40), nullable=False),
    Column("memory_ids", Text, nullable=False),
    Column("count", Integer, nullable=False),
    _tenant_key("seq"),
    _of_tenant(),
)

events = Table(  # content-free; what later deliveries will read
    "events",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("ids", Text, nullable=False),
    Column("pseudonym", String(80)),
    Column("at", BigInteger, nullable=False),
    _tenant_key("number"),
    _of_tenant(),
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
    Index(None, "tenant_id", "receipt_hash"),
)
