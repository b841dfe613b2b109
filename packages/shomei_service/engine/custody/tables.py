"""The custody store's tables: nothing personal, nothing that opens without the provider. CUSTODY.md §2."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

FORMAT: Final = 2

metadata = MetaData()

head = Table(
    "custody_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # one row, 1
    Column("format", Integer, nullable=False),
    Column("installation_id", String(64), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("key_custody", String(32), nullable=False),  # whose key it is
    Column("key_name", String(64), nullable=False),
    Column("wrapped_root", LargeBinary, nullable=False),
    Column("ledger", LargeBinary, nullable=False),  # what the records below add up to, sealed
    Column("created_at", BigInteger, nullable=False),
)

# Names of provider keys that this store may destroy; no other name may ever be.
pending = Table(
    "custody_pending",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("key_custody", String(32), nullable=False),
)
retiring = Table(
    "custody_retiring",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("epoch", BigInteger, nullable=False),  # the epoch that replaced it
    Column("key_custody", String(32), nullable=False),
)

blobs = Table(
    "custody_blob",
    metadata,
    Column("prefix", LargeBinary(7), primary_key=True),
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("sealed", LargeBinary, nullable=False),
)
stale = Table(
    "custody_stale",
    metadata,
    Column("prefix", LargeBinary(7), primary_key=True),
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("since", BigInteger, nullable=False),
)

epochs = Table(
    "custody_epoch",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("rotated", Boolean, nullable=False),  # somebody asked for a new key
    Column("old_custody", String(32), nullable=False),
    Column("new_custody", String(32), nullable=False),
    Column("destroy_method", String(32)),
    Column("finality", String(16)),
    Column("key_final_at", BigInteger),
    Column("destroyed_at", BigInteger),
)
punctures = Table(
    "custody_puncture",
    metadata,
    Column("path", LargeBinary(7), primary_key=True),  # seven bytes: a leaf; two: a whole tenant
    Column("epoch", BigInteger, nullable=False),
    Column("cause", String(64), nullable=False),
    Index("custody_puncture_epoch", "epoch"),
)

tenants = Table(
    "custody_tenant",
    metadata,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("next_row", BigInteger, nullable=False),
)
log_marks = Table(
    "custody_log_mark",
    metadata,
    Column("tenant_id", String(64), primary_key=True),
    Column("origin", String(128), nullable=False),
    Column("seq", BigInteger, nullable=False),
)
journal = Table(
    "custody_journal",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", String(64), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("ids", Text, nullable=False),
    Column("pseudonym", String(128)),
    Column("codes", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
signers = Table(  # signing seeds, each wrapped by a key of its own; never by an epoch key
    "custody_signer",
    metadata,
    Column("key_name", String(64), primary_key=True),
    Column("key_custody", String(32), nullable=False),
    Column("number", BigInteger, nullable=False),  # the higher one is to come
    Column("wrapped_seed", LargeBinary, nullable=False),
)
