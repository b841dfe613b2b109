"""A change of model: every memory gets new vectors, and can be found by its words meanwhile. RECALL.md §2."""

from collections.abc import Iterator

from .errors import StartRefused
from .parts import Engine
from .recall.errors import EmbedderFault
from .store import recall
from .upkeep import embed_pending, embedding_backlog


def begin(engine: Engine) -> int:
    """Give all rows to the engine's model, unless they are its already; return how many wait for vectors.

    Raises StartRefused when the model does not work: then the old vectors are kept.
    """
    embedder = engine.embedder
    if embedder is None:
        raise StartRefused("SHOMEI_EMBEDDER is none; name the model that memories shall be embedded by")
    try:
        embedder.self_test()
    except EmbedderFault as fault:
        raise StartRefused("the embedder does not answer; nothing was changed") from fault
    with engine.store.transaction() as connection:
        if recall.embedder_id(connection) != embedder.model_id:
            recall.begin_again(connection, embedder.model_id)
    return embedding_backlog(engine)


def carry_on(engine: Engine, rows_at_once: int) -> Iterator[int]:
    """Make vectors until none is missing or none can be had; yield after each step how many are missing."""
    while embed_pending(engine, rows_at_once):
        yield embedding_backlog(engine)
    yield embedding_backlog(engine)
