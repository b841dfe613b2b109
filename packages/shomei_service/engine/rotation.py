"""Keys that follow one another, and the receipts that say so. RECEIPTS.md §3, RELIABILITY T-15.

A signer's rotation is begun by making the seed to come. From then on it rolls forward: each tenant's log gets
a statement, signed by the old key as its last, and the new key signs what follows; when every log has come to
it the old seed is destroyed. A rotation of custody is done in custody; here each tenant is told. A tenant's
commitment key is followed by another leaf of the tree, in one transaction; nothing is ever made anew.
"""

from dataclasses import dataclass
from typing import Final

from .custody import Destruction, Rotated, address
from .custody.providers.protocol import Provider
from .custody.vault import RESERVED_ROWS
from .errors import Invalid, Unsupported
from .failpoints import failpoint
from .model import SYSTEM_ACTOR, JsonObject, Tenant, TenantId, new_id
from .parts import Engine
from .receipts import log_bodies
from .receipts.bodies import Draft
from .receipts.signer import ReceiptSigner
from .store import commitments, signing, tenants
from .store.commitments import KeyRange
from .store.unit import Unit

LINE: Final = "signer_rotated"
COMMITMENT_LINE: Final = "commitment_key_rotated"
ORIGIN: Final = "shomei/"  # what the journal's words leave out of a log's name


@dataclass(frozen=True, slots=True)
class SignerRotation:
    """Which key was followed by which."""

    old_id: str
    new_id: str
    new_public_key_hex: str


@dataclass(frozen=True, slots=True)
class CommitmentRotation:
    """Which key of a tenant was followed by which, and whether by this call."""

    old_id: str
    new_id: str
    is_new: bool


def rotate_signer(engine: Engine) -> SignerRotation:
    """Make a new signing key, let it sign every log from here on, and destroy the old one.

    Raises Unsupported where receipts are not signed, SigningFault when the old key can not sign its last
    statement: then nothing is lost, and upkeep goes on with it.
    """
    signers = engine.signing.signers
    if signers is None:
        raise Unsupported("this installation does not sign its receipts")
    before = signers.read().current
    signers.prepare()
    failpoint("rot.mid")
    engine.signing.refresh()
    now = engine.signing.current
    assert now is not None, "what was just prepared is there"  # noqa: S101
    finish_signer(engine)
    return SignerRotation(before.signer_id, now.signer_id, now.public_key_hex)


def rotate_custody(engine: Engine) -> Destruction:
    """Move to a fresh epoch key now, and tell every tenant. Raises CustodyUnavailable as an erase does."""
    destroyed = engine.custody.rotate(now=engine.clock.now())
    failpoint("rot.mid")
    state_custody(engine)
    return destroyed


def move_custody(engine: Engine, goal: Provider) -> Destruction:
    """Put custody's tree under a key of another provider, and tell every tenant; no row is sealed anew."""
    destroyed = engine.custody.move(goal, now=engine.clock.now())
    failpoint("rot.mid")
    state_custody(engine)
    return destroyed


def rotate_commitment_key(
    engine: Engine, tenant_id: TenantId, *, after: str | None = None
) -> CommitmentRotation:
    """Let the tenant's receipts commit to sets under a new key from here on; what names things stays.

    With `after`, only that key is followed: where another follows it already, nothing is done. Raises
    Invalid if it is neither, Unsupported when no leaf is left, CustodyUnavailable when nothing can be kept.
    """
    lines = engine.custody.journal_after(0, COMMITMENT_LINE)
    spoken_of = [int(line.codes["leaf"]) for line in lines if line.tenant == tenant_id]
    with engine.unit(tenant_id) as unit:
        old_id, known = tenants.get(unit).commit_key_id, commitments.leaves(unit)
        if after is not None and after != old_id:
            if after not in known or [*known].index(after) + 1 != [*known].index(old_id):
                raise Invalid("that is neither the commitment key in use nor the one before it")
            return CommitmentRotation(after, old_id, is_new=False)
        leaf = max([*known.values(), *spoken_of]) + 1  # also of a rotation that a death left undone here
        if leaf >= RESERVED_ROWS:
            raise Unsupported("every leaf that is kept for this tenant's keys is used")
        new_key_id = new_id("ck_")
        follow_commitment_key(engine, unit, new_key_id, leaf)
    failpoint("rot.mid")
    return CommitmentRotation(old_id, new_key_id, is_new=True)


def follow_commitment_key(engine: Engine, unit: Unit, key_id: str, leaf: int) -> None:
    """State, under the old key, that another follows, and let receipts name that one from the next on."""
    tenant = tenants.get(unit)
    engine.custody.derive(address(tenant.number, leaf))  # it is there before anything stands on it
    draft = log_bodies.key_rotation(role="commit", old=tenant.commit_key_id, new=key_id)
    engine.attest(unit, [draft], actor=SYSTEM_ACTOR)
    engine.journal(unit, COMMITMENT_LINE, [key_id], codes={"old": tenant.commit_key_id, "leaf": leaf})
    failpoint("rot.mid")
    now = tenants.get(unit)
    follows = KeyRange(now.log_origin, now.next_seq, key_id, leaf)
    commitments.begin(unit.connection, unit.tenant, follows)
    commitments.set_current(unit, key_id)


def finish(engine: Engine) -> None:
    """Finish whatever rotation was begun, here or in another process."""
    engine.signing.refresh()
    finish_signer(engine)
    state_custody(engine)


def finish_signer(engine: Engine) -> None:
    """Bring every log to the newest key, and then destroy the others."""
    available, signers = engine.signing.available, engine.signing.signers
    if available is None or signers is None:
        return
    new = available.newest
    with engine.store.snapshot() as connection:
        behind = signing.not_at(connection, new.signer_id)
    for tenant_id in behind:
        with engine.unit(tenant_id) as unit:
            _bring(engine, unit, new)
        failpoint("rot.mid")
    if available.coming is not None:
        signers.promote()
        failpoint("rot.mid")
        engine.signing.refresh()


def _bring(engine: Engine, unit: Unit, new: ReceiptSigner) -> None:
    """State in the tenant's log that another key follows, and let it sign from there on."""
    tenants.lock(unit)
    tenant = tenants.get(unit)
    old_id = signing.latest(unit, tenant.log_origin)
    if old_id is None or old_id == new.signer_id:
        return  # another process was first
    draft = signer_follows(old_id, new)
    available = engine.signing.available
    if available is not None and available.find(old_id) is not None:
        engine.attest(unit, [draft], actor=SYSTEM_ACTOR)
        tell(engine, unit, old_id, new)
        engine.signing.begin(unit, tenants.get(unit), new)
        return
    # The old seed is gone, as after a restore: the new key has to say it.
    tell(engine, unit, old_id, new)
    engine.signing.begin(unit, tenant, new)
    engine.attest(unit, [draft], actor=SYSTEM_ACTOR)


def tell(engine: Engine, unit: Unit, old_id: str, new: ReceiptSigner) -> None:
    """Let custody remember the new key, so that a restored database lists it when it is retired too."""
    tenant = tenants.get(unit)
    codes: dict[str, str | int] = {
        "log": tenant.log_origin.removeprefix(ORIGIN),
        "first_seq": tenant.next_seq,
        "old": old_id,
        "new": new.signer_id,
        "key": new.public_key_hex,
    }
    engine.journal(unit, LINE, codes=codes)


def signer_follows(old_id: str, new: ReceiptSigner) -> Draft:
    """Return the statement that one signing key follows another."""
    more: JsonObject = {"new_public_key_hex": new.public_key_hex}
    return log_bodies.key_rotation(role="signer", old=old_id, new=new.signer_id, more=more)


def state_custody(engine: Engine) -> None:
    """Give every tenant its receipt of each rotation of custody since the last it has one of."""
    with engine.store.snapshot() as connection:
        rotations = engine.custody.rotations_after(signing.least_stated(connection))
        everyone = tenants.everyone(connection) if rotations else []
    for tenant in everyone:
        _state(engine, tenant, rotations)


def _state(engine: Engine, tenant: Tenant, rotations: list[Rotated]) -> None:
    with engine.unit(TenantId(tenant.tenant_id)) as unit:
        tenants.lock(unit)
        stated = signing.stated(unit)
        owed = [one for one in rotations if one.epoch > stated and one.at >= tenant.created_at]
        engine.attest(unit, [_custody_follows(one) for one in owed], actor=SYSTEM_ACTOR)
        signing.set_stated(unit, max(stated, rotations[-1].epoch))
    failpoint("rot.mid")


def _custody_follows(rotated: Rotated) -> Draft:
    old = f"{rotated.old_custody}:{rotated.epoch - 1}"
    return log_bodies.key_rotation(role="custody", old=old, new=f"{rotated.new_custody}:{rotated.epoch}")
