"""What custody refuses with beyond the engine's own faults."""

from ..errors import Fault, IntegrityFault, StartRefused


class Punctured(Fault):
    """The leaf was erased: no seed that could lead to it exists any more."""

    code = "key_unavailable"


class KeyGone(Fault):
    """The provider no longer holds, or no longer lets use, the named epoch key."""

    code = "key_unavailable"


class CustodyMismatch(StartRefused):
    """Custody is not the one this database belongs with, or not its newest state; nothing was touched."""


class Exhausted(Fault):
    """The address space of tenants or of one tenant's rows is used up."""

    code = "quota_exceeded"


class BlobMissing(IntegrityFault):
    """A blob of the tree is not where its parent says: another process replaced it, or it was lost."""


class RecordAltered(IntegrityFault):
    """The custody store's records are not what this installation wrote."""
