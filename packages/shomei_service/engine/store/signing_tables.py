"""The tables of keys that follow one another, as they stand after the newest migration."""

from sqlalchemy import BigInteger, Column, Integer, String, Table

from .tables import metadata, of_tenant, tenant_key

signing_ranges = Table(
    "signing_ranges",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("origin", String(64), nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("signer_id", String(40), nullable=False),
    Column("public_key_hex", String(64), nullable=False),
    tenant_key("origin", "first_seq"),
    of_tenant(),
)
stated_rotations = Table(  # of custody: the newest epoch whose rotation the tenant has a receipt of
    "stated_rotations",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    tenant_key(),
    of_tenant(),
)
commitment_ranges = Table(  # from here on in this log, sets are committed to under this key
    "commitment_ranges",
    metadata,
    Column("tenant_id", String(32), nullable=False),
    Column("origin", String(64), nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("commit_key_id", String(64), nullable=False),
    Column("leaf", Integer, nullable=False),  # which of the tenant's reserved rows the key grows from
    tenant_key("origin", "first_seq"),
    of_tenant(),
)
