"""Recall: find memories and show where the answer stands in them. RECALL.md §2-§5, SEMANTICS.md §5."""

import math
from dataclasses import dataclass

from .. import limits, policy
from ..custody import Punctured
from ..errors import IntegrityFault, Invalid
from ..model import Caller, Findings, Found, MemoryId, MemoryRow, Pseudonym, Scope, SourceQuote
from ..parts import Engine
from ..recall.features import Floats
from ..recall.index import Hit
from ..recall.lexical import analyse
from ..recall.passages import quote
from ..store import consents, memories, recall, restrictions, tenants
from ..store.recall import Place


@dataclass(frozen=True, slots=True)
class _Mask:
    """Which rows a search may consider, as keyed hashes and ids, and how far the tenant had come then."""

    subject: Pseudonym | None
    kind: str | None
    allowed: frozenset[MemoryId] | None
    hidden: frozenset[MemoryId]
    place: Place


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
    if user_id is not None:
        policy.require_subject(user_id)
    if min_score is not None and not (math.isfinite(min_score) and 0 <= min_score <= 1):
        raise Invalid("min_score must lie between 0 and 1")
    vector, degraded = engine.query_vector(caller.tenant, query)
    # Asked last: embedding takes a while, and what was restricted meanwhile is not shown.
    mask = _mask(engine, caller, user_id, semantic_type, purpose)
    shown = _Search(engine, caller, query, vector, mask).run(limit, min_score or 0.0)
    asked = [mask.subject] if mask.subject is not None else []
    ids = [one.memory.memory_id for one in shown]
    engine.audit.note(caller, "search", ids, purpose=purpose, subjects=asked)
    return Findings(shown, engine.embedder_id, degraded)


def _mask(
    engine: Engine, caller: Caller, user_id: str | None, semantic_type: str | None, purpose: str | None
) -> _Mask:
    with engine.reading(caller.tenant) as unit:
        tenant = tenants.get(unit)
        commitments = engine.commitments(tenant)
        subject = commitments.subject(user_id) if user_id is not None else None
        kind = commitments.semantic_type(semantic_type) if semantic_type is not None else None
        allowed: frozenset[MemoryId] | None = None
        if purpose is not None:
            policy.require_registered(
                [purpose], tenant.policies.purposes, "purpose must be registered for the tenant"
            )
            allowed = frozenset(consents.for_purpose(unit, purpose))
        hidden = restrictions.hidden(unit, engine.clock.now())
    return _Mask(subject, kind, allowed, hidden, recall.place_of(tenant))


class _Search:
    """One search: candidates from the index, each confirmed against the database before it is opened."""

    def __init__(
        self, engine: Engine, caller: Caller, query: str, vector: Floats | None, mask: _Mask
    ) -> None:
        self._engine = engine
        self._caller = caller
        self._mask = mask
        self._terms = analyse(query)
        self._weights: dict[str, float] = {}
        self._vector = vector

    def run(self, limit: int, floor: float) -> list[Found]:
        """Fill the limit with rows that are recallable now; each one that is not makes room for the next."""
        unfit: frozenset[MemoryId] = frozenset()
        while True:
            hits = self._candidates(limit, floor, unfit)
            results, stale = self._confirm(hits)
            if not stale:
                return results
            unfit |= stale

    def _candidates(self, limit: int, floor: float, unfit: frozenset[MemoryId]) -> list[Hit]:
        followed = self._engine.indexes.of(self._caller.tenant, self._mask.place)
        hidden = self._mask.hidden | unfit
        with followed.alone():
            self._weights = followed.index.weights(self._terms, hidden)
            return followed.index.search(
                self._terms,
                self._vector,
                limit=limit,
                subject=self._mask.subject,
                kind=self._mask.kind,
                allowed=self._mask.allowed,
                excluded=hidden,
                floor=floor,
            )

    def _confirm(self, hits: list[Hit]) -> tuple[list[Found], frozenset[MemoryId]]:
        """Open what is recallable at this moment; the others are named, and the index loses those gone."""
        with self._engine.reading(self._caller.tenant) as unit:
            rows = memories.live(unit, [MemoryId(hit.memory_id) for hit in hits])
        opened = {hit.memory_id: self._open(hit, rows.get(MemoryId(hit.memory_id))) for hit in hits}
        stale = frozenset(MemoryId(memory_id) for memory_id, found in opened.items() if found is None)
        # A row that lives and is out of recall may come back; its index entry waits for that.
        if gone := stale - rows.keys():
            self._engine.indexes.discard(self._caller.tenant, sorted(gone))
        return [found for found in opened.values() if found is not None], stale

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
