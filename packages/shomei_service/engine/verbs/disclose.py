"""Read a memory outside recall, on a stated ground. SEMANTICS.md §6 (GDPR Art. 18(2))."""

from dataclasses import dataclass

from .. import policy, retries
from ..custody import Punctured
from ..errors import RowDamaged
from ..model import Attested, Caller, DisclosureGround, Recalled, Scope
from ..parts import Engine
from ..receipts import bodies
from ..store import memories, tenants

_RECIPIENT_BYTES = 256


@dataclass(frozen=True, slots=True)
class Disclosed:
    """The memory, and the receipt that it was read."""

    memory: Recalled
    receipt: Attested


def disclose(
    engine: Engine, caller: Caller, memory_id: str, ground: DisclosureGround, recipient: str | None = None
) -> Disclosed:
    """Return the memory in whatever state it is kept.

    Raises NotFound when it is not, RowDamaged when it is not what was sealed.
    """
    caller.require(Scope.ADMIN)
    policy.require_reference(recipient, largest=_RECIPIENT_BYTES, message="recipient must be 1 to 256 bytes")
    engine.audit.catch_up()
    # The receipt, the audit event and the reading are one transaction: nothing is told without the two.
    with engine.unit(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)  # before 404: the key may be another request's
        row = policy.require_present(memories.lock(unit, memory_id))
        try:
            memory = engine.rows.recalled(caller.tenant, row)
        except Punctured as gone:  # it is locked, so nobody is erasing it
            raise RowDamaged("what is stored of this memory is not what was sealed") from gone
        receipt = retries.statement(unit, again["receipt"]) if again is not None else None
        if receipt is None:
            reference = engine.commitments(tenants.get(unit)).recipient(recipient) if recipient else None
            draft = bodies.disclosure(memory_id=row.memory_id, ground=ground, recipient_ref=reference)
            receipt = engine.attest(unit, [draft], actor=caller.actor)[0]
            retries.keep(engine, unit, caller, {"receipt": receipt.receipt_hash})
        engine.audit.record(unit, caller, "disclose", [row.memory_id], receipt_hash=receipt.receipt_hash)
    return Disclosed(memory, receipt)
