"""What can go wrong in recall. Fixed words only: no text, no query, no id."""


class RecallError(Exception):
    """The root of recall's errors."""


class EmbedderFault(RecallError):
    """The embedder cannot be used now: search by words, and say so."""


class FeaturesMalformed(RecallError):
    """Stored features are of another version, cut or damaged: analyse the text again."""


class IndexFull(RecallError):
    """The tenant has more rows than one index can number."""
