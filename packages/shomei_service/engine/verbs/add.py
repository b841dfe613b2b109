"""Remember: store new memories, each sealed under its own key. CONTRACT.md §1, SEMANTICS.md §5."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from .. import admission, limits, policy, retries
from ..admission import Admission
from ..errors import (
    EgressFault,
    EngineError,
    IntegrityFault,
    Invalid,
    Refusal,
    SigningFault,
    StorageUnavailable,
)
from ..failpoints import failpoint
from ..model import Added, Caller, MemoryId, NewMemory, Scope, TenantId
from ..parts import Engine
from ..receipts import bodies
from ..standing import Standing
from ..store import memories, receipts, restrictions, tenants
from ..store.unit import Unit
from ..turnstile import Turnstile

# What one caller's memories may meet with while others of the transaction go in.
_ONES_OWN: Final = (Refusal, IntegrityFault, EgressFault, SigningFault)


def add(engine: Engine, caller: Caller, new: NewMemory) -> Added:
    """Store one memory and return its receipt.

    Raises Invalid or TooLarge when it breaks a limit, CustodyUnavailable when no key can be had.
    """
    return add_batch(engine, caller, [new])[0]


def add_batch(engine: Engine, caller: Caller, news: Sequence[NewMemory]) -> list[Added]:
    """Store all the memories in one transaction, or none of them; one receipt each."""
    [answer] = add_each(engine, [(caller, news)])
    if isinstance(answer, Exception):
        raise answer
    return answer


Asked = tuple[Caller, Sequence[NewMemory]]
Answer = list[Added] | Exception


def add_each(engine: Engine, asked: Sequence[Asked]) -> list[Answer]:
    """Do what `add_batch` does for several callers of one tenant, in one transaction; an answer for each.

    A refusal is the answer of whom it is made to; what is raised, such as StorageUnavailable, is everybody's.
    Raises ValueError for callers of several tenants.
    """
    [tenant] = {caller.tenant for caller, _ in asked}
    with engine.reading(tenant) as unit:
        found = tenants.get(unit)
        answers = {at: told for at, one in enumerate(asked) if (told := _told(engine, unit, one)) is not None}
    # 1. Seal before the transaction: it is work that no other writer should wait for.
    arrived: dict[int, _Arrival] = {}
    for at, (caller, news) in enumerate(asked):
        if at not in answers:
            try:
                arrived[at] = _Arrival(caller, admission.prepare(engine, found, news))
            except Exception as exc:  # noqa: BLE001 - what one's text does to us is nobody else's answer
                answers[at] = exc
    # 2. Rows and receipts become true together, in one transaction with whoever arrives meanwhile.
    if arrived:
        entrance: Turnstile[list[_Arrival], list[Answer]] = engine.entrances.of(tenant)
        admitted = entrance.enter([*arrived.values()], lambda groups: _admit_groups(engine, tenant, groups))
        answers |= zip(arrived, admitted, strict=True)
        # 3. Vectors and the log's mark follow in the background; the words are findable now.
        engine.embed_now.set()
    return [answers[at] for at in range(len(asked))]


def _told(engine: Engine, unit: Unit, asked: Asked) -> Answer | None:
    """Return what is answered without storing: a refusal, or what the same call came to before."""
    caller, news = asked
    try:
        caller.require(Scope.DATA)
        if not 1 <= len(news) <= limits.BATCH_MEMORIES:
            raise Invalid("a batch holds 1 to 1000 memories")
        again = retries.recall(engine, unit, caller)
        return None if again is None else _again(engine, unit, retries.ids(again["ids"]))
    except EngineError as exc:
        return exc


@dataclass(frozen=True, slots=True)
class _Arrival:
    """One caller's sealed memories, to be stored all or none."""

    caller: Caller
    admissions: list[Admission]


def _admit_groups(
    engine: Engine, tenant: TenantId, groups: Sequence[Sequence[_Arrival]]
) -> list[list[Answer] | Exception]:
    """Admit everybody in one transaction."""
    if engine.store.room.is_spent:
        raise StorageUnavailable("the disk is full; erasing goes on")
    with engine.unit(tenant) as unit:
        answers = iter(_admit_together(engine, unit, [*chain.from_iterable(groups)]))
        failpoint("add.before_commit")
    failpoint("add.after_commit")
    return [[*islice(answers, len(group))] for group in groups]


def _admit_together(engine: Engine, unit: Unit, arrived: Sequence[_Arrival]) -> list[Answer]:
    """Look at each arrival, then write those that may come in with one statement for all of them."""
    found = admission.known(unit, chain.from_iterable(one.admissions for one in arrived))
    answers: dict[int, Answer] = {}
    fresh: dict[int, list[Standing]] = {}
    for at in _first_calls(arrived):
        try:
            again = retries.recall(engine, unit, arrived[at].caller)
            if again is None:
                fresh[at] = admission.judge(engine, unit, found, arrived[at].admissions)
            else:
                answers[at] = _again(engine, unit, retries.ids(again["ids"]))
        except _ONES_OWN as exc:
            answers[at] = exc
    with suppress(*_ONES_OWN), unit.part():  # whose fault it was comes out below
        answers |= _write(engine, unit, {at: (arrived[at], standings) for at, standings in fresh.items()})
    # Whoever has no answer yet goes alone: the same call made twice, or everybody after a fault.
    return [answers[at] if at in answers else _admit(engine, unit, one) for at, one in enumerate(arrived)]


def _first_calls(arrived: Sequence[_Arrival]) -> list[int]:
    """Return where each call stands first: one made twice with a key waits for what the first comes to."""
    first: dict[object, int] = {}
    for at, one in enumerate(arrived):
        retry = one.caller.retry
        first.setdefault((one.caller.actor, retry.route, retry.key) if retry else at, at)
    return [*first.values()]


def _write(
    engine: Engine, unit: Unit, fresh: Mapping[int, tuple[_Arrival, list[Standing]]]
) -> dict[int, list[Added]]:
    arrivals = [arrival for arrival, _ in fresh.values()]
    admissions = [*chain.from_iterable(one.admissions for one in arrivals)]
    standings = [*chain.from_iterable(several for _, several in fresh.values())]
    actors = [one.caller.actor for one in arrivals for _ in one.admissions]
    added = iter(admission.write(engine, unit, admissions, standings, actor=actors) if fresh else ())
    each = {at: [*islice(added, len(arrival.admissions))] for at, (arrival, _) in fresh.items()}
    for arrival, own in zip(arrivals, each.values(), strict=True):
        _keep(engine, unit, arrival.caller, own)
    return each


def _admit(engine: Engine, unit: Unit, arrival: _Arrival) -> Answer:
    caller = arrival.caller
    try:
        with unit.part():
            again = retries.recall(engine, unit, caller)
            if again is not None:
                return _again(engine, unit, retries.ids(again["ids"]))
            added = admission.admit(engine, unit, arrival.admissions, actor=caller.actor)
            _keep(engine, unit, caller, added)
            return added
    except _ONES_OWN as exc:
        return exc


def _keep(engine: Engine, unit: Unit, caller: Caller, added: Sequence[Added]) -> None:
    ids = [one.memory_id for one in added]
    retries.keep(engine, unit, caller, {"ids": [*ids]}, about=ids)


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
