"""Say who signs the receipts, and who signed which part of the log before. CONTRACT.md §1."""

from dataclasses import dataclass

from ..errors import Unsupported
from ..model import Caller, Scope
from ..parts import Engine
from ..store import signing
from ..store.signing import Retired


@dataclass(frozen=True, slots=True)
class Shown:
    """The signing key, and the parts of the tenant's logs that retired keys signed."""

    signer_id: str
    public_key_hex: str
    retired: list[Retired]


def show(engine: Engine, caller: Caller) -> Shown:
    """Return the keys of the tenant's log. Raises Unsupported where receipts are not signed."""
    caller.require(Scope.DATA)
    signer = engine.signer
    if signer is None:
        raise Unsupported("this installation does not sign its receipts")
    with engine.reading(caller.tenant) as unit:
        retired = signing.retired(unit, signer.signer_id)
    return Shown(signer.signer_id, signer.public_key_hex, retired)
