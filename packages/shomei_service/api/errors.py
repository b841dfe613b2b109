"""What the engine's refusals and faults look like over HTTP: the one table of statuses. CONTRACT.md §2."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from ..engine import errors
from ..engine.errors import EngineError, Fault, Invalid, Refusal
from ..engine.model import Json
from .replies import Reply, reply

RETRY_AFTER_SECONDS: Final = b"2"
DETAIL_CHARACTERS: Final = 200
_PROBLEMS_SHOWN: Final = 3
_INTERNAL: Final = "the service could not do this; its log has the request id"


class TooDeep(Invalid):
    """The JSON is nested deeper, or holds more members, than the contract allows."""

    code = "too_deep"


class TooSlow(Refusal):
    """The body did not arrive in time."""

    code = "invalid_request"


class TooOften(Refusal):
    """A key, or somebody without one, asks more often than is allowed; it says when to come back."""

    code = "rate_limited"

    def __init__(self, message: LiteralString, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.seconds: int = max(1, math.ceil(seconds))


class NoSuchMethod(Refusal):
    """The route exists, but not with this method."""

    code = "unsupported"


class Busy(Fault):
    """More work is waiting than the service will hold."""

    code = "rate_limited"


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule: a field of ours (never a name the caller made up) and a sentence of ours."""

    field: str
    rule: str


class Malformed(Invalid):
    """The body or query breaks rules of shape; it says which, and never what was sent."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("the request does not have the shape this route takes")
        self.problems: tuple[Problem, ...] = tuple(problems)


STATUS: Final[Mapping[type[EngineError], int]] = {
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    NoSuchMethod: 405,
    TooSlow: 408,
    errors.Blocked: 409,
    errors.ErasureInProgress: 409,
    errors.RowDamaged: 409,
    errors.ConfirmRequired: 409,
    errors.IdempotencyInFlight: 409,
    errors.TooLarge: 413,
    errors.Invalid: 422,
    Malformed: 422,
    TooDeep: 422,
    errors.IdempotencyMismatch: 422,
    errors.Held: 423,
    TooOften: 429,
    errors.Unsupported: 501,
    errors.LineageUnsupported: 501,
    errors.CustodyUnavailable: 503,
    errors.StorageUnavailable: 503,
    errors.ErasurePending: 503,
    errors.AuditUnavailable: 503,
    Busy: 503,
    Fault: 500,  # any other IntegrityFault, SigningFault, EgressFault, and whatever custody keeps to itself
}

_HEADERS: Final[Mapping[int, tuple[tuple[bytes, bytes], ...]]] = {
    401: ((b"www-authenticate", b"Bearer"),),
    408: ((b"connection", b"close"),),
    503: ((b"retry-after", RETRY_AFTER_SECONDS),),
}


def status_of(error: EngineError) -> int:
    """Return the HTTP status of an error; a class not listed itself takes its nearest parent's."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def refuse(error: EngineError, request_id: str, fields: Mapping[str, Json] | None = None) -> Reply:
    """Answer with the error's status, code and fixed sentence, and the verb's own fields beside them."""
    status = status_of(error)
    if isinstance(error, errors.ConfirmRequired):
        fields = {**(fields or {}), "pending_erasures": error.pending_erasures}
    code, detail = ("internal", _INTERNAL) if status == 500 else (error.code, _detail(error))
    wait = ((b"retry-after", str(error.seconds).encode()),) if isinstance(error, TooOften) else ()
    return problem(status, code, detail, request_id, fields=fields, headers=wait)


def crash(request_id: str) -> Reply:
    """Answer for a fault nobody foresaw."""
    return problem(500, "internal", _INTERNAL, request_id)


def problem(
    status: int,
    code: str,
    detail: str,
    request_id: str,
    *,
    fields: Mapping[str, Json] | None = None,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> Reply:
    """Write the error body every route shares."""
    body = {"code": code, "detail": detail[:DETAIL_CHARACTERS], "request_id": request_id, **(fields or {})}
    return reply(body, status=status, headers=(*_HEADERS.get(status, ()), *headers))


def _detail(error: EngineError) -> str:
    if not isinstance(error, Malformed):
        return error.message
    shown = [f"{each.field}: {each.rule}" for each in error.problems[:_PROBLEMS_SHOWN]]
    unseen = len(error.problems) - len(shown)
    return "; ".join([*shown, f"and {unseen} more"] if unseen else shown)


def malformed(field: LiteralString, rule: LiteralString) -> Malformed:
    """Return the refusal for one broken rule."""
    return Malformed([Problem(field, rule)])
