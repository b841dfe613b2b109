"""Recall by meaning and words. CONTRACT.md §1, RECALL.md §4-§5."""

from typing import Final

from ...engine.model import Findings, Found, Scope
from ...engine.verbs import search
from ..answers import Result, SearchAnswer
from ..exchange import Ask, Operation
from ..lanes import Lane
from ..schemas import SearchBody, SearchQuery


def search_memories(ask: Ask[SearchBody, SearchQuery]) -> SearchAnswer:
    """Find the memories that answer a query."""
    body = ask.body
    findings = search.search(
        ask.engine,
        ask.caller,
        body.query,
        user_id=body.user_id,
        limit=body.limit,
        min_score=body.min_score,
        semantic_type=body.semantic_type,
        purpose=body.purpose,
    )
    explain = ask.query.explain == "true"
    answer = SearchAnswer(results=[_result(one, findings, explain=explain) for one in findings.results])
    if findings.degraded:
        answer["degraded"] = True
    return answer


def _result(found: Found, findings: Findings, *, explain: bool) -> Result:
    content = found.memory.content
    written = Result(
        id=found.memory.memory_id,
        memory=content.text,
        user_id=content.user_id,
        score=found.score,
        quote={"text": found.quote.text, "start": found.quote.start, "end": found.quote.end},
        semantic_type=content.semantic_type,
        created_at=found.memory.created_at,
    )
    if explain:
        written["score_details"] = {
            "semantic": found.semantic,
            "lexical": found.lexical,
            "embedder_id": findings.embedder_id,
            "degraded": findings.degraded,
        }
    return written


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/search",
        scope=Scope.DATA,
        act=search_memories,
        answer=SearchAnswer,
        body=SearchBody,
        query=SearchQuery,
        lane=Lane.RECALL,
    ),
)
