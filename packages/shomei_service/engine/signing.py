"""Which key signs a tenant's receipts now. Its log says so, so a rotation elsewhere is never overlooked."""

import hashlib
from typing import Final

from .errors import SigningFault, StartRefused
from .model import Tenant
from .receipts.bodies import Draft
from .receipts.signer import Available, ReceiptSigner, Signers
from .store import signing
from .store.receipts import ReceiptRow
from .store.signing import Range
from .store.unit import Unit


class Signing:
    """The open signers of one installation; nobody where receipts are not signed."""

    def __init__(self, signers: Signers | None) -> None:
        """Read the seeds; raise StartRefused if there are none."""
        self.signers: Final = signers
        self._state: object = signers.state() if signers else None
        self._available: Available | None = signers.read() if signers else None

    @property
    def available(self) -> Available | None:
        """Who can sign in this process, as far as it knows."""
        return self._available

    @property
    def current(self) -> ReceiptSigner | None:
        """Who signs, or will as soon as the rotation under way has come to each log."""
        return self._available.newest if self._available else None

    def refresh(self) -> None:
        """Take up seeds that another process made or destroyed; raise SigningFault if they cannot be read."""
        if self.signers is None:
            return
        try:
            state = self.signers.state()
            if state != self._state:
                self._available = self.signers.read()
                self._state = state
        except (StartRefused, OSError) as exc:
            raise SigningFault("the signer key cannot be read") from exc

    def of(self, unit: Unit, tenant: Tenant) -> ReceiptSigner | None:
        """Return who signs the next receipts of the tenant's log, and write down where a key begins.

        Raises SigningFault when the log is at a key that is gone: recovery and upkeep move it on.
        """
        if self._available is None:
            return None
        at = signing.latest(unit, tenant.log_origin)
        found = self._available.find(at) if at else None
        if found is not None:
            return found
        self.refresh()
        if at is None:
            self.begin(unit, tenant, self._available.newest)
            return self._available.newest
        found = self._available.find(at)
        if found is None:
            raise SigningFault("the log is signed by a key that is retired; it is being moved on")
        return found

    def begin(self, unit: Unit, tenant: Tenant, signer: ReceiptSigner) -> None:
        """Let this key sign the tenant's log from the next receipt on."""
        new = Range(tenant.log_origin, tenant.next_seq, signer.signer_id, signer.public_key_hex)
        signing.begin(unit, new)

    def probe(self) -> None:
        """Raise SigningFault if the signer cannot sign; asked before anything is destroyed."""
        if self.current is not None and not self.current.sign(b"shomei/v1/probe"):
            raise SigningFault("the signer could not sign")


def signed(signer: ReceiptSigner | None, text: str, draft: Draft, origin: str, seq: int) -> ReceiptRow:
    """Return a receipt as it is stored: its canonical text, and the signature where there is a signer."""
    octets = text.encode()
    return ReceiptRow(
        origin=origin,
        seq=seq,
        schema=draft.schema.value,
        memory_id=draft.about,
        receipt_hash="sha256:" + hashlib.sha256(octets).hexdigest(),
        body=text,
        signer_id=signer.signer_id if signer else None,
        public_key_hex=signer.public_key_hex if signer else None,
        signature_hex=signer.sign(octets).hex() if signer else None,
    )
