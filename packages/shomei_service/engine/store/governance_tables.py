"""The tables of governance: restriction, holds, consent, lineage, obligations, retries, audit, events.

As in tables.py, nothing in clear is content: opaque ids, registered codes, times, counts, keyed hashes.
"""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, String, Table, Text

from .tables import metadata, of_tenant, tenant_key, where

grounds = Table(  # open grounds of restriction; a lifted one is gone, its receipts stay
    "grounds",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("code", String(64), nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    tenant_key("memory_id", "code"),
    of_tenant(),
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
    tenant_key("hold_id"),
    of_tenant(),
    Index("ix_holds_open_memory", "tenant_id", "memory_id", **where("released_at IS NULL")),
    Index("ix_holds_open_subject", "tenant_id", "subject", **where("released_at IS NULL")),
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
    tenant_key("number"),
    of_tenant(),
    Index(None, "tenant_id", "subject", "purpose", "number"),
)

edges = Table(
    "edges",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("derived_id", String(48), nullable=False),
    Column("source_id", String(48), nullable=False),
    tenant_key("kind", "derived_id", "source_id"),
    of_tenant(),
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
    tenant_key("artifact_id"),
    of_tenant(),
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
    tenant_key("request_id"),
    of_tenant(),
    Index(None, "tenant_id", "subject"),
    Index(None, "tenant_id", "owed_by"),
)

request_artifacts = Table(
    "request_artifacts",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("request_id", String(40), nullable=False),
    Column("artifact_id", String(48), nullable=False),
    tenant_key("request_id", "artifact_id"),
    of_tenant(),
)

deferrals = Table(  # which forget requests wait for which held memory
    "deferrals",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("request_id", String(40), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("is_derived", Boolean, nullable=False),
    tenant_key("request_id", "memory_id"),
    of_tenant(),
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
    tenant_key("obligation_id"),
    of_tenant(),
    Index("uq_obligations_open", "tenant_id", "kind", "memory_id", unique=True, **where("state = 'open'")),
    Index("ix_obligations_due", "due_at", **where("state = 'open'")),
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
    tenant_key("actor", "route", "key_hmac"),
    of_tenant(),
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
    tenant_key("memory_id", "actor", "route", "key_hmac"),
    of_tenant(),
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
    Column("http_status", Integer),
    Column("purpose", String(64)),
    Column("latency_ms", Integer),
    Column("request_id", String(40)),
    Column("receipt_hash", String(80)),
    tenant_key("seq"),
    of_tenant(),
)

audit_subjects = Table(  # whom an event is about, and with how many of its memories
    "audit_subjects",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("subject", String(80), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    tenant_key("subject", "seq"),
    of_tenant(),
    Index(None, "tenant_id", "seq"),
)

imports = Table(  # which line of which file became which memory; a line without an id goes with its memory
    "imports",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("line_key", String(80), nullable=False),
    Column("memory_id", String(40), nullable=False),
    Column("has_id", Boolean, nullable=False),
    Column("format", String(32), nullable=False),
    Column("created_at", BigInteger),  # as the file says
    tenant_key("line_key"),
    of_tenant(),
    Index(None, "tenant_id", "memory_id"),
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
    tenant_key("number"),
    of_tenant(),
)
