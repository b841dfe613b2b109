"""Recall: find memories and show where the answer stands in them. RECALL.md §2-§5, SEMANTICS.md §5."""

import math
from dataclasses import dataclass

from .. import limits, policy
from ..custody import Punctured
from ..errors import IntegrityFault, Invalid
from ..model import Caller, Findings, Found, MemoryId, MemoryRow, Pseudonym, Scope, SourceQuote
from ..parts import Engine
from ..recall.index import Hit
from ..recall.lexical import analyse
from ..recall.passages import quote
from ..store import consents, memories, restrictions, tenants


@dataclass(frozen=True, slots=True)
class _Mask:
    """Which rows a search may consider, as keyed hashes and ids."""

    subject: Pseudonym | None
    allowed: frozenset[MemoryId] | None
    hidden: frozenset[MemoryId]


def search(
    engine: Engine,
    caller: Caller,
    query: str,
    *,
    user_id: str | None = None,
    limit: int = 10,
    min_score: float | None = None,
    semantic_type: str | None = None,
    purpose: str | None = None,
) -> Findings:
    """Return the best recallable memories for a query, best first, each with its verbatim quote.

    Scores lie in 0..1 and compare between queries of one embedder. Raises Invalid or TooLarge when the
    query breaks a limit; an embedder that fails only degrades the answer to words.
    """
    caller.require(Scope.DATA)
    policy.require_query(query)
    policy.require_count(limit, largest=limits.SEARCH_RESULTS)
    if min_score is not None and not (math.isfinite(min_score) and 0 <= min_score <= 1):
        raise Invalid("min_score must lie between 0 and 1")
    mask = _mask(engine, caller, user_id, semantic_type, purpose)
    found = _Search(engine, caller, query, mask).run(limit)
    results = [one for one in found.results if min_score is None or one.score >= min_score]
    engine.audit.note(caller, "search", [one.memory.memory_id for one in results])
    return Findings(results, found.embedder_id, found.degraded)


def _mask(
    engine: Engine, caller: Caller, user_id: str | None, semantic_type: str | None, purpose: str | None
) -> _Mask:
    if user_id is not None:
        policy.require_subject(user_id)
    with engine.reading(caller.tenant) as unit:
        tenant = tenants.get(unit)
        commitments = engine.commitments(tenant)
        subject = commitments.subject(user_id) if user_id is not None else None
        allowed: frozenset[MemoryId] | None = None
        if semantic_type is not None:
            allowed = frozenset(memories.with_semantic_type(unit, commitments.semantic_type(semantic_type)))
        if purpose is not None:
            policy.require_registered(
                [purpose], tenant.policies.purposes, "purpose must be registered for the tenant"
            )
            permitted = frozenset(consents.for_purpose(unit, purpose))
            allowed = permitted if allowed is None else allowed & permitted
        hidden = restrictions.hidden(unit, engine.clock.now())
    return _Mask(subject, allowed, hidden)


class _Search:
    """One search: candidates from the index, each confirmed against the database before it is opened."""

    def __init__(self, engine: Engine, caller: Caller, query: str, mask: _Mask) -> None:
        self._engine = engine
        self._caller = caller
        self._mask = mask
        self._terms = analyse(query)
        self._weights: dict[str, float] = {}
        self._vector, self._degraded = engine.query_vector(query)

    def run(self, limit: int) -> Findings:
        """Fill the limit with rows that are live now; a stale index entry is dropped and replaced."""
        unfit: set[MemoryId] = set()
        while True:
            hits = self._candidates(limit, unfit)
            results, stale = self._confirm(hits)
            if not stale:
                return Findings(results, self._engine.embedder_id, self._degraded)
            unfit |= stale
            self._engine.indexes.discard(self._caller.tenant, sorted(stale))

    def _candidates(self, limit: int, unfit: set[MemoryId]) -> list[Hit]:
        followed = self._engine.indexes.of(self._caller.tenant)
        with followed.lock:
            self._weights = followed.index.weights(self._terms)
            return followed.index.search(
                self._terms,
                self._vector,
                limit=limit,
                subject=self._mask.subject,
                allowed=self._mask.allowed,
                excluded=self._mask.hidden | unfit,
            )

    def _confirm(self, hits: list[Hit]) -> tuple[list[Found], set[MemoryId]]:
        with self._engine.reading(self._caller.tenant) as unit:
            rows = memories.live(unit, [MemoryId(hit.memory_id) for hit in hits])
        results: list[Found] = []
        stale: set[MemoryId] = set()
        for hit in hits:
            found = self._open(hit, rows.get(MemoryId(hit.memory_id)))
            if found is None:
                stale.add(MemoryId(hit.memory_id))
            else:
                results.append(found)
        return results, stale

    def _open(self, hit: Hit, row: MemoryRow | None) -> Found | None:
        if row is None or not policy.is_recallable(row, self._engine.clock.now()):
            return None
        try:
            memory = self._engine.rows.recalled(self._caller.tenant, row)
        except (Punctured, IntegrityFault):
            return None  # erased a moment ago, or not what was sealed: never wrong text (I-16)
        best = quote(memory.content.text, self._weights, hit.passage)
        return Found(
            memory, hit.score, hit.semantic, hit.lexical, SourceQuote(best.text, best.start, best.end)
        )
