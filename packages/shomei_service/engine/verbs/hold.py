"""Legal holds: erasure forbidden, and what was owed meanwhile done on release. SEMANTICS.md §7."""

from dataclasses import dataclass

from .. import disposal, hold_end, limits, policy, retries
from ..custody.keytree import Address
from ..custody.sealing import Column, RowPlace, new_row
from ..disposal import Disposed
from ..errors import ErasureInProgress, Invalid
from ..failpoints import failpoint
from ..model import (
    Attested,
    Authority,
    Caller,
    Hold,
    HoldScope,
    JsonObject,
    Life,
    MemoryId,
    Release,
    Scope,
    Tenant,
    new_id,
)
from ..parts import Engine
from ..receipts import bodies
from ..store import holds, memories, obligations, tenants
from ..store.holds import SealedMatter
from ..store.unit import Unit

_MATTER_BYTES = 1024


@dataclass(frozen=True, slots=True)
class NewHold:
    """What a caller asks to preserve: one memory or a subject, on whose authority, until when."""

    authority: Authority
    memory_id: str | None = None
    user_id: str | None = None
    matter_ref: str | None = None
    review_at: int | None = None
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """The answer to a hold that was placed."""

    hold: Hold
    receipt: Attested


@dataclass(frozen=True, slots=True)
class Released:
    """The answer to a release: its receipt, and what it set in motion."""

    hold_id: str
    receipt: Attested
    disposed: Disposed


def place(engine: Engine, caller: Caller, new: NewHold) -> Held:
    """Forbid the erasure of a memory, or of everything a subject has and will have.

    Raises NotFound for an unknown memory, ErasureInProgress when its erasure has begun, Invalid otherwise.
    """
    caller.require(Scope.ADMIN)
    if (new.memory_id is None) == (new.user_id is None):
        raise Invalid("a hold is about a memory or about a subject")
    with engine.reading(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            return _placed_again(unit, again)
        tenant = tenants.get(unit)
    now = engine.clock.now()
    if new.expires_at is not None and new.expires_at <= now:
        raise Invalid("expires_at must be a time to come, in seconds since the epoch")
    policy.require_reference(
        new.matter_ref, largest=_MATTER_BYTES, message="matter_ref must be 1 to 1024 bytes"
    )
    if new.user_id is not None:
        policy.require_subject(new.user_id)
    hold_id = new_id("hold_")
    commitments = engine.commitments(tenant)
    matter = _sealed(engine, tenant, hold_id, new.matter_ref) if new.matter_ref else None
    matter_hmac = commitments.matter(hold_id, new.matter_ref) if new.matter_ref else None
    with engine.unit(caller.tenant) as unit:
        again = retries.recall(engine, unit, caller)
        if again is not None:
            return _placed_again(unit, again)
        hold = Hold(
            hold_id=hold_id,
            scope=HoldScope.MEMORY if new.memory_id is not None else HoldScope.SUBJECT,
            memory_id=_target(unit, new.memory_id) if new.memory_id is not None else None,
            subject=commitments.subject(new.user_id) if new.user_id is not None else None,
            authority=new.authority,
            placed_by=caller.actor,
            placed_at=now,
            review_at=new.review_at,
            expires_at=new.expires_at,
            released_at=None,
            release=None,
        )
        _journal_placed(engine, unit, hold, matter_hmac)
        holds.put(unit, hold, matter_ref_hmac=matter_hmac, matter=matter)
        draft = bodies.legal_hold(
            hold, action="placed", code=new.authority.value, matter_ref_hmac=matter_hmac, obligations_fired=0
        )
        receipt = engine.attest(unit, [draft], actor=caller.actor)[0]
        retries.keep(engine, unit, caller, {"hold": hold_id, "receipt": receipt.receipt_hash})
    return Held(hold, receipt)


@dataclass(frozen=True, slots=True)
class HoldPage:
    """Holds, oldest first, and after which the next page starts."""

    holds: list[Hold]
    next_cursor: str | None


def page(
    engine: Engine, caller: Caller, *, cursor: str | None = None, limit: int = limits.PAGE_ROWS
) -> HoldPage:
    """Return holds, open and released; matters stay sealed. Raise Invalid for a limit out of range."""
    caller.require(Scope.ADMIN)
    policy.require_count(limit, largest=limits.PAGE_ROWS)
    with engine.reading(caller.tenant) as unit:
        found = holds.page(unit, cursor, limit + 1)
    return HoldPage(found[:limit], found[limit - 1].hold_id if len(found) > limit else None)


def release(
    engine: Engine, caller: Caller, hold_id: str, code: Release, *, confirm: bool = False
) -> Released:
    """End a hold; erasures it was the last to forbid begin in the same transaction and are carried out.

    Raises NotFound, also for a hold that is over; ConfirmRequired when erasures would fire unconfirmed;
    ErasurePending when they have begun and will finish by themselves.
    """
    caller.require(Scope.ADMIN)
    with engine.flights.reserved() as intent_id:
        with engine.unit(caller.tenant) as unit:
            again = retries.recall(engine, unit, caller)
            if again is not None:
                receipt = _statement(unit, again)
                begun, going = retries.text(again["intent"]), retries.ids(again["ids"])
                waiting = retries.texts(again["requests"])
            else:
                begun = intent_id
                receipt, going = hold_end.let_go(
                    engine, unit, hold_id, code, intent_id, actor=caller.actor, confirm=confirm
                )
                waiting = obligations.waiting_for(unit, going)
                kept: JsonObject = {
                    "intent": intent_id,
                    "ids": [*going],
                    "requests": [*waiting],
                    "receipt": receipt.receipt_hash,
                }
                retries.keep(engine, unit, caller, kept)
        failpoint("hold.release_commit")
        disposed = Disposed([], {})
        if going:
            disposed = disposal.fulfil(engine, caller.tenant, begun, going, waiting)
    return Released(hold_id, receipt, disposed)


def _statement(unit: Unit, kept: JsonObject) -> Attested:
    receipt = retries.statement(unit, kept["receipt"])
    assert receipt is not None, "every hold and release has its receipt"  # noqa: S101
    return receipt


def _placed_again(unit: Unit, kept: JsonObject) -> Held:
    hold = holds.lock(unit, retries.text(kept["hold"]))
    assert hold is not None, "a hold is never deleted"  # noqa: S101
    return Held(hold, _statement(unit, kept))


def _target(unit: Unit, memory_id: str) -> MemoryId:
    row = memories.lock(unit, memory_id)
    if row is not None and row.life is Life.ERASING:
        raise ErasureInProgress("the erasure of this memory has begun; it can not be held any more")
    return policy.require_present(row).memory_id


def _sealed(engine: Engine, tenant: Tenant, hold_id: str, matter_ref: str) -> SealedMatter:
    """Seal the operator's words under a leaf of their own, as a row is. CUSTODY.md §3."""
    address: Address = engine.slots.take(tenant.number)
    place = RowPlace(engine.custody.installation_id, tenant.tenant_id, hold_id, 1)
    keys, sealed_dek = new_row(engine.custody.derive(address), place)
    return SealedMatter(address, sealed_dek, keys.seal(Column.CONTENT, matter_ref.encode()))


def _journal_placed(engine: Engine, unit: Unit, hold: Hold, matter_hmac: str | None) -> None:
    times = {"review_at": hold.review_at, "expires_at": hold.expires_at}
    codes: dict[str, str | int] = {
        "scope": hold.scope.value,
        "authority": hold.authority.value,
        "placed_by": hold.placed_by,
        **{name: at for name, at in times.items() if at is not None},
        **({"matter": matter_hmac} if matter_hmac is not None else {}),
    }
    ids = [hold.hold_id] if hold.memory_id is None else [hold.hold_id, hold.memory_id]
    engine.journal(unit, "hold_placed", ids, pseudonym=hold.subject, codes=codes)
