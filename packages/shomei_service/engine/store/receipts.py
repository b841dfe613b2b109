"""The receipt log as rows: the signed text, and what an envelope is rebuilt from."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import insert, select

from ..model import Attested, JsonObject
from .records import record
from .tables import receipts
from .unit import Unit


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """One receipt: its place in the log, the canonical text of its body, the signature if there is one."""

    origin: str
    seq: int
    schema: str
    memory_id: str | None
    receipt_hash: str
    body: str
    signer_id: str | None
    public_key_hex: str | None
    signature_hex: str | None


_COLUMNS = [column for column in receipts.c if column.name != "tenant_id"]


def put(unit: Unit, rows: Sequence[ReceiptRow]) -> None:
    """Append receipts to the tenant's log."""
    unit.connection.execute(
        insert(receipts),
        [
            {column.name: getattr(row, column.name) for column in _COLUMNS} | {"tenant_id": unit.tenant}
            for row in rows
        ],
    )


def page(unit: Unit, origin: str, after_seq: int, limit: int) -> list[ReceiptRow]:
    """Return receipts of one origin in order, those after a sequence number."""
    query = (
        select(*_COLUMNS)
        .where(receipts.c.tenant_id == unit.tenant, receipts.c.origin == origin, receipts.c.seq > after_seq)
        .order_by(receipts.c.seq)
        .limit(limit)
    )
    return [record(ReceiptRow, row) for row in unit.connection.execute(query).mappings()]


def with_hash(unit: Unit, receipt_hash: str) -> ReceiptRow | None:
    """Return the receipt with this hash."""
    query = select(*_COLUMNS).where(
        receipts.c.tenant_id == unit.tenant, receipts.c.receipt_hash == receipt_hash
    )
    row = unit.connection.execute(query).mappings().first()
    return record(ReceiptRow, row) if row else None


def attested(row: ReceiptRow) -> Attested:
    """Return a stored receipt as the statement it is, envelope included where it was signed."""
    body: JsonObject = json.loads(row.body)
    envelope: JsonObject | None = None
    if row.signature_hex is not None:
        envelope = {
            "schema": row.schema,
            "receipt_hash": row.receipt_hash,
            "signer_id": row.signer_id,
            "public_key_hex": row.public_key_hex,
            "signature_hex": row.signature_hex,
            "body": body,
        }
    return Attested(body, row.receipt_hash, envelope)


def hash_of_memory(unit: Unit, memory_id: str) -> str | None:
    """Return the hash of the newest receipt about a memory."""
    query = (
        select(receipts.c.receipt_hash)
        .where(receipts.c.tenant_id == unit.tenant, receipts.c.memory_id == memory_id)
        .order_by(receipts.c.seq.desc())
        .limit(1)
    )
    return unit.connection.execute(query).scalar()
