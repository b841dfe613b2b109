"""One run of the verbs in a process of its own, which says each step aloud the moment it is acknowledged.

`python -m tests.crash.scenario` serves runs: a line of JSON in, a forked child that does as told, a line
with its exit code out. One interpreter start serves them all.
"""

import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shomei_service import bootstrap
from shomei_service.engine import failpoints
from shomei_service.engine.model import Basis, NewMemory
from shomei_service.engine.verbs import access
from shomei_service.engine.verbs.add import add
from shomei_service.engine.verbs.erase import erase
from shomei_service.engine.verbs.forget import forget
from shomei_service.engine.verbs.search import search
from shomei_service.settings import Settings

Step = list[str]


@dataclass(frozen=True, slots=True)
class Order:
    """Which installation to open, what to do there, and where to die."""

    home: str
    token: str
    failpoints: str
    steps: list[Step]
    said: str
    errors: str
    logs: bool = False


def run(order: Order) -> None:
    """Open the home and do the steps; what is said is written before the next step begins."""
    settings = Settings(home=Path(order.home), embedder="none", failpoints=order.failpoints)
    if order.logs:
        logging.basicConfig(level=logging.DEBUG, force=True)
        logging.getLogger("sqlalchemy").setLevel(logging.DEBUG)  # every statement and every row
    with Path(order.said).open("ab", buffering=0) as said, bootstrap.opened(settings) as engine:

        def say(**line: Any) -> None:
            said.write(json.dumps(line).encode() + b"\n")

        say(opened=True)
        caller = access.authenticate(engine, order.token)
        for verb, *words in order.steps:
            say(asked=verb, words=words)
            match verb:
                case "add":
                    say(did=verb, id=add(engine, caller, _new(*words)).memory_id)
                case "search":
                    findings = search(engine, caller, words[0], user_id=words[1])
                    say(did=verb, ids=[one.memory.memory_id for one in findings.results])
                case "erase":
                    proof = erase(engine, caller, words[0], Basis.SUBJECT_REQUEST)
                    say(did=verb, receipt=proof.receipt.receipt_hash)
                case "forget":
                    forgotten = forget(engine, caller, words[0])
                    closure = forgotten.closure.receipt_hash if forgotten.closure else None
                    say(did=verb, closure=closure, ids=[one.memory_id for one in forgotten.erased])
                case _:
                    raise ValueError("no such step")
        say(hits=failpoints.hits())


def _new(text: str, user: str, semantic_type: str = "GENERIC", metadata: str = "{}") -> NewMemory:
    return NewMemory(text, user, semantic_type, json.loads(metadata))


def serve() -> None:
    """Run each order in a forked child and say how it ended."""
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(os.open(order.errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
                run(order)
                code = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
