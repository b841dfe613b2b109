"""The receipt log as rows: the signed text, and what an envelope is rebuilt from."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from sqlalchemy import select

from ..model import Attested, JsonObject
from ..prepared import Prepared
from .bound import TENANT, any_of, one_of
from .records import record
from .tables import receipts
from .unit import Unit


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """One receipt: its place in the log, the canonical text of its body, the signature if there is one."""

    origin: str
    seq: int
    schema: str
    memory_id: str | None  # or, for a closure, its request
    receipt_hash: str
    body: str
    signer_id: str | None
    public_key_hex: str | None
    signature_hex: str | None


_COLUMNS = [column for column in receipts.c if column.name != "tenant_id"]
_NAMES = [column.name for column in _COLUMNS]
_values = attrgetter(*_NAMES)
_OF_HASHES = Prepared(
    select(*_COLUMNS).where(receipts.c.tenant_id == TENANT, one_of(receipts.c.receipt_hash))
)
_INTO = Prepared.into(receipts, ["tenant_id", *_NAMES])


def put(unit: Unit, rows: Sequence[ReceiptRow]) -> None:
    """Append receipts to the tenant's log."""
    _INTO.add(unit.connection, [(unit.tenant, *_values(row)) for row in rows])


def page(unit: Unit, origin: str, after_seq: int, limit: int) -> list[ReceiptRow]:
    """Return receipts of one origin in order, those after a sequence number."""
    query = (
        select(*_COLUMNS)
        .where(receipts.c.tenant_id == unit.tenant, receipts.c.origin == origin, receipts.c.seq > after_seq)
        .order_by(receipts.c.seq)
        .limit(limit)
    )
    return [record(ReceiptRow, row) for row in unit.connection.execute(query).mappings()]


def origins(unit: Unit) -> list[str]:
    """Return every origin the tenant's log has had."""
    query = select(receipts.c.origin).where(receipts.c.tenant_id == unit.tenant).distinct()
    return sorted(unit.connection.execute(query).scalars())


def about_since(unit: Unit, origin: str, seq: int, schemas: Sequence[str]) -> set[str]:
    """Return what the receipts of these schemas are about that one log has from that place on."""
    query = select(receipts.c.memory_id).where(
        receipts.c.tenant_id == unit.tenant,
        receipts.c.origin == origin,
        receipts.c.seq >= seq,
        receipts.c.schema.in_(schemas),
    )
    return set(unit.connection.execute(query).scalars())


def hash_of_memory(unit: Unit, memory_id: str) -> str | None:
    """Return the hash of the newest receipt about a memory."""
    query = (
        select(receipts.c.receipt_hash)
        .where(receipts.c.tenant_id == unit.tenant, receipts.c.memory_id == memory_id)
        .order_by(receipts.c.seq.desc())
        .limit(1)
    )
    return unit.connection.execute(query).scalar()


def of_hashes(unit: Unit, hashes: Iterable[str]) -> dict[str, Attested]:
    """Return these receipts as they were attested, by hash."""
    found = _OF_HASHES.named(unit.connection, any_of(unit, sorted(hashes)))
    return {row["receipt_hash"]: attested(record(ReceiptRow, row)) for row in found}


def about(
    unit: Unit, schema: str, opaque_id: str, *, after: tuple[str, int] | None = None
) -> Attested | None:
    """Return the first receipt of a schema about a memory or a forget request; None if there is none.

    With `after`, an origin and a sequence number, it is the first that comes later in that log.
    """
    query = select(*_COLUMNS).where(
        receipts.c.tenant_id == unit.tenant, receipts.c.memory_id == opaque_id, receipts.c.schema == schema
    )
    if after is not None:
        query = query.where(receipts.c.origin == after[0], receipts.c.seq > after[1])
    row = unit.connection.execute(query.order_by(receipts.c.seq)).mappings().first()
    return attested(record(ReceiptRow, row)) if row else None


def attested(row: ReceiptRow) -> Attested:
    """Return a stored receipt as the statement it is, with its envelope where it was signed."""
    return stated(row, json.loads(row.body))


def stated(row: ReceiptRow, body: JsonObject) -> Attested:
    """Return a receipt whose body is at hand as the statement it is."""
    if row.signature_hex is None:
        return Attested(body, row.receipt_hash, None)
    envelope: JsonObject = {
        "schema": row.schema,
        "receipt_hash": row.receipt_hash,
        "signer_id": row.signer_id,
        "public_key_hex": row.public_key_hex,
        "signature_hex": row.signature_hex,
        "body": body,
    }
    return Attested(body, row.receipt_hash, envelope)
