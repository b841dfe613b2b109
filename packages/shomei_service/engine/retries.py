"""The same call made again: one effect, the same result. SEMANTICS.md §16, after the IETF draft.

A result is kept in the transaction of its effect, so a crash leaves both or neither. It holds ids, hashes and
counts; what the caller is shown is rebuilt from the rows and the log, so nothing erased comes back.
"""

import json
from collections.abc import Sequence

from .errors import IdempotencyInFlight, IdempotencyMismatch
from .model import Attested, Caller, Json, JsonObject, MemoryId
from .parts import Engine
from .store import receipts, replays, tenants
from .store.replays import Replay
from .store.unit import Unit


def recall(engine: Engine, unit: Unit, caller: Caller) -> JsonObject | None:
    """Return what the same call came to before; None if it is new or carries no key.

    Raises IdempotencyMismatch when the key was used with another body, IdempotencyInFlight while another
    thread is still carrying the first call out.
    """
    retry = caller.retry
    if retry is None:
        return None
    commitments = engine.commitments(tenants.get(unit))
    kept = replays.find(unit, caller.actor, retry.route, commitments.retry_key(retry.key))
    if kept is None:
        return None
    if kept.fingerprint is not None and kept.fingerprint != commitments.request_body(retry.body):
        raise IdempotencyMismatch("this Idempotency-Key was used with another request")
    result: JsonObject = json.loads(kept.result)
    intent_id = result.get("intent")
    if isinstance(intent_id, str) and (
        engine.flights.is_flying(intent_id) or engine.duties.is_elsewhere(unit, intent_id)
    ):
        raise IdempotencyInFlight("the same request is still being carried out")
    return result


def keep(
    engine: Engine, unit: Unit, caller: Caller, result: JsonObject, *, about: Sequence[MemoryId] = ()
) -> None:
    """Keep the call's content-free result; `about` names the memories whose text its body held."""
    retry = caller.retry
    if retry is None:
        return
    commitments = engine.commitments(tenants.get(unit))
    replays.put(
        unit,
        Replay(
            actor=caller.actor,
            route=retry.route,
            key_hmac=commitments.retry_key(retry.key),
            fingerprint=commitments.request_body(retry.body),
            result=json.dumps(result),
            created_at=engine.clock.now(),
        ),
        about,
    )


def text(value: Json) -> str:
    """Return a field that `keep` wrote as a string."""
    assert isinstance(value, str), "a kept result has the form its verb gave it"  # noqa: S101
    return value


def texts(value: Json) -> list[str]:
    """Return a field that `keep` wrote as a list of strings."""
    assert isinstance(value, list), "a kept result has the form its verb gave it"  # noqa: S101
    return [text(one) for one in value]


def ids(value: Json) -> list[MemoryId]:
    """Return a field that `keep` wrote as a list of memory ids."""
    return [MemoryId(one) for one in texts(value)]


def count(value: Json) -> int:
    """Return a field that `keep` wrote as a number."""
    assert isinstance(value, int), "a kept result has the form its verb gave it"  # noqa: S101
    return value


def statement(unit: Unit, receipt_hash: Json) -> Attested | None:
    """Return the receipt whose hash was kept; None where none was."""
    if receipt_hash is None:
        return None
    return receipts.of_hashes(unit, [text(receipt_hash)])[text(receipt_hash)]
