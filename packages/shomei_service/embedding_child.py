"""The other end of the pipe: a model alone, with as little around it as runs it.

    python -m shomei_service.embedding_child NAME PRIORITY

Frames go both ways: what it is, how many octets follow, the octets. Asked is a text in UTF-8, told is a
vector in little-endian float32. The first frame says that the model is the one expected.
"""

import os
import struct
import sys
from typing import IO, Final

from .engine import core_dumps
from .engine.recall.embedder import build_embedder
from .engine.recall.errors import EmbedderFault

HEAD: Final = struct.Struct("<BI")
QUERY: Final = 1
PASSAGE: Final = 2
OK: Final = 0
FAILED: Final = 1


def serve(name: str, asked: IO[bytes], told: IO[bytes]) -> None:
    """Answer until the pipe ends. Raise EmbedderFault when the model is not there or not the one expected."""
    embedder = build_embedder(name)
    if embedder is None:
        raise EmbedderFault("no embedder has that name")
    embedder.self_test()
    told.write(HEAD.pack(OK, 0))
    while len(head := asked.read(HEAD.size)) == HEAD.size:
        kind, size = HEAD.unpack(head)
        text = asked.read(size).decode()
        try:
            vector = embedder.query(text) if kind == QUERY else embedder.passages([text])[0]
        except EmbedderFault:
            told.write(HEAD.pack(FAILED, 0))
        else:
            octets = vector.astype("<f4").tobytes()
            told.write(HEAD.pack(OK, len(octets)) + octets)


if __name__ == "__main__":
    core_dumps.switch_off()  # a model may crash on a text, and the text is somebody's
    _answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a package prints is no answer
    os.nice(int(sys.argv[2]))
    serve(sys.argv[1], sys.stdin.buffer, _answers)
