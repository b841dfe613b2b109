"""Remember: store new memories, each sealed under its own key. CONTRACT.md §1, SEMANTICS.md §5."""

from collections.abc import Sequence
from dataclasses import dataclass

from .. import admission, limits, policy, retries
from ..admission import Admission
from ..errors import EgressFault, IntegrityFault, Invalid, Refusal, SigningFault, StorageUnavailable
from ..failpoints import failpoint
from ..model import Added, Caller, MemoryId, NewMemory, Scope, TenantId
from ..parts import Engine
from ..receipts import bodies
from ..store import memories, receipts, restrictions, tenants
from ..store.unit import Unit
from ..turnstile import Turnstile


def add(engine: Engine, caller: Caller, new: NewMemory) -> Added:
    """Store one memory and return its receipt.

    Raises Invalid or TooLarge when it breaks a limit, CustodyUnavailable when no key can be had.
    """
    return add_batch(engine, caller, [new])[0]


def add_batch(engine: Engine, caller: Caller, news: Sequence[NewMemory]) -> list[Added]:
    """Store all the memories in one transaction, or none of them; one receipt each."""
    caller.require(Scope.DATA)
    if not 1 <= len(news) <= limits.BATCH_MEMORIES:
        raise Invalid("a batch holds 1 to 1000 memories")
    with engine.reading(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            return _again(engine, unit, retries.ids(again["ids"]))
        tenant = tenants.get(unit)
    # 1. Seal before the transaction: it is work that no other writer should wait for.
    admissions = [admission.prepare(engine, tenant, new) for new in news]
    # 2. Rows and receipts become true together, in one transaction with whoever arrives meanwhile.
    entrance: Turnstile[_Arrival, list[Added]] = engine.entrances.of(caller.tenant)
    added = entrance.enter(
        _Arrival(caller, admissions), lambda arrived: _admit_together(engine, caller.tenant, arrived)
    )
    # 3. Vectors and the log's mark follow in the background; the words are findable now.
    engine.embed_now.set()
    return added


@dataclass(frozen=True, slots=True)
class _Arrival:
    """One caller's sealed memories, to be stored all or none."""

    caller: Caller
    admissions: list[Admission]


def _admit_together(
    engine: Engine, tenant: TenantId, arrived: Sequence[_Arrival]
) -> list[list[Added] | Exception]:
    """Admit every arrival in one transaction; what is refused is undone alone."""
    if engine.store.room.is_spent:
        raise StorageUnavailable("the disk is full; erasing goes on")
    with engine.unit(tenant) as unit:
        answers = [_admit(engine, unit, arrival) for arrival in arrived]
        failpoint("add.before_commit")
    failpoint("add.after_commit")
    return answers


def _admit(engine: Engine, unit: Unit, arrival: _Arrival) -> list[Added] | Exception:
    caller = arrival.caller
    try:
        with unit.part():
            again = retries.recall(engine, unit, caller)
            if again is not None:
                return _again(engine, unit, retries.ids(again["ids"]))
            added = admission.admit(engine, unit, arrival.admissions, actor=caller.actor)
            ids = [one.memory_id for one in added]
            retries.keep(engine, unit, caller, {"ids": [*ids]}, about=ids)
            return added
    except (Refusal, IntegrityFault, EgressFault, SigningFault) as exc:
        return exc


def _again(engine: Engine, unit: Unit, ids: Sequence[MemoryId]) -> list[Added]:
    """Return the same answer once more; the text of what was erased since is not in it.

    Once a part is erased the body is compared no more, so the rest is shown only as recall shows it.
    """
    rows = memories.live(unit, ids)
    if len(rows) < len(ids):
        now = engine.clock.now()
        shown = {
            memory_id
            for memory_id, row in rows.items()
            if policy.is_recallable(row, now) and not restrictions.hidden_sources(unit, memory_id, now)
        }
    else:
        shown = set(rows)
    answers: list[Added] = []
    for memory_id in ids:
        receipt = receipts.about(unit, bodies.Schema.MEMORY_ADD, memory_id)
        assert receipt is not None, "an add and its receipt are one transaction"  # noqa: S101
        text = engine.rows.open_content(unit.tenant, rows[memory_id]).text if memory_id in shown else None
        answers.append(Added(memory_id, text, receipt, is_erased=memory_id not in rows))
    return answers
