"""All that the engine says no with: a Refusal the caller can act on, a Fault the operator must. STYLE.md §6.

Messages are literals: what varies travels as a code or an opaque id, never as text, so no memory,
subject or query can reach a log or a reply through an exception.
"""

from typing import ClassVar, LiteralString


class EngineError(Exception):
    """Carry a stable code (SEMANTICS.md §20) and one fixed sentence."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: LiteralString) -> None:
        super().__init__(message)
        self.message: str = message


class Refusal(EngineError):
    """The caller asked for something that is not to be had; asking differently may help."""


class Fault(EngineError):
    """The service cannot do its part; the operator has to look."""


class NotFound(Refusal):
    """Unknown, another tenant's, or already erased: one answer for the three."""

    code = "not_found"


class Held(Refusal):
    """A legal hold forbids destruction."""

    code = "held"


class ErasureInProgress(Refusal):
    """The memory's erasure has begun and can not be stopped."""

    code = "erasure_in_progress"


class ConfirmRequired(Refusal):
    """The act would set erasures in motion and was not confirmed."""

    code = "confirm_required"

    def __init__(self, message: LiteralString, *, pending_erasures: int) -> None:
        super().__init__(message)
        self.pending_erasures: int = pending_erasures


class IdempotencyMismatch(Refusal):
    """The Idempotency-Key was used before, with another request."""

    code = "idempotency_mismatch"


class IdempotencyInFlight(Refusal):
    """The same request, under the same key, is being carried out now."""

    code = "idempotency_in_flight"


class Blocked(Refusal):
    """Restricted, consent-invalid or expired: one answer for the three. SEMANTICS.md §4."""

    code = "blocked"


class Forbidden(Refusal):
    """The key is genuine but its scope does not reach this verb."""

    code = "forbidden_scope"


class Unauthenticated(Refusal):
    """No key, an unknown key or a revoked one."""

    code = "unauthenticated"


class Invalid(Refusal):
    """The request breaks a rule of shape or size that the contract states."""

    code = "invalid_request"


class TooLarge(Refusal):
    """The request is larger than a stated limit."""

    code = "payload_too_large"


class Unsupported(Refusal):
    """This installation does not offer the verb."""

    code = "unsupported"


class LineageUnsupported(Unsupported):
    """Lineage is switched off."""

    code = "lineage_unsupported"


class CustodyUnavailable(Fault):
    """Key custody does not answer; nothing was changed."""

    code = "custody_unavailable"


class StorageUnavailable(Fault):
    """The database does not answer or is full; nothing was changed."""

    code = "storage_unavailable"


class AuditUnavailable(Fault):
    """The read audit can not be written, so nothing may be read."""

    code = "audit_unavailable"


class ErasurePending(Fault):
    """The erasure is durable and will finish by itself; it has not finished yet."""

    code = "erasure_pending"


class StartRefused(Fault):
    """Opening would put data at risk, so nothing was opened and nothing was changed."""

    code = "start_refused"


class IntegrityFault(Fault):
    """Stored bytes are not what was sealed."""

    code = "integrity_error"


class RowDamaged(IntegrityFault):
    """One memory's stored bytes are not what was sealed: it is out of recall, and can still be erased."""


class SigningFault(Fault):
    """The signer could not sign."""

    code = "signing_fault"


class EgressFault(Fault):
    """A receipt body would have carried something that is not content-free."""

    code = "egress_fault"
