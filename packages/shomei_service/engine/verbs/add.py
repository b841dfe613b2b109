"""Remember: store new memories, each sealed under its own key. CONTRACT.md §1, SEMANTICS.md §5."""

from collections.abc import Sequence

from .. import admission, limits
from ..errors import Invalid
from ..failpoints import failpoint
from ..model import Added, Caller, NewMemory, Scope
from ..parts import Engine
from ..store import tenants


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
        tenant = tenants.get(unit)
    # 1. Seal before the transaction: it is work that no other writer should wait for.
    admissions = [admission.prepare(engine, tenant, new) for new in news]
    # 2. Rows and receipts become true together.
    with engine.unit(caller.tenant) as unit:
        added = admission.admit(engine, unit, admissions, actor=caller.actor)
        failpoint("add.before_commit")
    failpoint("add.after_commit")
    # 3. Vectors and the log's mark follow in the background; the words are findable now.
    engine.wake.set()
    return added
