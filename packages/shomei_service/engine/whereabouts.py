"""Which leaf a row's key really hangs on, should the database no longer say it truly. RELIABILITY T-26.

A row names its leaf in the clear. Were the name damaged or exchanged, an erasure would destroy another row's
key, or a tenant's own, and leave this one's alive: so the leaf has to open the row before it is destroyed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .custody import Address, Punctured, address
from .custody.keytree import ADDRESS_BITS
from .custody.vault import RESERVED_ROWS
from .errors import IntegrityFault
from .model import MemoryId, Tenant, TenantId
from .parts import Engine
from .store import intents, leaving, tenants, tombstones
from .store.intents import Intent
from .store.leaving import Seal
from .store.unit import Unit

_TRIES: Final = 1 << 20  # about 20 s, for one erasure of what is damaged; others go on meanwhile
_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class Begun:
    """An erasure as whoever looked last saw it: whose it is, and the rows whose keys have to be destroyed."""

    intent: Intent
    tenant: Tenant
    seals: Sequence[Seal]


def begun(unit: Unit, intent: Intent, found: Iterable[Seal]) -> Begun:
    """Return an erasure without the rows that somebody put back: their keys went with an earlier one."""
    seals = list(found)
    buried = tombstones.known(unit, [seal.memory_id for seal in seals])
    return Begun(intent, tenants.get(unit), [seal for seal in seals if seal.memory_id not in buried])


def found(engine: Engine, tenant_id: TenantId, intent_id: str) -> Begun | None:
    """Return an erasure that was begun elsewhere or earlier; None if it is finished."""
    with engine.reading(tenant_id) as unit:
        intent = intents.get(unit, intent_id)
        if intent is None:
            return None
        return begun(unit, intent, leaving.seals_of_intent(unit, intent_id))


def leaves_of(engine: Engine, erasure: Begun) -> dict[MemoryId, Address]:
    """Return the leaf of each row that is to go: the one it names if that opens it, or the one that does.

    A row that nothing opens is taken at its word, so far as it names a leaf that was given to this tenant.
    Raises IntegrityFault if one does not: then no key is destroyed.
    """
    leaves: dict[MemoryId, Address] = {}
    unsure: list[Seal] = []
    for seal in erasure.seals:
        if _is_at(engine, erasure, seal):
            leaves[seal.memory_id] = Address(seal.address)
        else:
            unsure.append(seal)
    if unsure:
        leaves |= _searched(engine, erasure.tenant, unsure)
    return leaves


def _is_at(engine: Engine, erasure: Begun, seal: Seal) -> bool:
    if not _is_address(seal.address):
        return False
    try:
        return _opens(engine, erasure.tenant.tenant_id, seal, seal.address)
    except Punctured:
        gone = engine.custody.punctured_at(Address(seal.address))
        # This very erasure may have come so far before; what went earlier was another row's.
        return gone is not None and gone.at >= erasure.intent.created_at


def _searched(engine: Engine, tenant: Tenant, unsure: list[Seal]) -> dict[MemoryId, Address]:
    number = tenant.number
    rows = range(RESERVED_ROWS, engine.custody.high_water(number))
    found: dict[MemoryId, Address] = {}
    left = {seal.memory_id: seal for seal in unsure}
    tries = 0
    for leaf in _candidates(number, rows, unsure):
        if not left or tries > _TRIES:
            break
        tries += len(left)
        for seal in _opened_by(engine, tenant.tenant_id, leaf, list(left.values())):
            found[seal.memory_id] = leaf
            del left[seal.memory_id]
    for seal in left.values():
        if not _is_given(seal.address, number, rows):
            raise IntegrityFault("a row to erase names no leaf of its tenant's, and none opens it")
        found[seal.memory_id] = Address(seal.address)
    return found


def _candidates(number: int, rows: range, unsure: Iterable[Seal]) -> Iterator[Address]:
    """Yield the leaves that one damaged byte may have been, then every leaf the tenant was given."""
    for seal in unsure:
        if _is_address(seal.address):
            for shift in range(0, ADDRESS_BITS, _BYTE):
                for change in range(1, 1 << _BYTE):
                    near = seal.address ^ change << shift
                    if _is_given(near, number, rows):
                        yield Address(near)
    for row in rows:
        yield address(number, row)


def _opened_by(engine: Engine, tenant_id: TenantId, leaf: Address, seals: Sequence[Seal]) -> list[Seal]:
    try:
        return [seal for seal in seals if _opens(engine, tenant_id, seal, leaf)]
    except (Punctured, IntegrityFault):
        return []


def _opens(engine: Engine, tenant_id: TenantId, seal: Seal, leaf: int) -> bool:
    return engine.rows.opens_at(tenant_id, leaf, seal.memory_id, seal.version, seal.sealed_dek)


def _is_given(leaf: int, number: int, rows: range) -> bool:
    return _is_address(leaf) and address(number, rows.start) <= leaf < address(number, rows.stop)


def _is_address(leaf: object) -> bool:
    return isinstance(leaf, int) and 0 <= leaf < 1 << ADDRESS_BITS
